"""Two nodes of Ray on one machine: whatever dies, the grid ends as if nobody had touched it."""

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.harness import digest

from fqf.suite.cluster import cluster, make_order, make_task, ray_executor
from fqf.suite.plan import Resources, SuiteRun
from fqf.suite.scheduler import Ended, schedule

PLAN = """
agents = ["dqn"]
envs = ["classic/cartpole"]
seeds = 3
steps = 24_000
memory_gb = 0.1

[options]
learning_starts_steps = 80
hidden = 6
torso_layers = [5]
batch_size = 4
replay_capacity = 200
target_period_steps = 60
evaluation_episodes = 2
evaluate_every_steps = 12_000
log_every_steps = 200
checkpoint_steps = 1_000
"""


pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
"""Ray forks to start its processes, which JAX minds if an earlier test brought it in; the child soon is another."""


@pytest.fixture(autouse=True, scope="module")
def _quick_children() -> Iterator[None]:
    """They compile little, and find what the others compiled. Ray listens on the loopback interface only."""
    cache = Path(__file__).parents[2] / ".pytest_cache" / "jax"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("JAX_COMPILATION_CACHE_DIR", str(cache)),
            ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1"),
            ("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1"),
            ("RAY_USAGE_STATS_ENABLED", "0"),
            ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"),
        ):
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head that runs nothing, and two nodes with a core each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


def start(runs: Path, cluster: Any) -> subprocess.Popen[str]:
    (runs.parent / "grid.toml").write_text(PLAN)
    command = [sys.executable, "-m", "fqf.cli", "suite", str(runs.parent / "grid.toml"), "--runs", str(runs)]
    return subprocess.Popen([*command, "--address", cluster.address], stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    messages = process.communicate(timeout=900)[1]
    assert process.returncode == 0, messages
    return messages


def wait_until(holds: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    end = time.monotonic() + 400  # on a busy machine a run may take minutes to begin
    while not (found := holds()):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "nothing happened for minutes"
        time.sleep(0.02)
    return found


def saved(runs: Path, after: int = 0) -> Callable[[], list[Path]]:
    """Runs that have a checkpoint at a step after this one, and have not finished."""
    return lambda: [
        path.parents[2]
        for path in runs.glob("*/*/seed*/checkpoints/*/manifest.json")
        if int(path.parent.name) > after and not (path.parents[2] / "summary.json").exists()
    ]


def processes(runs: Path) -> dict[int, str]:
    """Training processes at work below a directory, and their command."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode().split("\0")
            if "train" in words and any(word.startswith(str(runs)) for word in words):
                found[int(path.parent.name)] = " ".join(words)
    return found


def holder(run: Path) -> int:
    return int((run / "lock").read_text())


def ancestors(pid: int) -> list[int]:
    """Its parent, whose parent, and so on: among them is the node that it runs on."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def digests(runs: Path) -> dict[str, dict[str, str]]:
    return {str(path.relative_to(runs)): digest(path) for path in sorted(runs.glob("*/*/seed*"))}


DIES_ONCE = """
import os, pathlib, signal, sys, time
seen = pathlib.Path(sys.argv[1])
if seen.exists():
    sys.exit(0)
seen.touch()
if seen.name == "0":
    os.kill(os.getppid(), signal.SIGKILL)  # the worker, which takes this process with it
    time.sleep(120)
sys.exit(5)
"""


def test_a_killed_worker_is_replaced_and_a_failed_process_retried(nodes, tmp_path):
    """Without training: every job fails once, the first one by killing the worker that started it."""
    runs = tuple(SuiteRun("dqn", "classic/cartpole", seed, 100) for seed in range(3))
    (tmp_path / "output").mkdir()
    told: list[Ended] = []

    def order(run):
        return make_order(run, ["-S", "-c", DIES_ONCE, str(tmp_path / str(run.seed))], tmp_path, tmp_path, Resources())

    task = inspect.unwrap(make_task())  # the checks of types that tests add can't be sent
    with cluster(nodes.address) as ray:
        executor = ray_executor(ray, Resources(memory_gb=0.1), order, task)
        assert executor.slots() == 2
        counts = schedule(runs, executor, 1, lambda run: 0, told.append, lambda flying: None, lambda: False)
    assert counts == {"finished": 3}
    first = {ended.run.seed: ended.outcome for ended in told if ended.verdict == "again"}
    assert {seed: outcome.code for seed, outcome in first.items()} == {0: None, 1: 5, 2: 5}
    assert "its worker was lost" in first[0].message


@pytest.fixture(scope="module")
def calm(nodes, tmp_path_factory) -> dict[str, dict[str, str]]:
    """A grid that nobody disturbs."""
    runs = tmp_path_factory.mktemp("calm") / "runs"
    finish(start(runs, nodes))
    found = digests(runs)
    assert sorted(found) == [f"dqn/classic.cartpole/seed{seed}" for seed in range(3)]
    assert len({each["metrics.jsonl"] for each in found.values()}) == 3
    assert {each["threads"] for each in found.values()} == {"1"}  # as many as the plan has cores for a run
    return found


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["run", "worker"])
def test_a_killed_run_or_worker_is_replaced(nodes, calm, tmp_path, victim):
    process = start(tmp_path / "runs", nodes)
    (run, *_) = wait_until(saved(tmp_path / "runs"), process)
    os.kill(holder(run) if victim == "run" else ancestors(holder(run))[0], signal.SIGKILL)
    messages = finish(process)
    assert "starts again after attempt 1" in messages
    assert ("its worker was lost" in messages) == (victim == "worker")
    assert digests(tmp_path / "runs") == calm


@pytest.mark.slow
def test_a_node_that_is_lost_loses_no_run(nodes, calm, tmp_path):
    runs = tmp_path / "runs"
    process = start(runs, nodes)
    (run, *_) = wait_until(saved(runs), process)
    above = ancestors(holder(run))
    (node,) = [each for each in nodes.worker_nodes if each.all_processes["raylet"][0].process.pid in above]
    nodes.remove_node(node, allow_graceful=False)
    messages = finish(process)
    nodes.add_node(num_cpus=1)
    assert "its worker was lost" in messages
    assert digests(runs) == calm


@pytest.mark.slow
def test_a_driver_that_is_stopped_or_killed_leaves_nothing_behind_and_goes_on(nodes, calm, tmp_path):
    """First by SIGTERM, which lets every run save; then by SIGKILL, which lets nobody do anything."""
    runs = tmp_path / "runs"
    process = start(runs, nodes)
    wait_until(saved(runs), process)
    process.terminate()
    messages = process.communicate(timeout=400)[1]
    assert process.returncode == 143
    assert "stopping: every run saves and ends" in messages
    assert messages.rstrip().endswith(f"--runs {runs} --address {nodes.address}")
    assert "Traceback" not in messages
    assert processes(runs) == {}
    for run in {path.parent for path in runs.glob("*/*/seed*/config.toml")}:  # nothing that was logged is lost
        last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["step"]
        checkpoint = run / "checkpoints" / f"{last:012d}" / "manifest.json"
        assert checkpoint.is_file() or (run / "summary.json").is_file()  # one that is finished needs no checkpoint

    furthest = max(int(path.parent.name) for path in runs.rglob("manifest.json"))
    process = start(runs, nodes)
    wait_until(saved(runs, furthest), process)
    process.kill()
    process.communicate()
    end = time.monotonic() + 60
    while left := processes(runs):
        assert time.monotonic() < end, left
        time.sleep(0.05)
    finish(start(runs, nodes))
    assert digests(runs) == calm
    assert processes(runs) == {}
