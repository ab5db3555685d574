"""A tracker gets every row once, and nothing it does reaches the run. Stand-ins with the real signatures write down
how they were called."""

import ast
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults.conftest import SMALL, stop_after

import fqf
from fqf import cli, tracking
from fqf.commands import training
from fqf.config import to_toml
from fqf.errors import UserError
from fqf.presets import preset
from fqf.progress import Progress
from fqf.rundir import run_path
from fqf.tracking import tracked
from fqf.train import read_group

STANDINS = Path(__file__).parent / "trackers"
FOLLOWER = Path(fqf.__file__).with_name("follower.py")
HEADER = "step,source,seed,epsilon,mean,median,minimum,maximum,mean_length,episodes\n"


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """What the stand-ins have written down, by kind of call."""
    file = tmp_path / "calls.jsonl"
    monkeypatch.syspath_prepend(str(STANDINS))
    monkeypatch.setenv("PYTHONPATH", str(STANDINS), prepend=":")
    monkeypatch.setenv("TRACKER_CALLS", str(file))
    monkeypatch.setenv("WANDB_MODE", "offline")  # should the real one come in
    for name in ("WANDB_PROJECT", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tracking, "POLL_SECONDS", 0.05)

    def read(kind):
        lines = file.read_text().splitlines() if file.exists() else []
        return [call for call in map(json.loads, lines) if call["call"] == kind]

    return read


def make_run(runs, seed=0):
    path = runs / "fqf" / "toy.exponential" / f"seed{seed}"
    path.mkdir(parents=True)
    (path / "config.toml").write_text(f'agent = "fqf"\nenv = "toy/exponential"\nseed = {seed}\n')
    return path


def write_logs(path, steps, evaluations=()):
    """As a run has them after `steps`; each step's loss is a tenth of it, each evaluation's mean a hundredth."""
    rows = [{"step": step, "loss": step / 10, "return": None} for step in steps]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    timing = [{"step": step, "seconds": 1.0, "steps_per_second": 7.0} for step in steps]
    (path / "timing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in timing))
    lines = [f"{step},{source},0,0.001,{step / 100},0,0,0,5,3\n" for step, source in evaluations]
    (path / "evaluations.csv").write_text(HEADER + "".join(lines))


def pass_on(tracker, *paths):
    """One process's life."""
    with Progress("title", 1, quiet=True) as progress, tracked(tracker, paths, progress):
        pass


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_rows_of_two_seeds_with_their_config_and_group(tracker, calls, tmp_path):
    paths = [make_run(tmp_path, seed) for seed in (0, 1)]
    for path in paths:
        write_logs(path, [10, 20], [(0, "train"), (20, "train"), (20, "training"), (20, "evaluate")])
        (path / "summary.json").write_text("{}")
    pass_on(tracker, *paths)
    ids = [json.loads((path / "tracker.json").read_text())["id"] for path in paths]
    assert len(set(ids)) == 2
    begun = calls("init")
    assert [(call["project"], call["group"]) for call in begun] == [("fqf", "fqf/toy/exponential")] * 2
    assert [call["config"]["seed"] for call in begun] == [0, 1]
    names = [f"fqf/toy.exponential/seed{seed}" for seed in (0, 1)]
    assert [call["name"] for call in begun] == (
        names if tracker == "wandb" else [f"{name}-{one}" for name, one in zip(names, ids, strict=True)]
    )
    keys = ids if tracker == "wandb" else [call["name"] for call in begun]
    assert [(call["run"], call["step"]) for call in calls("log")] == [
        (key, step) for key in keys for step in (0, 10, 20)
    ]
    scores = {"mean": 0.2, "median": 0, "minimum": 0, "maximum": 0, "mean_length": 5, "episodes": 3}
    assert calls("log")[2]["metrics"] == {
        "train/loss": 2.0,
        "train/steps_per_second": 7.0,
        **{f"evaluation/{name}": value for name, value in scores.items()},
        **{f"training_score/{name}": value for name, value in scores.items()},
    }
    assert [call["run"] for call in calls("finish")] == keys  # each once, at its own end


def test_a_resumed_run_appends_to_the_same_and_sends_no_row_twice(calls, tmp_path):
    path = make_run(tmp_path)
    write_logs(path, [10, 20, 30], [(0, "train"), (20, "train")])
    pass_on("wandb", path)
    first = json.loads((path / "tracker.json").read_text())
    assert [call["step"] for call in calls("log")] == [0, 10, 20]  # 30 may get an evaluation yet
    assert first["sent"] == 20
    write_logs(path, [10])  # cut back to a checkpoint
    pass_on("wandb", path)
    assert len(calls("log")) == 3
    write_logs(path, [10, 20, 30, 40], [(0, "train"), (20, "train"), (40, "train")])
    (path / "summary.json").write_text("{}")
    pass_on("wandb", path)
    assert [call["step"] for call in calls("log")] == [0, 10, 20, 30, 40]
    assert "evaluation/mean" in calls("log")[-1]["metrics"]
    assert {call["id"] for call in calls("init")} == {first["id"]}
    assert {call["resume"] for call in calls("init")} == {"allow"}
    assert [call["exit_code"] for call in calls("finish")] == [1, 0]


def test_when_the_training_process_is_killed_nothing_more_is_sent(calls, tmp_path):
    path = make_run(tmp_path)
    write_logs(path, [10, 20])
    command = [sys.executable, "-P", str(FOLLOWER), "wandb", "0.05", str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: calls("log"))
    process.stdin.close()  # what the system does for a process that dies
    assert process.wait(60) == 0
    write_logs(path, [10, 20, 30])
    assert [call["step"] for call in calls("log")] == [10]
    assert [call["exit_code"] for call in calls("finish")] == [1]


def test_a_tracker_that_fails_is_named_once_and_tried_again_later(calls, tmp_path, monkeypatch, capfd):
    paths = [make_run(tmp_path, seed) for seed in (0, 1)]
    for path in paths:
        write_logs(path, [10, 20, 30, 40])
    monkeypatch.setenv("TRACKER_BREAKS_AT", "20")
    with Progress("title", 1, quiet=True) as progress, tracked("wandb", paths, progress):
        wait_for(lambda: len(calls("log")) == 2)
        write_logs(path, [10, 20, 30, 40, 50])
    said = capfd.readouterr().err
    assert said.count("fqf: ") == 1
    assert "wandb fails, and is tried again now and then; the run goes on. It says: ConnectionError: the net" in said
    assert [json.loads((path / "tracker.json").read_text())["sent"] for path in paths] == [10, 10]
    monkeypatch.delenv("TRACKER_BREAKS_AT")
    pass_on("wandb", path)
    assert [call["step"] for call in calls("log")] == [10, 10, 20, 30, 40]


def test_a_tracker_that_failed_shortly_before_the_end_is_asked_once_more(calls, tmp_path, monkeypatch):
    path = make_run(tmp_path)
    write_logs(path, [10, 20, 30])
    monkeypatch.setenv("TRACKER_BREAKS_ONCE_AT", "20")
    with Progress("title", 1, quiet=True) as progress, tracked("wandb", [path], progress):
        wait_for(lambda: calls("failed"))  # it would be asked again in a minute
        write_logs(path, [10, 20, 30, 40])
    assert [call["step"] for call in calls("log")] == [10, 20, 30]
    assert len(calls("finish")) == 1


def test_a_tracker_that_hangs_is_left_behind(calls, tmp_path, monkeypatch, capfd):
    path = make_run(tmp_path)
    write_logs(path, [10, 20])
    monkeypatch.setenv("TRACKER_SLEEPS", "3600")
    monkeypatch.setattr(tracking, "GRACE_SECONDS", 1.0)
    pass_on("wandb", path)
    assert "fqf: wandb has not ended within 1 s, so its last rows may be missing there" in capfd.readouterr().err


def test_a_missing_package_is_one_line_before_anything_starts(tmp_path, monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "trackio" else find_spec(name, *rest)
    )
    assert cli.main(["train", "--track", "trackio", "--runs", str(tmp_path / "runs")]) == 2
    assert (
        "fqf: track is 'trackio', but trackio is not installed: pip install 'fqf[trackio]'" in capsys.readouterr().err
    )
    assert not (tmp_path / "runs").exists()


def test_an_unknown_tracker_is_refused_with_the_nearest(capsys):
    assert cli.main(["train", "--track", "wandbb"]) == 2
    assert capsys.readouterr().err == "fqf: --track is 'wandbb'; did you mean 'wandb'? (see fqf train --help)\n"
    with pytest.raises(UserError, match=r"track is 'tracko'; did you mean 'trackio'\?"):
        fqf.train("toy/exponential", track="tracko")


@pytest.mark.parametrize("tracker", ["none", "wandb"])
def test_train_resume_goes_on_with_the_tracker_that_it_is_told_now(tracker, calls, tmp_path, monkeypatch):
    config = preset("dqn", "classic/cartpole")
    run_path(tmp_path, config).mkdir(parents=True)
    (run_path(tmp_path, config) / "config.toml").write_text(to_toml(config))
    told = []

    def go_on(paths, quiet, track):
        told.append((paths, track))
        raise UserError("enough")

    monkeypatch.setattr(training, "go_on", go_on)
    assert cli.main(["train", "--agent", "dqn", "--runs", str(tmp_path), "--resume", "--track", tracker]) == 2
    assert told == [([run_path(tmp_path, config)], tracker)]


def test_the_follower_needs_nothing_of_fqf():
    modules = [node.module for node in ast.walk(ast.parse(FOLLOWER.read_text())) if isinstance(node, ast.ImportFrom)]
    assert not any(module.startswith("fqf") for module in modules)


def test_a_tracked_run_stopped_and_resumed_leaves_the_same_bytes(compile_quickly, calls, tmp_path):
    calm = fqf.train("classic/cartpole", runs=tmp_path / "calm", **SMALL).path
    stop_after(300, lambda: fqf.train("classic/cartpole", runs=tmp_path / "runs", track="wandb", **SMALL))
    path = tmp_path / "runs" / "fqf" / "classic.cartpole" / "seed0"
    assert 0 < len(calls("log")) < 9
    assert read_group(path, {}).how.track == "wandb"
    assert read_group(path, {"track": "none"}).how.track == "none"
    assert fqf.resume(path, quiet=True).path == path
    for name in ("metrics.jsonl", "evaluations.csv", "policy/params.safetensors", "config.toml"):
        assert (path / name).read_bytes() == (calm / name).read_bytes(), name
    sent = [call["step"] for call in calls("log")]
    logged = [json.loads(line)["step"] for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert sent == [0, *logged]
    assert len({call["id"] for call in calls("init")}) == 1
