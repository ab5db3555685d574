"""Scores of many runs in one CSV file, small enough to be kept with a project: a row for every evaluation."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from fqf.errors import UserError
from fqf.report.records import Curve, RunRecord, Skipped, Unreadable, check_config, check_curve, check_end

ABOUT = ("run", "state", "agent", "env", "variant", "seed", "options", "protocol", "commit")
"""`run` is where it was below RUNS; `options` is JSON, all other options of the run, in the first of its rows."""
COLUMNS = (*ABOUT, "step", "score", "episodes")
STATES = ("unfinished", "finished")


def read_collected(path: Path) -> tuple[list[RunRecord], list[Skipped]]:
    """All runs whose rows are whole; the others, and why they are not used."""
    rows: list[dict[str, str]] = []
    skipped: list[Skipped] = []
    columns: Sequence[str] = ()
    damage = ""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = reader.fieldnames or ()
            for row in reader:
                rows.append(row)
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a file of collected scores: it is not text") from None
    except csv.Error as error:
        damage = f"damaged in line {reader.line_num}: {error}"
    if rows and not damage and not path.read_bytes().endswith(b"\n"):
        damage = f"its last line, of {rows[-1]['run']}, is cut"
    if damage:
        skipped.append(Skipped(path, damage))
        rows = [row for row in rows if row["run"] != rows[-1]["run"]]  # that run may have had more
    if lacking := [name for name in COLUMNS if name not in columns]:
        why = f"it has no column {lacking[0]}" if path.stat().st_size else "it is empty"
        raise UserError(f"{path} is not a file of collected scores: {why}")
    runs: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        runs.setdefault(str(row["run"]), []).append(row)
    records = []
    for name, found in runs.items():
        try:
            records.append(make_record(path / name, found))
        except Unreadable as error:
            skipped.append(Skipped(path / name, str(error)))
    return records, skipped


def make_record(path: Path, rows: list[dict[str, str]]) -> RunRecord:
    first = rows[0]
    told = {name: first[name] for name in ABOUT}
    try:
        config = {**json.loads(first["options"]), "agent": first["agent"], "env": first["env"]}
        config |= {"seed": int(first["seed"])} | ({"protocol": first["protocol"]} if first["protocol"] else {})
        curve = Curve(tuple(int(row["step"]) for row in rows), tuple(float(row["score"]) for row in rows))
        episodes = tuple(int(row["episodes"]) for row in rows)
    except (TypeError, ValueError, RecursionError):
        raise Unreadable("a row is damaged") from None
    if any(row[name] != told[name] for row in rows[1:] for name in ABOUT if name != "options" or row[name]):
        raise Unreadable("its rows are of different runs")
    if told["state"] not in STATES or min(episodes) < 1:
        raise Unreadable("a row is damaged")
    check_config(config, "its row of options")
    check_curve(curve, "it")
    finished = told["state"] == STATES[True]
    record = RunRecord(path, config, curve, episodes, finished, {"commit": told["commit"]} if finished else {}, None)
    check_end(record)
    return record


def write_collected(records: Iterable[tuple[str, str, RunRecord]]) -> str:
    """The text of such a file: of every run its id, its variant and what was read."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, variant, run in records:
        others = {option: value for option, value in run.config.items() if option not in ABOUT}
        options = json.dumps(others, sort_keys=True, separators=(",", ":"))
        for row in zip(*run.curve, run.episodes, strict=True):
            about = (name, STATES[run.finished], run.config["agent"], run.env, variant, run.config["seed"], options)
            writer.writerow((*about, run.config.get("protocol", ""), run.summary.get("commit") or "", *row))
            options = ""
    return text.getvalue()
