"""SIGKILL at random moments: whatever is left behind, the run ends as if nobody had touched it."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults.harness import digest, digests, newest_files, start, torment
from faults.victim import run_directory

from fqf.agents import AGENTS
from fqf.errors import UserError
from fqf.files import Lock

SMALL = {
    "steps": 480,
    "learning_starts_steps": 80,
    "hidden": 6,
    "batch_size": 4,
    "replay_capacity": 200,
    "target_period_steps": 60,
    "log_every_steps": 40,
    "checkpoint_steps": 40,
}
CARTPOLE = {
    **SMALL,
    "environment": "classic/cartpole",
    "torso_layers": [5],
    "evaluation_episodes": 2,
    "evaluate_every_steps": 240,
}
# Sticky actions, priorities, two lanes, and episodes so short that lanes end and start at different times.
ATARI = {
    **SMALL,
    "environment": "atari/breakout",
    "agent": "fqf",
    "protocol": "dopamine",
    "replay": "prioritized",
    "num_fractions": 4,
    "lanes": 2,
    "episode_cap_frames": 300,
    "evaluation_steps": 20,
    "evaluation_lanes": 2,
    "evaluate_every_steps": 240,
}


@pytest.fixture(autouse=True)
def _quick_children(monkeypatch):
    """They compile little, and find what the others compiled."""
    cache = Path(__file__).parents[2] / ".pytest_cache" / "jax"
    for name, value in (
        ("JAX_COMPILATION_CACHE_DIR", str(cache)),
        ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1"),
        ("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1"),
        ("JAX_DISABLE_MOST_OPTIMIZATIONS", "1"),
    ):
        monkeypatch.setenv(name, value)


def finish_calmly(runs: Path, jobs: list[dict]) -> None:
    process = start(runs, jobs)
    messages = process.communicate()[1]
    assert process.returncode == 0, messages


@pytest.mark.parametrize("half", [0, 1])
def test_every_agent_survives_kills(tmp_path, half):
    """One process trains one agent after the other, and is killed about twice while it works on each."""
    jobs = [{**CARTPOLE, "agent": agent} for agent in list(AGENTS)[half::2]]
    finish_calmly(tmp_path / "calm", jobs)
    outcome = torment(tmp_path / "storm", jobs, kills=2 * len(jobs), rng=random.Random(half))
    assert outcome.kills >= len(jobs)
    assert digests(tmp_path / "storm", jobs) == digests(tmp_path / "calm", jobs)


def test_atari_survives_kills_with_sticky_actions_and_priorities(tmp_path):
    finish_calmly(tmp_path / "calm", [ATARI])
    outcome = torment(tmp_path / "storm", [ATARI], kills=3, rng=random.Random(2))
    assert outcome.kills == 3
    assert digests(tmp_path / "storm", [ATARI]) == digests(tmp_path / "calm", [ATARI])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_after_a_checkpoint_with_a_line_that_says_how_to_go_on(tmp_path, number):
    job = {**CARTPOLE, "agent": "dqn", "steps": 100_000, "checkpoint_steps": 0}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in job.items() if name not in ("environment",)]
    flags = [flag.replace("--torso-layers=[5]", "--torso-layers") for flag in flags]
    flags = [part for flag in flags for part in ([flag, "5"] if flag == "--torso-layers" else [flag])]
    # Tests may run in the background, where a shell lets processes ignore SIGINT; a terminal does not.
    heed = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heed}; from fqf.cli import main; sys.exit(main())", "train", *flags]
    process = subprocess.Popen([*command, "--runs", str(tmp_path)], stderr=subprocess.PIPE, text=True)
    run = run_directory(tmp_path, job)
    while not (run / "metrics.jsonl").is_file() or (run / "metrics.jsonl").read_text().count("\n") < 5:
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(number)
    messages = process.communicate(timeout=300)[1]
    assert process.returncode == 128 + number
    assert "stopping at the next log line, with a checkpoint" in messages
    assert messages.rstrip().endswith(f"stopped by {number.name}; go on: fqf resume {run}")
    assert "Traceback" not in messages
    (manifest,) = newest_files(tmp_path)
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    assert Path(manifest).parent.name == f"{last:012d}"  # nothing that was logged is lost


def test_a_dead_process_holds_no_lock(tmp_path):
    code = "import sys, time; from pathlib import Path; from fqf.files import Lock; Lock(Path(sys.argv[1])); print(1)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}; sys.stdout.flush(); time.sleep(60)", str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"1\n"
    with pytest.raises(UserError, match=f"in use by process {process.pid}"):
        Lock(tmp_path)
    process.kill()
    process.communicate()
    Lock(tmp_path).release()


def test_a_disk_that_takes_no_more_costs_checkpoints_and_not_the_run(tmp_path, monkeypatch):
    """A limit on the size of files stands for it: policies and logs fit, states of learners do not."""
    job = {**CARTPOLE, "agent": "dqn", "hidden": 64, "torso_layers": [64]}
    finish_calmly(tmp_path / "calm", [job])
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")  # its files are larger
    process = start(tmp_path / "storm", [job], {"VICTIM_FILE_BYTES": "60000"})
    messages = process.communicate()[1]
    assert process.returncode == 0, messages
    assert "NO CHECKPOINT at step" in messages
    assert "File too large; there is none yet" in messages
    assert "no picture of" in messages
    assert digest(run_directory(tmp_path / "storm", job)) == digest(run_directory(tmp_path / "calm", job))
