"""The files of one run. What was learned and how long it took are kept apart, so that the first can be compared."""

import csv
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import tomli_w

from fqf.config import RunConfig, read_toml, to_toml
from fqf.errors import UserError
from fqf.evaluation import Scores
from fqf.files import Lock, sync_directory, write_whole
from fqf.logs import Events, Log

EVALUATION_COLUMNS = ("step", "source", "seed", "epsilon", *Scores._fields)


def run_path(runs: Path, config: RunConfig[Any, Any]) -> Path:
    return runs / config.agent / config.env.replace("/", ".") / f"seed{config.seed}"


class Unfinished(UserError):
    """There is a run to be resumed where a new one was to be."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path


def is_finished(path: Path) -> bool:
    return (path / "summary.json").is_file()


def refuse_existing(path: Path, overwrite: bool) -> None:
    """A run directory is replaced only when asked for, and only if it is one."""
    if is_run(path) and not overwrite:
        choices = "choose another --seed or --runs, or replace it with --overwrite (make train: ARGS=--overwrite)"
        if not is_finished(path):
            raise Unfinished(
                path, f"{path} holds an unfinished run; go on with it by `fqf resume {path}`, or {choices}"
            )
        raise UserError(f"{path} exists and holds a finished run; {choices}")
    if not is_run(path) and path.exists():
        strangers = [each.name for each in path.iterdir() if not (each.name in FIRST_FILES or is_partial(each))]
        if strangers:
            raise UserError(f"{path} is not a run directory, but holds {strangers[0]}: move it away")


FIRST_FILES = ("lock", "launch.toml")
"""Written before the config, which makes a directory a run's."""


def is_run(path: Path) -> bool:
    return (path / "config.toml").is_file()


def other_options(path: Path, config: RunConfig[Any, Any]) -> str:
    """The first option in which a run that is there differs from the one that was asked for; nothing if none does."""
    text = (path / "config.toml").read_text()
    if text == (asked := to_toml(config)):
        return ""
    there, here = read_toml(path / "config.toml"), tomllib.loads(asked)
    names = [name for name in here if name in there and there[name] != here[name]]
    return f"{names[0]} is {there[names[0]]!r} there and {here[names[0]]!r} here" if names else ""


def is_partial(path: Path) -> bool:
    return path.name.endswith(".partial")


class RunDirectory:
    """The files of a run, and the right to write them. Lines are written at once: a killed run is read to its last."""

    LOGS = ("metrics.jsonl", "timing.jsonl", "evaluations.csv")

    def __init__(self, path: Path, config: RunConfig[Any, Any]) -> None:
        """Changes nothing in a directory that is there."""
        new = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for each in new:
            sync_directory(each.parent)
        self.path, self._config, self._lock = path, config, Lock(path)
        self._logs: dict[str, Log] = {}

    def create(self, launch: Mapping[str, Any]) -> None:
        """Make room for a new run. Its config comes last: with it, the run can be resumed, if only from step 0. Of an
        old one the summary goes first, so that no half of it calls itself finished, and the config last."""
        old = sorted(self.path.iterdir(), key=lambda each: (each.name != "summary.json", each.name == "config.toml"))
        for each in old:
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != "lock":
                each.unlink()
        write_whole(self.path / "launch.toml", tomli_w.dumps(launch).encode())
        write_whole(self.path / "config.toml", to_toml(self._config).encode())
        sync_directory(self.path.parent)

    def open(self, marks: Mapping[str, Any], step: int, seconds: float) -> None:
        """Start the logs, or continue them where they were when they were marked, so many seconds into the run."""
        self._logs = {name: Log(self.path / name, marks.get(name)) for name in self.LOGS}
        self._events = Events(self.path, step)
        self._earlier_seconds, self._start = seconds, time.monotonic()
        if not marks:
            self._logs["evaluations.csv"].append(evaluation_line(None))
        sync_directory(self.path)

    def marks(self) -> dict[str, Any]:
        """How far the logs have got, by name; all of it is on the disk."""
        return {name: log.mark() for name, log in self._logs.items()}

    def log(self, row: Mapping[str, Any], seconds: float, steps: int) -> str | None:
        """One line of metrics, and one of the time that its `steps` took. Returns what is wrong with the disk."""
        timing = {"step": row["step"], "seconds": self.seconds(), "steps_per_second": steps / max(seconds, 1e-9)}
        troubles = [
            self._logs["metrics.jsonl"].append(json.dumps(row) + "\n"),
            self._logs["timing.jsonl"].append(json.dumps(timing) + "\n"),
        ]
        values = {**row, "steps_per_second": timing["steps_per_second"]}
        numbers = {f"train/{name}": x for name, x in values.items() if name != "step" and x is not None}
        self._events.add(numbers, row["step"])
        return troubles[0] or troubles[1]

    def log_evaluation(self, step: int, scores: Scores, source: str = "train") -> None:
        """Of the frozen policy (`train`), or of the training episodes themselves (`training`)."""
        frozen = source == "train"
        epsilon = self._config.evaluation_epsilon if frozen else self._config.exploration_epsilon
        labels = {"step": step, "source": source, "seed": self._config.seed, "epsilon": epsilon}
        self._logs["evaluations.csv"].append(evaluation_line(labels, scores))
        kind = "evaluation" if frozen else "training_score"
        self._events.add({f"{kind}/{name}": value for name, value in scores._asdict().items()}, step)

    def write_json(self, name: str, content: Any) -> None:
        write_whole(self.path / name, (json.dumps(content, indent=2) + "\n").encode())

    def seconds(self) -> float:
        """For how long the run has been going on, over all processes."""
        return self._earlier_seconds + time.monotonic() - self._start

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        for log in self._logs.values():
            log.close()
        if self._logs:
            self._events.close()
        self._lock.release()


def read_marks(said: Any) -> dict[str, dict[str, Any]]:
    """Of all logs, as a checkpoint has them; what makes no sense raises."""
    sizes = {name: int(said[name]["size"]) for name in RunDirectory.LOGS}
    if min(sizes.values()) < 0:
        raise ValueError("a log of negative size")
    return {name: {"size": size, "sha256": str(said[name]["sha256"])} for name, size in sizes.items()}


def evaluation_line(labels: Mapping[str, Any] | None, scores: Scores | None = None) -> str:
    """A row of `evaluations.csv`, or its header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, EVALUATION_COLUMNS)
    if labels is None or scores is None:
        writer.writeheader()
    else:
        writer.writerow({**labels, **scores._asdict()})
    return text.getvalue()


def append_evaluation(path: Path, labels: Mapping[str, Any], scores: Scores) -> None:
    """Add a row to the `evaluations.csv` of a finished run."""
    with (path / "evaluations.csv").open("a", newline="") as file:
        file.write(evaluation_line(labels, scores))


def provenance() -> dict[str, Any]:
    """Which code ran where: enough to tell two summaries apart."""
    packages = ("fqf", "jax", "jaxlib", "flax", "optax", "gymnax", "gymnasium", "ale-py", "numpy")
    return {
        "commit": _commit(),
        "versions": {"python": platform.python_version()} | {p: importlib.metadata.version(p) for p in packages},
        "device": jax.devices()[0].device_kind,
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _commit() -> str | None:
    """Of the checkout that holds this very file, if one does; `+` marks changes to tracked files."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", __file__)
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
