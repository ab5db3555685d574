"""What a person sees while a run goes on: a live bar on a terminal, a line now and then elsewhere."""

import contextlib
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import rich.progress
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

SECONDS_BETWEEN_LINES = 15.0


class Progress:
    """Counts agent steps of all seeds together; several threads may report to it."""

    def __init__(self, title: str, total: int, quiet: bool, console: Console | None = None) -> None:
        self._lock = threading.Lock()
        self._title, self._total, self._done, self._skipped = title, total, 0, 0
        self._start = self._printed = time.monotonic()
        self._console = console or Console(stderr=True, quiet=quiet)
        self._bar = rich.progress.Progress(
            rich.progress.BarColumn(bar_width=None),
            rich.progress.TaskProgressColumn(),
            rich.progress.TextColumn("{task.fields[speed]}"),
            rich.progress.TextColumn("ETA"),
            rich.progress.TimeRemainingColumn(),
            expand=True,
            console=self._console,
        )
        self._task = self._bar.add_task(title, total=total, speed="")
        self._status = Text("compiling ...", no_wrap=True, overflow="ellipsis")
        self._live = Live(Group(self._bar, self._status), console=self._console, refresh_per_second=4)

    def __enter__(self) -> "Progress":
        self._print(self._console, f"{self._title}: {self._total:,} steps")
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, status: str) -> None:
        """What is being done between two stretches of steps."""
        with self._lock:
            self._status.plain = status
            self._print_now_and_then(status)

    def warn(self, text: str) -> None:
        """What nobody should miss, also where there is no bar."""
        with self._lock:
            console = Console(stderr=True) if self._console.quiet else self._console
            self._print(console, f"fqf: {text}", style="bold yellow", markup=False)

    def skip(self, steps: int) -> None:
        """Steps that were made before, by another process."""
        with self._lock:
            self._done += steps
            self._skipped += steps

    def _print_now_and_then(self, line: str) -> None:
        now = time.monotonic()
        if not self._console.is_terminal and now - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = now
            self._print(self._console, line)

    def _print(self, console: Console, line: str, **how: Any) -> None:
        """Nobody reading, or a log on a full disk, is no reason to end a run."""
        with contextlib.suppress(OSError, SystemExit):  # rich leaves by the latter when a pipe is closed
            console.print(line, highlight=False, soft_wrap=True, **how)

    def advance(self, steps: int, row: Mapping[str, Any]) -> None:
        """`row` is the line of metrics that these steps gave."""
        with self._lock:
            self._done += steps
            now = time.monotonic()
            made = self._done - self._skipped
            speed = f"{made / (now - self._start):,.0f} steps/s"
            shown = {name: row[name] for name in row if name == "return" or name.endswith("loss")}
            status = "  ".join(f"{name.replace('_', ' ')} {x:.4g}" for name, x in shown.items() if x is not None)
            self._bar.update(self._task, completed=self._done, speed=speed)
            self._status.plain = status
            left = (self._total - self._done) * (now - self._start) / made
            share = 100 * self._done / self._total
            self._print_now_and_then(f"{share:3.0f} %  {speed}  ETA {left:.0f} s  {status}")
