"""`fqf suite` as a person types it, with an executor that writes the files a run would leave."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import types
from dataclasses import replace
from pathlib import Path

import pytest

from fqf.cli import main
from fqf.config import override, to_toml
from fqf.errors import UserError
from fqf.options import read_train_options
from fqf.presets import preset
from fqf.report.collected import write_collected
from fqf.report.records import Curve, RunRecord
from fqf.suite import command
from fqf.suite.cluster import devices, environment_to_send, refuse_larger_than_any_node, refuse_unreachable, room
from fqf.suite.orders import job_line, option_flags, resolve
from fqf.suite.plan import SuiteRun, find_plan
from fqf.suite.scheduler import Executor, Outcome

GRID = "--agents dqn,fqf --envs classic/cartpole --seeds 2 --steps 4_000"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("suite", "the command line has no agents: the plan is empty"),
        ("suite smok", "unknown plan 'smok'; did you mean 'smoke'?"),
        ("suite missing.toml", "can't read config file missing.toml"),
        ("suite smoke --agents dqn,fqq", "unknown agent 'fqq' in plan smoke; did you mean 'fqf'?"),
        ("suite smoke --envs classic/cartpol", "did you mean 'classic/cartpole'?"),
        ("suite --agents dqn --envs classic/cartpole --seeds 2", "does not say for how many steps"),
        ("suite smoke --steps 5", "steps is 5, but must be at least"),
        ("suite smoke --options hidden", "option 'hidden' must be name=value, such as num_fractions=8"),
        ("suite smoke --options hiden=3", "unknown key 'hiden' in plan smoke; did you mean 'hidden'?"),
        ("suite smoke --sedes 3", "unknown option --sedes; did you mean '--seeds'?"),
        ("suite smoke --cpus 0", "cpus is 0, but must be a whole number, at least 1"),
        (
            "suite fractions --options fractions=random",
            "--options fractions would do nothing where variants.proposed in",
        ),
        ("suite status smok", "unknown plan 'smok'; did you mean 'smoke'?"),
        ("suite smoke --jobs .", "can't write jobs into .: name a file in a directory that is there, such as jobs.txt"),
        ("suite smoke --jobs nowhere/jobs.txt", "can't write jobs into nowhere/jobs.txt: name a file in a directory"),
        ("suite smoke --steps many", "--steps is 'many', but must be a whole number (see fqf suite --help)"),
        ("suite smoke --memory-gb much", "--memory-gb is 'much', but must be a number (see fqf suite --help)"),
        ("suite smoke --track wandbb", "track is 'wandbb'; did you mean 'wandb'?"),
        ("suite status", "no suite was started in runs: name the plan, or the directory given as --runs"),
        ("suite status .", "no suite was started in .: name the plan, or the directory given as --runs"),
        ("train --resume --seeds 3", "--resume is for one seed"),
        ("fractions --resume", "fqf fractions does not resume; `fqf suite fractions`"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert list(tmp_path.iterdir()) == []


def test_help_documents_every_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["suite", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in ("--agents", "--dry-run", "--jobs", "--address", "fqf suite status PLAN"):
        assert words in text


class Pretended:
    """Every run finishes at once, but for those whose id has an outcome of its own."""

    def __init__(self, runs, outcomes):
        self.runs, self.outcomes, self.orders, self.handles = runs, outcomes, [], {}

    def make(self, ray, resources, order):
        return Executor(lambda: 2, lambda run: self.submit(run, order(run)), self.wait, lambda handle: None)

    def submit(self, run, order):
        self.orders.append(order)
        self.handles[len(self.orders)] = run
        return len(self.orders)

    def wait(self, handles):
        run = self.handles[handles[0]]
        outcome = self.outcomes.get(run.id, Outcome(0))
        if outcome.code == 0:
            path = self.runs / run.id
            path.mkdir(parents=True, exist_ok=True)
            (path / "config.toml").write_text(to_toml(resolve([run], "")[run]))
            (path / "summary.json").write_text("{}")
        return [(handles[0], outcome)]


@pytest.fixture
def pretend(monkeypatch, tmp_path):
    def make(outcomes=None):
        pretended = Pretended(tmp_path, outcomes or {})
        monkeypatch.setattr(command, "cluster", lambda address: contextlib.nullcontext())
        monkeypatch.setattr(command, "ray_executor", pretended.make)
        return pretended

    return make


def suite(tmp_path, *more):
    return main(["suite", *GRID.split(), "--runs", str(tmp_path), *more])


def scores_file(path, *agents, finished=True, seed=0, **options):
    """A file of collected scores as `studies/collect.py` writes them, of agents on CartPole."""
    runs = []
    for agent in agents:
        config = override(preset(agent, "classic/cartpole"), {"steps": 4_000, **options})
        whole = tomllib.loads(to_toml(replace(config, seed=seed)))
        record = RunRecord(path, whole, Curve((0, 4_000), (9.0, 99.0)), (10, 10), finished, {"commit": "abc1234"}, None)
        runs.append((f"{agent}/classic.cartpole/seed{seed}", "", record))
    path.write_text(write_collected(runs))
    return str(path)


def test_what_a_file_of_scores_has_is_not_run_again(pretend, tmp_path, capsys):
    kept = scores_file(tmp_path / "kept.csv", "dqn", "fqf")
    other = scores_file(tmp_path / "other.csv", "dqn", seed=1)
    executor = pretend()
    assert suite(tmp_path / "runs", "--collected", kept, other, "--jobs", str(tmp_path / "jobs.txt")) == 0
    lines = (tmp_path / "jobs.txt").read_text().splitlines()
    assert len(lines) == 1
    assert "--agent fqf" in lines[0]
    assert "--seed 1" in lines[0]
    executor.runs = tmp_path / "runs"
    assert suite(tmp_path / "runs", "--collected", kept, other) == 0
    assert len(executor.orders) == 1
    assert "3 of the plan's runs are in files of scores, and are not run again" in capsys.readouterr().err


@pytest.mark.parametrize("unlike", [{"finished": False}, {"hidden": 7}, {"seed": 5}])
def test_only_the_same_finished_run_counts(unlike, pretend, tmp_path):
    executor = pretend()
    assert suite(tmp_path, "--collected", scores_file(tmp_path / "kept.csv", "dqn", **unlike)) == 0
    assert len(executor.orders) == 4


def test_a_grid_that_is_all_collected_starts_nothing(pretend, tmp_path, capsys):
    executor = pretend()
    kept = scores_file(tmp_path / "kept.csv", "dqn", "fqf"), scores_file(tmp_path / "more.csv", "dqn", "fqf", seed=1)
    assert suite(tmp_path / "runs", "--collected", *kept) == 0
    assert executor.orders == []
    assert "all 4 runs of the plan are in files of scores" in capsys.readouterr().err


def test_a_file_that_holds_no_scores_is_refused(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert suite(tmp_path, "--collected", str(tmp_path / "a.csv")) == 2
    assert "is not a file of collected scores: it has no column run" in capsys.readouterr().err
    damaged = scores_file(tmp_path / "b.csv", "dqn")
    Path(damaged).write_text(Path(damaged).read_text().replace("99.0", "many"))
    assert suite(tmp_path, "--collected", damaged) == 2
    assert f"{damaged}/dqn/classic.cartpole/seed0: a row is damaged" in capsys.readouterr().err


def test_a_suite_runs_what_is_left_and_reports_what_failed(pretend, tmp_path, capsys):
    failing = {
        "fqf/classic.cartpole/seed1": Outcome(1, "fqf: out of paper"),
        "dqn/classic.cartpole/seed0": Outcome(3, "nan"),
    }
    first = pretend(failing)
    assert suite(tmp_path, "--retries", "1") == 1
    captured = capsys.readouterr()
    assert (
        "2 of 4 runs did not finish; the first: dqn/classic.cartpole/seed0 diverged: nan"
        in captured.err.splitlines()[-1]
    )
    assert len(first.orders) == 2 + 2 + 1  # finished, retried, diverged
    assert captured.out.splitlines()[-1] == "grid: 2 of 4 finished, 1 failed, 1 diverged"

    assert main(["suite", "status", str(tmp_path)]) == 0
    assert capsys.readouterr().out == captured.out
    assert main(["suite", "status", "--runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == captured.out

    again = pretend()
    assert suite(tmp_path) == 0
    assert sorted(Path(order["directory"]).relative_to(tmp_path).as_posix() for order in again.orders) == sorted(
        failing
    )
    assert "grid: 4 of 4 finished" in capsys.readouterr().out

    third = pretend()
    assert suite(tmp_path) == 0
    assert third.orders == []


def test_an_order_is_small_and_names_the_run(pretend, tmp_path):
    pretended = pretend()
    suite(
        tmp_path,
        "--cpus",
        "3",
        "--options",
        "torso_layers=[5, 6]",
        "double=true",
        "fractions=uniform",
        "--agents",
        "fqf",
    )
    order = pretended.orders[0]
    assert order["cores"] == 3
    assert order["shared"] == str(tmp_path / "suite" / "grid")
    assert order["arguments"][:3] == ["-m", "fqf.cli", "train"]
    assert shlex.join(order["arguments"][3:]) == (
        "--agent fqf --env classic/cartpole --seed 0 --steps 4000 --torso-layers 5 6 --double --fractions=uniform "
        f"--runs {tmp_path} --resume --quiet"
    )
    assert len(repr(order)) < 3_000


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_every_run_is_told_its_tracker_as_train_reads_it(tracker, pretend, tmp_path, monkeypatch):
    """By the flag, which goes before the plan's own; in orders, in jobs, and in the plan that is kept."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "trackers"))
    pretended = pretend()
    plan = tmp_path / "mine.toml"
    other = {"wandb": "trackio", "trackio": "wandb"}[tracker]
    plan.write_text(
        f'agents = ["dqn"]\nenvs = ["classic/cartpole"]\nseeds = 2\nsteps = 4000\noptions.track = "{other}"\n'
    )
    said = ["suite", str(plan), "--runs", str(tmp_path), "--track", tracker]
    assert main([*said, "--jobs", str(tmp_path / "jobs.txt")]) == 0
    assert main(said) == 0
    lines = [order["arguments"][3:] for order in pretended.orders]
    lines += [shlex.split(line.partition(" train ")[2]) for line in (tmp_path / "jobs.txt").read_text().splitlines()]
    assert [read_train_options(line).launch.track for line in lines] == [tracker] * 4
    assert find_plan(str(tmp_path / "suite" / "mine" / "plan.toml"))[1]["options"] == {"track": tracker}
    pretended.orders.clear()
    shutil.rmtree(tmp_path / "dqn")
    assert main([*said[:-1], "none"]) == 0
    assert [read_train_options(order["arguments"][3:]).launch.track for order in pretended.orders] == ["none"] * 2


def test_a_signal_stops_the_suite_with_a_line_that_says_how_to_go_on(pretend, tmp_path, capsys):
    pretended = pretend()
    wait, waits = pretended.wait, iter([True])

    def wait_and_be_told(handles):
        """The first run finishes; then somebody stops the suite, and the others save."""
        if next(waits, False):
            os.kill(os.getpid(), signal.SIGTERM)
            return wait(handles)
        return [(handles[0], Outcome(143))]

    pretended.wait = wait_and_be_told
    assert suite(tmp_path) == 143
    lines = capsys.readouterr().err.splitlines()
    assert "fqf: stopping: every run saves and ends; once more to stop at once, without" in lines
    assert lines[-1] == (
        f"fqf: stopped by SIGTERM; 1 of 4 runs are finished; go on: fqf suite {GRID} --runs {tmp_path}"
    )
    assert len(pretended.orders) == 2


def test_directories_that_hold_other_runs_are_refused(pretend, tmp_path, capsys):
    pretend()
    assert suite(tmp_path) == 0
    pretended = pretend()
    assert suite(tmp_path, "--options", "hidden=7") == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert (
        "holds a run with other options than the plan's: hidden is 128 there and 7 here; choose another --runs" in line
    )
    assert pretended.orders == []


def test_two_suites_of_one_plan_do_not_run_at_once(pretend, tmp_path, capsys):
    pretend()
    (tmp_path / "suite" / "grid").mkdir(parents=True)
    lock = command.Lock(tmp_path / "suite" / "grid")
    assert suite(tmp_path) == 2
    lock.release()
    assert f"{tmp_path / 'suite' / 'grid'} is in use by process {os.getpid()}" in capsys.readouterr().err


def test_a_plan_of_ones_own_is_named_after_its_file_and_flags_change_it(pretend, tmp_path, capsys):
    plan = tmp_path / "mine.toml"
    plan.write_text(
        'agents = ["dqn"]\nenvs = ["classic/cartpole"]\nseeds = 3\nsteps = 4000\n[variants.a]\nhidden = 7\n'
    )
    pretend()
    assert main(["suite", str(plan), "--runs", str(tmp_path), "--seeds", "1"]) == 0
    assert (tmp_path / "a" / "dqn" / "classic.cartpole" / "seed0" / "summary.json").is_file()
    assert main(["suite", "status", str(plan), "--runs", str(tmp_path)]) == 0
    assert "mine: 1 of 3 finished, 2 waiting" in capsys.readouterr().out


def test_dry_run_starts_nothing_and_says_what_it_does_not_know(tmp_path, capsys):
    assert main(["suite", "smoke", "--runs", str(tmp_path / "runs"), "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "fqf/minatar.breakout" in text
    assert "8 runs, 0 of them finished" in text
    assert "each asks for 1 CPUs, 1 GB of memory, 0 GPUs" in text
    assert "and 8 runs whose speed nobody has measured" in text
    assert list(tmp_path.iterdir()) == []


def test_jobs_are_one_command_per_line_that_a_shell_reads_as_it_was_meant(tmp_path, capsys):
    runs = tmp_path / "a place; for 'runs'"
    assert main(["suite", *GRID.split(), "--runs", str(runs), "--jobs", str(tmp_path / "jobs.txt")]) == 0
    lines = (tmp_path / "jobs.txt").read_text().splitlines()
    assert len(lines) == 4
    assert "4 commands in" in capsys.readouterr().out
    words = subprocess.run(["sh", "-c", f"printf '%s\\n' {lines[3]}"], capture_output=True, text=True, check=True)
    assert words.stdout.splitlines()[-4:] == ["--runs", str(runs), "--resume", "--quiet"]
    assert not runs.exists()


def test_flags_are_as_train_takes_them():
    options = {"double": False, "torso_layers": (5,), "learning_rate": 1e-05, "protocol": "paper"}
    expected = ["--no-double", "--torso-layers", "5", "--learning-rate=1e-05", "--protocol=paper"]
    assert option_flags(options) == expected
    run = SuiteRun("dqn", "classic/cartpole", 1, 9, "wide", tuple(options.items()))
    assert "--runs /runs/wide" in job_line(run, Path("/runs"), ["fqf"])


def test_a_node_that_can_run_nothing_ends_the_suite_and_does_not_use_up_its_runs(pretend, tmp_path, capsys):
    executor = pretend({"dqn/classic.cartpole/seed0": Outcome(None, "moon does not see /runs", unfit=True)})
    assert suite(tmp_path) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("fqf: moon does not see /runs; the runs of other nodes were saved and stopped; once it is")
    assert len(executor.orders) == 2  # both that were in flight; nobody new
    executor.outcomes.clear()
    assert suite(tmp_path) == 0


def test_options_of_all_do_not_hide_behind_those_of_one(tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    head = 'agents = ["dqn", "fqf"]\nenvs = ["classic/cartpole", "minatar/breakout"]\nseeds = 1\nsteps = 9_000\n'
    plan.write_text(f"{head}[options.fqf]\nhidden = 7\n")
    assert main(["suite", str(plan), "--options", "hidden=8", "--dry-run"]) == 2
    assert f"--options hidden would do nothing where options.fqf in plan {plan} sets it" in capsys.readouterr().err
    plan.write_text(f"options = 3\n{head}")
    assert main(["suite", str(plan), "--options", "hidden=8", "--dry-run"]) == 2
    assert capsys.readouterr().err == "fqf: options is 3, but must be a table\n"


def test_a_plan_may_name_an_environment_that_flags_have_left_out(tmp_path):
    plan = tmp_path / "plan.toml"
    head = 'agents = ["dqn"]\nenvs = ["classic/cartpole", "minatar/breakout"]\nseeds = 1\nsteps = 9_000\n'
    plan.write_text(f'{head}[options."minatar/breakout"]\nhidden = 7\n')
    arguments = ["suite", str(plan), "--envs", "classic/cartpole", "--jobs", str(tmp_path / "jobs.txt")]
    assert main([*arguments, "--runs", str(tmp_path)]) == 0
    assert "hidden" not in (tmp_path / "jobs.txt").read_text()


# Ray, as far as that goes without it


def test_without_ray_one_line_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert suite(tmp_path) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "fqf: a suite needs Ray: pip install 'fqf[cluster]' (or use --jobs, which does not)"


def test_a_ray_that_does_not_start_is_told_in_one_line_and_nothing_of_it_is_left(tmp_path, capsys, monkeypatch):
    """On a machine that is too busy Ray gives up with a bare Exception."""
    ended = []

    def init(*arguments, **options):
        raise Exception("The current node timed out\nduring startup.")

    standin = types.SimpleNamespace(init=init, shutdown=lambda: ended.append(True))
    monkeypatch.setitem(sys.modules, "ray", standin)
    assert suite(tmp_path) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "fqf: Ray did not start on this machine: The current node timed out during startup."
    assert ended == [True]


def test_ray_comes_in_only_for_a_suite():
    code = "import sys, fqf.cli, fqf.suite.command; print('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_room_is_what_the_scarcest_resource_leaves():
    node = {"CPU": 7.0, "memory": 20e9, "GPU": 1.0}
    assert room(node, {"CPU": 2.0, "memory": 1e9, "GPU": 0.0}) == 3
    assert room(node, {"CPU": 2.0, "memory": 8.5e9, "GPU": 0.0}) == 2
    assert room(node, {"CPU": 1.0, "memory": 1e9, "GPU": 0.1}) == 7
    assert room(node, {"CPU": 1.0, "memory": 0.0, "GPU": 0.25}) == 4
    assert room({"CPU": 7.0}, {"CPU": 1.0, "memory": 1e9}) == 0


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        ({"CPU": 9.0, "memory": 1e9, "GPU": 0.0}, "a run asks for 9 CPUs, but the largest node has 8 CPUs: lower cpus"),
        (
            {"CPU": 1.0, "memory": 33e9, "GPU": 0.0},
            "33 GB of memory, but the largest node has 32 GB of memory: lower memory_gb",
        ),
        ({"CPU": 1.0, "memory": 1e9, "GPU": 1.0}, "a run asks for 1 GPUs, but the largest node has 0 GPUs: lower gpus"),
        ({"CPU": 8.0, "memory": 32e9, "GPU": 0.0}, "no node has the CPUs, the memory and the GPUs"),
    ],
)
def test_a_demand_that_no_node_meets_is_refused_and_not_waited_for(demand, words):
    nodes = [{"CPU": 8.0, "memory": 4e9}, {"CPU": 2.0, "memory": 32e9}]
    with pytest.raises(UserError) as error:
        refuse_larger_than_any_node(nodes, demand)
    assert words in str(error.value)


def test_runs_keep_off_gpus_that_they_did_not_ask_for_and_share_one_fairly():
    assert devices(0.0) == {"JAX_PLATFORMS": "cpu"}
    assert devices(0.5) == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.450"}
    assert devices(1.0) == devices(2.0) == {}


def test_what_is_sent_to_other_machines(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    there = {
        "PYTHONPATH": "src:/lib",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "-x",
        "HOME": "/me",
        "WANDB_API_KEY": "secret",
        "WANDB_MODE": "offline",
    }
    assert environment_to_send(there) == {
        "PYTHONPATH": f"{tmp_path / 'src'}:/lib",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "-x",
        "WANDB_MODE": "offline",
    }


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nonsense", "address is 'nonsense', but must be auto, or host:port, such as 10.0.0.1:6379"),
        ("ray://somewhere:10001", "must be auto, or host:port"),
        (
            "127.0.0.1:1",
            "no Ray cluster at 127.0.0.1:1 ([Errno 111] Connection refused): start one with `ray start --head`",
        ),
        ("127.0.0.1:99999", "no Ray cluster at 127.0.0.1:99999"),
    ],
)
def test_an_address_where_nobody_answers_is_refused_at_once(address, words):
    with pytest.raises(UserError) as error:
        refuse_unreachable(address)
    assert words in str(error.value)
