"""What a person sees while a run goes on: a live bar on a terminal, a line now and then elsewhere."""

import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import rich.progress
from rich.console import Console

SECONDS_BETWEEN_LINES = 15.0


class Progress:
    """Counts agent steps of all seeds together; several threads may report to it."""

    def __init__(self, title: str, total: int, quiet: bool) -> None:
        self._lock = threading.Lock()
        self._title, self._total, self._done = title, total, 0
        self._start = self._printed = time.monotonic()
        self._console = Console(stderr=True, quiet=quiet)
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.TaskProgressColumn(),
            rich.progress.TextColumn("{task.fields[speed]}"),
            rich.progress.TextColumn("ETA"),
            rich.progress.TimeRemainingColumn(),
            rich.progress.TextColumn("{task.fields[status]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=total, speed="", status="compiling ...")

    def __enter__(self) -> "Progress":
        self._bar.start()
        if not self._console.is_terminal:
            self._console.print(f"{self._title}: {self._total:,} steps, compiling ...", highlight=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        sys.stderr.flush()

    def advance(self, steps: int, row: Mapping[str, Any]) -> None:
        """`row` is the line of metrics that these steps gave."""
        with self._lock:
            self._done += steps
            now = time.monotonic()
            speed = f"{self._done / (now - self._start):,.0f} steps/s"
            status = "  ".join(f"{name} {row[key]:.4g}" for name, key in _SHOWN.items() if row.get(key) is not None)
            self._bar.update(self._task, completed=self._done, speed=speed, status=status)
            if not self._console.is_terminal and now - self._printed > SECONDS_BETWEEN_LINES:
                self._printed = now
                left = (self._total - self._done) * (now - self._start) / self._done
                share = f"{100 * self._done / self._total:3.0f} %"
                self._console.print(f"{share}  {speed}  ETA {left:.0f} s  {status}", highlight=False)


_SHOWN = {"return": "return", "quantile loss": "quantile_loss", "fraction loss": "fraction_loss"}
