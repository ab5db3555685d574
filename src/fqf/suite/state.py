"""What has become of the runs of a grid: read from their directories, and from a log of the suite beside them."""

import contextlib
import csv
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fqf.files import is_locked, write_whole
from fqf.rundir import is_finished, is_run
from fqf.suite.plan import Plan, SuiteRun, to_toml
from fqf.suite.scheduler import Ended

State = Literal["waiting", "running", "unfinished", "finished", "failed", "diverged", "locked"]
TAIL_BYTES = 4096


class Status(NamedTuple):
    """One run, as it is now."""

    run: SuiteRun
    state: State
    step: int = 0
    seconds: float = 0.0
    """For how long it has been going on, over all its processes."""
    score: float | None = None
    """Mean return of the last evaluation."""
    message: str = ""
    """Why it failed."""


def journal_path(runs: Path, plan: str) -> Path:
    return runs / "suite" / plan


class Journal:
    """An append-only log of what happened to the runs. Lines are whole or ignored; directories know better."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        (directory / "output").mkdir(parents=True, exist_ok=True)
        write_whole(directory / "plan.toml", to_toml(plan).encode())
        self._descriptor = os.open(directory / "log.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # the end of a line that a crash has torn
        self._append({"event": "begin"})

    def tell(self, ended: Ended) -> None:
        outcome = ended.outcome
        self._append(
            {"event": "run", "run": ended.run.id, "verdict": ended.verdict, "attempt": ended.attempt}
            | {
                "code": outcome.code,
                "message": outcome.message,
                "seconds": round(outcome.seconds, 1),
                "node": outcome.node,
            }
        )

    def _append(self, event: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a full disk; what counts is in the run directories
            os.write(self._descriptor, (json.dumps({"time": round(time.time(), 1), **event}) + "\n").encode())

    def close(self) -> None:
        os.close(self._descriptor)


def read_journal(directory: Path) -> dict[str, dict[str, Any]]:
    """The last event of every run since the suite was last begun."""
    events: dict[str, dict[str, Any]] = {}
    try:
        lines = (directory / "log.jsonl").read_text(errors="replace").splitlines()
    except OSError:
        return events
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # torn, or nothing of ours
            event = json.loads(line)
            if event.get("event") == "begin":
                events.clear()
            elif event["event"] == "run":
                events[str(event["run"])] = {"verdict": str(event["verdict"]), "message": str(event["message"])}
    return events


def examine(run: SuiteRun, runs: Path, event: Mapping[str, Any] | None, flying: bool = False) -> Status:
    """One run; `event` is the last that the suite has written about it, `flying` that it is at work on it now."""
    path = runs / run.id
    state: State = "waiting"
    if is_finished(path):
        state = "finished"
    elif flying or is_locked(path):
        state = "running"
    elif event is not None and event["verdict"] in ("failed", "diverged", "locked"):
        state = event["verdict"]
    elif is_run(path):
        state = "unfinished"
    if state == "waiting":
        return Status(run, state)
    step, seconds = last_timing(path)
    message = event["message"] if event is not None and state in ("failed", "diverged", "locked") else ""
    return Status(run, state, run.steps if state == "finished" else step, seconds, last_score(path), message)


def last_timing(path: Path) -> tuple[int, float]:
    """Agent steps and seconds of the last whole line; 0 where there is none."""
    for line in reversed(_tail(path / "timing.jsonl")):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            return int(row["step"]), float(row["seconds"])
    return 0, 0.0


def last_score(path: Path) -> float | None:
    """Mean return of the last evaluation of the frozen policy by the run itself."""
    for row in csv.reader(reversed(_tail(path / "evaluations.csv"))):
        with contextlib.suppress(ValueError, IndexError):  # step, source, seed, epsilon, mean, ...
            if row[1] == "train":
                return float(row[4])
    return None


def _tail(path: Path) -> list[str]:
    """The last lines of a file, without one that is not yet whole."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode(errors="replace").split("\n")[:-1]
    except OSError:
        return []


def position(path: Path) -> int:
    """The step of the newest checkpoint, from which a run would go on; 0 if there is none."""
    try:
        names = [each.name for each in (path / "checkpoints").iterdir() if (each / "manifest.json").is_file()]
    except OSError:
        return 0
    return max((int(name) for name in names if name.isdigit()), default=0)
