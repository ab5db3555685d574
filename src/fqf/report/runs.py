"""Run directories, as a report reads them: found, read to the end of what is whole, or listed with what is wrong.
In their place, files of collected scores."""

import csv
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fqf.errors import UserError
from fqf.report.collected import read_collected
from fqf.report.records import Curve, RunRecord, Skipped, Unreadable, check_config, check_curve, check_end

MARKS = ("config.toml", "summary.json", "evaluations.csv", "launch.toml")
"""A directory with one of these is a run's, or was to become one."""


def find(paths: Iterable[Path], skipped: list[Skipped]) -> Iterator[Path]:
    """The run directories among these and below them, each once; what can't be listed is skipped."""
    seen = set()
    for path in paths:
        if not path.is_dir():
            raise UserError(f"{path} is not a directory: name run directories, what holds them, or files of scores")
        found = False
        for place, directories, files in os.walk(path, onerror=lambda error: skipped.append(_denied(error))):
            directories.sort()
            if any(mark in files for mark in MARKS):
                directories.clear()  # a run's own directories hold a config too
                found = True
                if (real := Path(place).resolve()) not in seen:
                    seen.add(real)
                    yield Path(place)
        if not found:
            skipped.append(Skipped(path, "holds no run"))


def _denied(error: OSError) -> Skipped:
    return Skipped(Path(error.filename), f"can't be listed: {error.strerror}")


def load(paths: Iterable[Path]) -> tuple[list[RunRecord], list[Skipped]]:
    """All runs that can be used, and what was passed over. Of one config and seed there is only one result, so a copy
    would only make intervals narrower: the one that got farthest counts."""
    skipped: list[Skipped] = []
    records = []
    places = list(paths)
    for file in (path for path in places if path.is_file()):
        found, unreadable = read_collected(file)
        records += found
        skipped += unreadable
    for path in find((path for path in places if not path.is_file()), skipped):
        try:
            records.append(read(path))
        except Unreadable as error:
            skipped.append(Skipped(path, str(error)))
    chosen: dict[str, RunRecord] = {}
    for record in sorted(records, key=lambda record: (not record.finished, -record.curve.steps[-1])):
        first = chosen.setdefault(json.dumps(record.config | {"log_every_steps": 0}, sort_keys=True), record)
        if first is not record:
            skipped.append(Skipped(record.path, f"the same config and seed as {first.path}"))
    kept = {id(record) for record in chosen.values()}
    return [record for record in records if id(record) in kept], skipped


def read(path: Path) -> RunRecord:
    config = read_config(path)
    summary = read_summary(path) if (path / "summary.json").exists() else {}
    curve, episodes = read_curve(path, "training" if config.get("score") == "training" else "train")
    seconds = summary["seconds"] if summary else last_seconds(path)
    record = RunRecord(path, config, curve, episodes, bool(summary), summary, seconds)
    check_end(record)
    return record


def parsed(file: Path, parse: Callable[[str], Any], otherwise: str) -> Any:
    try:
        return parse(file.read_text())
    except OSError as error:
        raise Unreadable(f"{file.name} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Unreadable(f"{file.name} {otherwise}") from None


def read_config(path: Path) -> dict[str, Any]:
    config = parsed(path / "config.toml", tomllib.loads, "is not valid TOML")
    check_config(config, "config.toml")
    return config


def read_summary(path: Path) -> dict[str, Any]:
    summary = parsed(path / "summary.json", json.loads, "is half-written or damaged")
    kinds = {"seconds": (int, float), "steps_per_second": (int, float), "frames": (int,), "versions": (dict,)}
    if not isinstance(summary, dict) or any(type(summary.get(name)) not in kind for name, kind in kinds.items()):
        raise Unreadable("summary.json is not a run's")
    return summary


def read_curve(path: Path, source: str) -> tuple[Curve, tuple[int, ...]]:
    """And the episodes behind each score. Whole lines only: a killed run may have left half a one at the end."""
    try:
        text = (path / "evaluations.csv").read_bytes().decode()
        lines = text[: text.rfind("\n") + 1].splitlines()
        rows = [row for row in csv.DictReader(lines) if row["source"] == source]
        curve = Curve(tuple(int(row["step"]) for row in rows), tuple(float(row["mean"]) for row in rows))
        episodes = tuple(int(row["episodes"]) for row in rows)
    except OSError as error:
        raise Unreadable(f"evaluations.csv can't be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, csv.Error):
        raise Unreadable("evaluations.csv is damaged") from None
    check_curve(curve, "evaluations.csv")
    return curve, episodes


def last_seconds(path: Path) -> float | None:
    """Of an unfinished run, as far as its clock was written."""
    try:
        return float(json.loads((path / "timing.jsonl").read_text().splitlines()[-1])["seconds"])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
