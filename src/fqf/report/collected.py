"""Scores of many runs in one CSV file, small enough to be kept with a project: a row for every evaluation."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from fqf.errors import UserError
from fqf.report.records import Curve, RunRecord, Skipped, Unreadable, check_curve

COLUMNS = (
    *("run", "state", "agent", "env", "variant", "seed", "options", "protocol", "commit"),
    *("step", "score", "episodes"),
)
"""`run` is where it was below RUNS; `options` is JSON: steps, numbers of quantiles, what its preset has otherwise."""

Complete: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From what a file says of a run to its whole config."""


def read_collected(path: Path, complete: Complete) -> tuple[list[RunRecord], list[Skipped]]:
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file, strict=True)
            rows, columns = list(reader), reader.fieldnames or ()
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError):
        rows, columns = [], ()
    if lacking := [name for name in COLUMNS if name not in columns]:
        raise UserError(f"{path} is not a file of collected scores: it has no column {lacking[0]}")
    runs: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        runs.setdefault(str(row["run"]), []).append(row)
    records, skipped = [], []
    for name, found in runs.items():
        try:
            records.append(make_record(path / name, found, complete))
        except Unreadable as error:
            skipped.append(Skipped(path / name, str(error)))
    return records, skipped


def make_record(path: Path, rows: list[dict[str, str]], complete: Complete) -> RunRecord:
    first = rows[0]
    try:
        options = json.loads(first["options"])
        said = {"agent": first["agent"], "env": first["env"], "seed": int(first["seed"]), **options}
        said |= {"protocol": first["protocol"]} if first["protocol"] else {}
        curve = Curve(tuple(int(row["step"]) for row in rows), tuple(float(row["score"]) for row in rows))
        episodes = tuple(int(row["episodes"]) for row in rows)
        if type(said["steps"]) is not int or "/" not in said["env"]:
            raise ValueError("not a run's options")
    except (KeyError, TypeError, ValueError, RecursionError):
        raise Unreadable("a row is damaged") from None
    check_curve(curve, "it")
    if not any(curve.steps):
        raise Unreadable("no score of a trained policy")
    finished = first["state"] == "finished"
    summary = {"commit": first["commit"]} if finished else {}
    return RunRecord(path, complete(said), curve, episodes, finished, summary, None)


def write_collected(records: Iterable[tuple[str, str, RunRecord]], shorten: Complete) -> str:
    """The text of such a file: of every run its id, its variant and what was read; `shorten` undoes `complete`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, variant, run in records:
        options = json.dumps(shorten(run.config), sort_keys=True, separators=(",", ":"))
        state = "finished" if run.finished else "unfinished"
        about = [name, state, run.config["agent"], run.env, variant, run.config["seed"], options]
        about += [run.config.get("protocol", ""), run.summary.get("commit") or ""]
        writer.writerows((*about, *row) for row in zip(*run.curve, run.episodes, strict=True))
    return text.getvalue()
