"""The files of one run. What was learned and how long it took are kept apart, so that the first can be compared."""

import csv
import importlib.metadata
import json
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from tensorboardX import SummaryWriter

from fqf.config import RunConfig, to_toml
from fqf.errors import UserError
from fqf.evaluation import Scores
from fqf.files import write_whole

EVALUATION_COLUMNS = ("step", "source", "seed", "epsilon", *Scores._fields)


def run_path(runs: Path, config: RunConfig[Any, Any]) -> Path:
    return runs / config.agent / config.env.replace("/", ".") / f"seed{config.seed}"


def refuse_existing(path: Path, overwrite: bool) -> None:
    """A run directory is replaced only when asked for, and only if it is one."""
    if not path.exists():
        return
    if not overwrite:
        state = "a finished" if (path / "summary.json").is_file() else "an unfinished"
        choices = "choose another --seed or --runs, or replace it with --overwrite (make train: ARGS=--overwrite)"
        raise UserError(f"{path} exists and holds {state} run; {choices}")
    if not (path / "config.toml").is_file():
        raise UserError(f"{path} is not a run directory, so --overwrite leaves it alone; move it away")


class RunDirectory:
    """Appends to a run's logs as it goes; every line is flushed, so a killed run can be read to its last line."""

    def __init__(self, path: Path, config: RunConfig[Any, Any], overwrite: bool = False) -> None:
        refuse_existing(path, overwrite)
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
        self.path, self._config = path, config
        write_whole(path / "config.toml", to_toml(config).encode())
        self._metrics = (path / "metrics.jsonl").open("w")
        self._timing = (path / "timing.jsonl").open("w")
        self._tensorboard = SummaryWriter(str(path))
        self._start = time.monotonic()
        append_evaluation(path, None)

    def log(self, row: Mapping[str, Any], seconds: float, steps: int) -> None:
        """One line of metrics, and one of the time that its `steps` took."""
        timing = {"step": row["step"], "seconds": self.seconds(), "steps_per_second": steps / max(seconds, 1e-9)}
        for file, line in ((self._metrics, row), (self._timing, timing)):
            file.write(json.dumps(line) + "\n")
            file.flush()
        for name, value in {**row, "steps_per_second": timing["steps_per_second"]}.items():
            if name != "step" and value is not None:
                self._tensorboard.add_scalar(f"train/{name}", value, row["step"])

    def log_evaluation(self, step: int, scores: Scores, source: str = "train") -> None:
        """Of the frozen policy (`train`), or of the training episodes themselves (`training`)."""
        frozen = source == "train"
        epsilon = self._config.evaluation_epsilon if frozen else self._config.exploration_epsilon
        labels = {"step": step, "source": source, "seed": self._config.seed, "epsilon": epsilon}
        append_evaluation(self.path, labels, scores)
        for name, value in scores._asdict().items():
            self._tensorboard.add_scalar(f"{'evaluation' if frozen else 'training_score'}/{name}", value, step)

    def write_json(self, name: str, content: Any) -> None:
        write_whole(self.path / name, (json.dumps(content, indent=2) + "\n").encode())

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._metrics, self._timing, self._tensorboard):
            file.close()


def append_evaluation(path: Path, labels: Mapping[str, Any] | None, scores: Scores | None = None) -> None:
    """Add a row to `evaluations.csv`, or start it."""
    with (path / "evaluations.csv").open("a", newline="") as file:
        writer = csv.DictWriter(file, EVALUATION_COLUMNS)
        if labels is None or scores is None:
            writer.writeheader()
        else:
            writer.writerow({**labels, **scores._asdict()})


def provenance() -> dict[str, Any]:
    """Which code ran where: enough to tell two summaries apart."""
    packages = ("fqf", "jax", "jaxlib", "flax", "optax", "gymnax", "gymnasium", "ale-py", "numpy")
    return {
        "commit": _commit(),
        "versions": {"python": platform.python_version()} | {p: importlib.metadata.version(p) for p in packages},
        "device": jax.devices()[0].device_kind,
        "machine": f"{platform.system()} {platform.machine()}",
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
