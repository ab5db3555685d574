"""A process that reads run directories as they grow, and hands their rows to a tracker.

python -P follower.py wandb 5 RUN RUN ...

`tracking.py` starts it. Whatever a tracker does, waiting for a network, ending its process, taking memory, it does here
and not in the process that trains. This file imports nothing of fqf, and so no JAX.
"""

import contextlib
import contextvars
import csv
import importlib
import json
import os
import sys
import threading
import time
import tomllib
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

LOGS = ("metrics.jsonl", "timing.jsonl", "evaluations.csv", "summary.json")
LABELS = ("step", "source", "seed", "epsilon")
KINDS = {"train": "evaluation", "training": "training_score"}
PROJECT = "fqf"
RETRY_SECONDS = 60
LAST_SECONDS = 20
"""For what is still on its way when the training process is gone."""


class Handle(NamedTuple):
    """A tracker's run."""

    log: Callable[[dict[str, float], int], object]
    finish: Callable[[bool], object]
    """Told whether the run has come to its end."""


def begin_wandb(path: Path, name: str, group: str, config: dict[str, Any], run_id: str) -> Handle:
    wandb = importlib.import_module("wandb")
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        dir=os.environ.get("WANDB_DIR", str(path)),
        id=run_id,
        name=name,
        group=group,
        config=config,
        resume="allow",
        reinit="create_new",  # one of several seeds
        settings={"console": "off", "silent": True, "disable_git": True, "disable_code": True},
    )
    return Handle(lambda row, step: run.log(row, step=step), lambda ended: run.finish(exit_code=0 if ended else 1))


def begin_trackio(path: Path, name: str, group: str, config: dict[str, Any], run_id: str) -> Handle:
    trackio = importlib.import_module("trackio")
    # In a context of its own: in the same one, trackio ends the run of the seed before.
    run = contextvars.Context().run(
        trackio.init,
        project=PROJECT,
        name=f"{name}-{run_id}",  # trackio goes on with a run by its name
        group=group,
        config=config,
        resume="allow",
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )
    return Handle(lambda row, step: run.log(row, step=step), lambda ended: run.finish())


BEGIN = {"wandb": begin_wandb, "trackio": begin_trackio}


class Followed:
    """A run directory, and how much of it its tracker has. `tracker.json` holds the tracker's run id and the last step
    that was sent, and is written *before* a row goes out: a row may be lost in a crash, but never comes twice."""

    def __init__(self, tracker: str, path: Path) -> None:
        self._tracker, self._path = tracker, path
        self._handle: Handle | None = None
        self._seen: list[tuple[int, int]] = []
        self._not_before = 0.0

    def pass_on(self, gone: threading.Event, last: bool) -> None:
        """Everything that is new and complete, unless the training process is gone: another may follow this run now.
        A tracker that failed is left alone for a while, but the last time it is asked again: there is no later."""
        seen = [stamp(self._path / name) for name in LOGS]
        if seen == self._seen or gone.is_set() or (time.monotonic() < self._not_before and not last):
            return
        ended = (self._path / "summary.json").is_file()
        rows = read_rows(self._path)
        # An evaluation follows the line of metrics of its step, so the last step may not be complete.
        complete = sorted(rows) if ended else sorted(rows)[:-1]
        state = self._read_state()
        new = [step for step in complete if step > state["sent"]]
        if new:
            self._send({step: rows[step] for step in new}, state, gone)
        if ended:
            self.finish(ended)
        self._seen = seen

    def _send(self, rows: dict[int, dict[str, float]], state: dict[str, Any], gone: threading.Event) -> None:
        if self._handle is None:
            self._write_state(state)  # the id, before the tracker knows it
            config = tomllib.loads((self._path / "config.toml").read_text())
            name, group = "/".join(self._path.parts[-3:]), f"{config['agent']}/{config['env']}"
            self._handle = BEGIN[self._tracker](self._path, name, group, config, state["id"])
        sent, last = state["sent"], max(rows)
        if gone.is_set():
            return
        self._write_state(state | {"sent": last})
        try:
            for step, row in rows.items():
                if gone.is_set():
                    break
                self._handle.log(row, step)
                sent = step
        finally:
            if sent != last:
                self._write_state(state | {"sent": sent})

    def finish(self, ended: bool = False) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.finish(ended)

    def give_up_for_now(self) -> None:
        self._handle, self._not_before = None, time.monotonic() + RETRY_SECONDS

    def _read_state(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            state = json.loads((self._path / "tracker.json").read_text())
            if state["tracker"] == self._tracker:
                return {"tracker": self._tracker, "id": str(state["id"]), "sent": int(state["sent"])}
        return {"tracker": self._tracker, "id": uuid.uuid4().hex[:8], "sent": -1}

    def _write_state(self, state: dict[str, Any]) -> None:
        temporary = self._path / "tracker.json.partial"
        with temporary.open("w") as file:
            file.write(json.dumps(state) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path / "tracker.json")


def stamp(path: Path) -> tuple[int, int]:
    """Changes when the file does."""
    with contextlib.suppress(OSError):
        facts = path.stat()
        return facts.st_size, facts.st_mtime_ns
    return -1, -1


def read_rows(path: Path) -> dict[int, dict[str, float]]:
    """All numbers of a run by step, named as in TensorBoard. They are read anew each time, which costs milliseconds: a
    resumed run cuts its logs back to the last checkpoint, and a line may be half written."""
    rows: dict[int, dict[str, float]] = {}
    for name, wanted in (("metrics.jsonl", None), ("timing.jsonl", {"steps_per_second"})):
        for line in read_lines(path / name):
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                numbers = {f"train/{key}": x for key, x in row.items() if key != "step" and x is not None}
                kept = {key: x for key, x in numbers.items() if wanted is None or key.removeprefix("train/") in wanted}
                rows.setdefault(int(row["step"]), {}).update(kept)
    for score in csv.DictReader(read_lines(path / "evaluations.csv")):
        with contextlib.suppress(ValueError, TypeError):
            if kind := KINDS.get(score["source"]):
                numbers = {f"{kind}/{key}": float(x) for key, x in score.items() if key not in LABELS}
                rows.setdefault(int(score["step"]), {}).update(numbers)
    return rows


def read_lines(path: Path) -> list[str]:
    """Whole ones only."""
    try:
        text = path.read_text()
    except OSError:
        return []
    return text[: text.rfind("\n") + 1].splitlines()


def follow(tracker: str, seconds: float, paths: list[Path], tell: Callable[[str], None]) -> None:
    """Until standard input says that it is over; or ends without a word, because the training process is no more."""
    over, gone = threading.Event(), threading.Event()

    def listen() -> None:
        if sys.stdin.buffer.read() != b"over":
            gone.set()
        over.set()
        if gone.is_set():
            time.sleep(LAST_SECONDS)
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    runs = [Followed(tracker, path) for path in paths]
    last = False
    while not last:
        last = over.wait(seconds)
        for run in runs:
            try:
                run.pass_on(gone, last)
                if last:
                    run.finish()
            except (Exception, SystemExit) as error:
                tell(f"{type(error).__name__}: {error}")
                run.give_up_for_now()


def main(tracker: str, seconds: str, *paths: str) -> None:
    """Standard output is for one line about the first trouble; what libraries print goes elsewhere."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    told: list[str] = []

    def tell(text: str) -> None:
        if not told:
            told.append(text)
            with contextlib.suppress(OSError):
                channel.write(" ".join(text.split())[:300] + "\n")

    def show(message: Warning | str, category: type[Warning], filename: str, *_: object, **__: object) -> None:
        if tracker in filename:  # trackio warns where others raise
            tell(str(message))

    warnings.showwarning = show
    follow(tracker, float(seconds), [Path(path) for path in paths], tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
