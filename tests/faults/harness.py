"""Kill a training process at random moments until it has finished all the same; tell what it has left."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from faults.victim import run_directory

VICTIM = Path(__file__).parent / "victim.py"
CIRCUMSTANCES = ("seconds", "steps_per_second", "commit")


class Outcome(NamedTuple):
    kills: int
    in_checkpoint: int
    """Kills that left something half-written behind that was not there before."""
    in_vain: int
    """Kills of a process that had not got as far as a checkpoint: starting, compiling, loading."""
    messages: str
    """All that the processes said on standard error."""


def start(runs: Path, jobs: list[dict], environment: dict[str, str] | None = None) -> subprocess.Popen:
    command = [sys.executable, str(VICTIM), str(runs), json.dumps(jobs)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})


def torment(
    runs: Path, jobs: list[dict], kills: int, rng: random.Random, patience: float = 0.3, haste: float = 0
) -> Outcome:
    """Let the process write a checkpoint, give it a random moment more, kill it, start it again; `kills` times, then
    let it end. With probability `haste`, do not wait for the checkpoint: a moment within the first six seconds."""
    killed = in_checkpoint = in_vain = 0
    messages = ""
    while killed < kills:
        before = half_written(runs)
        process, seen = start(runs, jobs), newest_files(runs)
        end = time.monotonic() + (rng.uniform(0, 6) if rng.random() < haste else 3600)
        while process.poll() is None and newest_files(runs) == seen and time.monotonic() < end:
            time.sleep(0.005)
        unchanged = newest_files(runs) == seen
        if not unchanged:
            time.sleep(rng.uniform(0, patience))
        process.send_signal(signal.SIGKILL)
        messages += process.communicate()[1]
        if process.returncode != -signal.SIGKILL:
            break
        killed += 1
        in_vain += unchanged
        in_checkpoint += bool(half_written(runs) - before)
    process = start(runs, jobs)
    messages += process.communicate()[1]
    assert process.returncode == 0, messages
    return Outcome(killed, in_checkpoint, in_vain, messages)


def newest_files(runs: Path) -> list[str]:
    """Manifests and summaries: what makes an effort count. (`os.walk` does not mind directories that vanish.)"""
    names = ("manifest.json", "summary.json")
    return sorted(f"{where}/{name}" for where, _, files in os.walk(runs) for name in files if name in names)


def half_written(runs: Path) -> set[Path]:
    """Files under a temporary name, and checkpoints without a manifest."""
    states = [path for path in runs.rglob("checkpoints/*") if path.is_dir() and path.name != "rows"]
    return {*runs.rglob("*.partial"), *(path for path in states if not (path / "manifest.json").is_file())}


def digest(path: Path) -> dict[str, str]:
    """Hashes of everything that a finished run has left, but for the clock's numbers and the commit of the checkout,
    which may be committed to while tests run."""
    names = ("config.toml", "metrics.jsonl", "evaluations.csv", "distributions.json")
    files = [path / name for name in (*names, "policy/config.toml", "policy/params.safetensors")]
    hashes = {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    summary = json.loads((path / "summary.json").read_text())
    return hashes | {name: json.dumps(value) for name, value in summary.items() if name not in CIRCUMSTANCES}


def digests(runs: Path, jobs: list[dict]) -> list[dict[str, str]]:
    return [digest(run_directory(runs, job)) for job in jobs]
