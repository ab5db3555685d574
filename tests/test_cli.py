"""What a person types, and what they get back."""

import subprocess
import sys

import pytest

from fqf.cli import main

pytestmark = pytest.mark.usefixtures("compile_quickly")

FAST = "--steps 300 --learning-starts-steps 100 --num-fractions 3 --hidden 8 --batch-size 8 --evaluation-episodes 4"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("trian", "unknown command 'trian'; did you mean 'train'?"),
        ("train --agent fqq", "unknown agent 'fqq'; did you mean 'fqf'?"),
        ("train --env classic/cartpol", "did you mean 'classic/cartpole'?"),
        ("train --lerning-rate 1", "unknown option --lerning-rate; did you mean '--learning-rate'?"),
        ("train --num-fractions 0", "num_fractions is 0, but must be at least 1"),
        ("train --batch-size 5_000_000", "batch_size is 5000000, but must be at most replay_capacity"),
        ("train --learning-rate -1", "learning_rate is -1.0, but must be 0 or more"),
        ("train --steps many", "--steps is 'many', but must be a whole number (see fqf train --help)"),
        ("train --steps 1e6", "--steps is '1e6', but must be a whole number"),
        ("train --learning-rate z", "--learning-rate is 'z', but must be a number"),
        ("train --torso-layers 3 z", "--torso-layers is '3', 'z', but must be whole numbers"),
        ("train --fractions proposd", "did you mean 'proposed'?"),
        ("train --steps", "--steps has no value"),
        ("train --seeds 0", "seeds is 0, but must be at least 1"),
        ("train stray", "stray"),
        ("train --agent dqn --num-atoms 5", "--num-atoms is not an option of this agent; it is one of c51, rainbow"),
        ("train --agent dqn --priority-exponent 0.6", "--priority-exponent has no effect on uniform replay: add"),
        ("train --agent iqn --fractions uniform", "--fractions is not an option of this agent; it is one of fqf"),
        ("train --env atari/brakeout", "did you mean 'atari/breakout'?"),
        ("train --env atari/pong --frame-skip 0", "frame_skip is 0, but must be at least 1"),
        (
            "train --env atari/pong --evaluation-episodes 9",
            "has no effect beside --evaluation-steps 125000: set that to 0",
        ),
        ("train --env gym/CartPole-v1 --lanes 0", "lanes is 0, but must be at least 1"),
        ("train --env gym/Pendulum-v1", "these agents choose among a finite number: Discrete(n)"),
        ("train --env gym/no_such_module:A-v0", "can't import 'no_such_module'"),
        ("train --evaluation-steps 9", "--evaluation-steps has no effect on classic/cartpole"),
        ("train --episode-cap-steps 9", "--episode-cap-steps is an option of gym/ environments only"),
        ("train --torso minatar", "torso is 'minatar', which does not fit observations of shape (4,)"),
        ("train --steps 1001", "steps is 1001, but must be at least 1004"),
        ("train --config missing.toml", "can't read config file missing.toml"),
        ("evaluate nowhere", "nowhere holds no finished run"),
        ("evaluate", "PATH"),
        ("evaluate nowhere --episodes z", "--episodes is 'z', but must be a whole number"),
        ("evaluate nowhere --epsiln 1", "did you mean '--epsilon'?"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("fqf: ")
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert list(tmp_path.iterdir()) == []


def test_help_names_commands_agents_and_environments(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("train", "evaluate", "fqf_consistent", "minatar/breakout", "toy/exponential"))


def test_help_of_train_documents_every_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in ("--num-fractions INT", "--seeds INT", "--config", "RMSProp's rate", "--overwrite", "--torso"):
        assert words in text
    # Every option has a sentence between its name and its default.
    assert "INT (default" not in text
    assert "FLOAT (default" not in text


def test_train_then_evaluate(capsys, tmp_path):
    config = tmp_path / "my.toml"
    config.write_text('env = "classic/cartpole"\nnum_fractions = 4\nseed = 3\ntorso_layers = [5]\nquiet = true\n')
    arguments = f"train --config {config} {FAST} --runs {tmp_path / 'runs'}"
    assert main(arguments.split()) == 0
    text = capsys.readouterr().out
    path = tmp_path / "runs" / "fqf" / "classic.cartpole" / "seed3"
    assert str(path) in text
    assert "return before" in text
    assert "try next" in text
    resolved = (path / "config.toml").read_text()
    assert "num_fractions = 3" in resolved  # the flag wins over the file
    assert "    5,\n" in resolved or "torso_layers = [5]" in resolved

    assert main(["evaluate", str(path), "--episodes", "7", "--epsilon", "1"]) == 0
    assert "classic/cartpole" in capsys.readouterr().out
    last = (path / "evaluations.csv").read_text().splitlines()[-1].split(",")
    assert last[1] == "evaluate"
    assert last[-1] == "7"

    assert main(arguments.split()) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*arguments.split(), "--overwrite"]) == 0


def test_one_command_begins_a_run_goes_on_with_it_and_finds_it_finished(capsys, tmp_path):
    arguments = [*f"train {FAST} --torso-layers 5 --runs {tmp_path} --quiet --resume".split()]
    path = tmp_path / "fqf" / "classic.cartpole" / "seed0"
    assert main(arguments) == 0
    metrics = (path / "metrics.jsonl").read_bytes()
    capsys.readouterr()

    assert main(arguments) == 0
    assert capsys.readouterr().out == f"{path} is finished\n"

    (path / "summary.json").unlink()  # as if it had been killed before its first checkpoint
    assert main(arguments) == 0
    assert "has no checkpoint yet: it starts again at step 0" in capsys.readouterr().err
    assert (path / "summary.json").is_file()
    assert (path / "metrics.jsonl").read_bytes() == metrics

    assert main([*arguments, "--hidden", "9"]) == 2
    line = capsys.readouterr().err
    assert line == f"fqf: {path} holds a run with other options, so it can't be resumed: hidden is 8 there and 9 here\n"


def test_fractions_compares_four_sources(capsys, tmp_path):
    arguments = f"fractions {FAST} --torso-layers 5 --runs {tmp_path} --quiet --seeds 2".split()
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("proposed", "frozen", "uniform", "random", "picture"))
    for kind in ("proposed", "frozen", "uniform", "random"):
        config = (tmp_path / "fractions" / kind / "fqf" / "classic.cartpole" / "seed1" / "config.toml").read_text()
        assert f'fractions = "{kind}"' in config
    assert (tmp_path / "fractions" / "fqf.classic.cartpole.png").read_bytes().startswith(b"\x89PNG")
    assert main(arguments) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["fractions", "--agent", "dqn", "--runs", str(tmp_path)]) == 2
    assert "dqn has no fractions to choose; agents that have: fqf, fqf_consistent" in capsys.readouterr().err


@pytest.mark.parametrize("agent", ["dqn", "c51", pytest.param("fqf_rainbow", marks=pytest.mark.slow)])
def test_every_kind_of_agent_trains_and_is_drawn(agent, tmp_path):
    arguments = "--steps 300 --learning-starts-steps 100 --hidden 8 --batch-size 8 --evaluation-episodes 4 --quiet"
    assert main(f"train --agent {agent} --runs {tmp_path} --torso-layers 5 {arguments}".split()) == 0
    assert (tmp_path / agent / "classic.cartpole" / "seed0" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_is_installed():
    answer = subprocess.run([sys.executable, "-m", "fqf.cli", "trian"], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 2
    assert answer.stderr == "fqf: unknown command 'trian'; did you mean 'train'?\n"


RAISING = """
import gymnasium, numpy

class Raising(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    played = 0

    def reset(self, *, seed=None, options=None):
        return numpy.zeros(2, "float32"), {}

    def step(self, action):
        Raising.played += 1
        if Raising.played > 150:
            raise RuntimeError("the floor\\nis gone")
        return numpy.ones(2, "float32"), 1.0, self.played % 9 == 0, False, {}

gymnasium.register("Raising-v0", Raising)
"""


def test_an_environment_that_raises_in_step_is_one_line_and_the_run_can_be_resumed(capsys, tmp_path, monkeypatch):
    """The module is found in the current directory."""
    (tmp_path / "falling.py").write_text(RAISING)
    monkeypatch.chdir(tmp_path)
    arguments = "train --env gym/falling:Raising-v0 --learning-starts-steps 70 --evaluation-episodes 2 --quiet"
    assert main(arguments.split()) == 2
    assert capsys.readouterr().err == "fqf: gym/falling:Raising-v0 raised in step: RuntimeError: the floor is gone\n"
    run = tmp_path / "runs" / "fqf" / "gym.falling:Raising-v0" / "seed0"
    assert (run / "config.toml").is_file()
    assert not (run / "summary.json").exists()
