"""What a report knows of a run, wherever it was read from."""

import itertools
import math
from pathlib import Path
from typing import Any, NamedTuple


class Curve(NamedTuple):
    """A run's reported scores, by agent step. The first is of the untrained policy where policies are evaluated."""

    steps: tuple[int, ...]
    scores: tuple[float, ...]


class RunRecord(NamedTuple):
    path: Path
    """Its directory; of a run in a file of collected scores FILE/ID."""
    config: dict[str, Any]
    curve: Curve
    episodes: tuple[int, ...]
    """Behind each score of the curve."""
    finished: bool
    summary: dict[str, Any]
    """Empty while the run is unfinished; of collected runs it only has the commit."""
    seconds: float | None
    """Wall-clock so far, over all processes."""

    @property
    def trained(self) -> list[float]:
        return [score for step, score in zip(*self.curve, strict=True) if step > 0]

    def score(self, kind: str) -> float:
        """`last` or `best`, of the evaluations of the trained policy or, where that is the protocol, of training."""
        return self.trained[-1] if kind == "last" else max(self.trained)

    @property
    def untrained(self) -> float | None:
        return self.curve.scores[0] if self.curve.steps[0] == 0 else None

    @property
    def env(self) -> str:
        return self.config["env"]

    @property
    def frame_skip(self) -> int:
        return self.config.get("frame_skip", 1)


class Skipped(NamedTuple):
    path: Path
    why: str


class Unreadable(Exception):
    """What is wrong with a run, in a few words."""


def check_config(config: dict[str, Any], source: str) -> None:
    kinds = {"agent": str, "env": str, "seed": int, "steps": int}
    for name, kind in kinds.items():
        if type(config.get(name)) is not kind:
            raise Unreadable(f"{source} has no {name}")
    counts = (config["steps"], config.get("frame_skip", 1))
    plain = all(isinstance(value, str | int | float | list) for value in config.values())
    if not plain or any(type(count) is not int or count < 1 for count in counts) or "/" not in config["env"]:
        raise Unreadable(f"{source} is not a run's")


def check_end(record: RunRecord) -> None:
    """Policies are evaluated at a run's end; of training episodes none may have ended just before it."""
    if not any(record.curve.steps):
        raise Unreadable("no score of a trained policy" + ("" if record.finished else " yet"))
    last, steps = record.curve.steps[-1], record.config["steps"]
    if record.finished and record.config.get("score") != "training" and last != steps:
        raise Unreadable(f"it is finished, but its last score is that of step {last:,}, not {steps:,}")


def check_curve(curve: Curve, source: str) -> None:
    if not all(map(math.isfinite, curve.scores)):
        raise Unreadable(f"{source} has a score that is not finite")
    if any(later <= earlier for earlier, later in itertools.pairwise(curve.steps)) or min(curve.steps, default=0) < 0:
        raise Unreadable(f"{source} has steps out of order")
