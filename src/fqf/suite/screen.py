"""What a person sees of a grid: a live table on a terminal, lines elsewhere; the same table for `fqf suite status`."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fqf.suite.estimate import Cost, current_rates, seconds_left
from fqf.suite.plan import SuiteRun
from fqf.suite.scheduler import Ended
from fqf.suite.state import State, Status

ORDER: tuple[State, ...] = ("running", "failed", "diverged", "locked", "unfinished", "waiting", "finished")
FEW = 40
"""Runs that are shown one by one; of more, those that matter."""
SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_BETWEEN_LINES = 60.0


def summary_line(name: str, statuses: Sequence[Status], slots: int) -> str:
    """The whole grid in one line."""
    counts = Counter(status.state for status in statuses)
    parts = [f"{counts[state]:,} {state}" for state in ORDER if counts[state] and state != "finished"]
    left = seconds_left(statuses, current_rates(statuses), slots)
    eta = f"; ETA {duration(left)}" if left else ""
    return (
        f"{name}: {counts['finished']:,} of {len(statuses):,} finished" + "".join(f", {part}" for part in parts) + eta
    )


def duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def table(statuses: Sequence[Status], frames: Callable[[SuiteRun], int]) -> Table:
    """One row for each run, or for each that matters; `frames` is how many an agent step of a run has."""
    shown = list(statuses)
    if len(shown) > FEW:
        worth = [each for each in shown if each.state not in ("waiting", "finished")]
        shown = sorted(worth, key=lambda each: ORDER.index(each.state))[:FEW]
    told = Table("run", "state", "steps", "frames/s", "score", box=None, pad_edge=False)
    for column in told.columns[2:]:
        column.justify, column.no_wrap = "right", True
    told.columns[0].overflow = "fold"  # where there is little room, names wrap and are never cut
    for status in shown:
        rate = frames(status.run) * status.step / status.seconds if status.seconds else None
        told.add_row(
            status.run.id,
            Text(f"{status.state}: {status.message}" if status.message else status.state, overflow="fold"),
            f"{status.step:,} of {status.run.steps:,}",
            "-" if rate is None else f"{rate:,.0f}",
            "-" if status.score is None else f"{status.score:.4g}",
        )
    return told


def cost_table(found: Sequence[Cost]) -> Table:
    """One row for all runs that differ by their seed only."""
    told = Table("runs", "seeds", "steps", "frames/s", "hours left", "checkpoints", "kept", "measured", box=None)
    for cost in found:
        seeds = ", ".join(str(run.seed) for run in cost.runs)
        told.add_row(
            str(Path(cost.runs[0].id).parent),
            seeds,
            f"{cost.runs[0].steps:,}",
            f"{cost.rate.frames_per_second:,.0f}" if cost.rate else "unknown",
            f"{cost.hours:,.2f}" if cost.hours is not None else "unknown",
            size_text(cost.checkpoint_bytes),
            size_text(cost.kept_bytes) if cost.kept_bytes is not None else "unknown",
            cost.rate.source if cost.rate else "never",
        )
    return told


def size_text(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


class Screen:
    """Follows a grid. `look` asks for the statuses, and is asked for them only as often as somebody can read."""

    def __init__(
        self,
        name: str,
        frames: Callable[[SuiteRun], int],
        statuses: Callable[[], Sequence[Status]],
        slots: Callable[[], int],
        quiet: bool = False,
        console: Console | None = None,
    ) -> None:
        self._name, self._frames, self._statuses, self._slots = name, frames, statuses, slots
        self._console = console or Console(stderr=True, quiet=quiet, markup=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._looked = self._printed = time.monotonic() - SECONDS_BETWEEN_LOOKS

    def __enter__(self) -> "Screen":
        if self._console.is_terminal and not self._console.quiet:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, SystemExit):
            self._live.stop()

    def ended(self, ended: Ended, finished: int, total: int) -> None:
        """A line for what has happened to a run; on a terminal only for what went wrong."""
        why = f": {ended.outcome.message}" if ended.outcome.message and ended.verdict != "finished" else ""
        what = {"again": f"starts again after attempt {ended.attempt}"}.get(ended.verdict, ended.verdict)
        if ended.verdict != "finished":
            self.warn(f"{ended.run.id} {what}{why}" if ended.verdict != "stopped" else f"{ended.run.id} stopped")
        elif not self._console.is_terminal:
            self._print(f"{ended.run.id} finished ({finished:,} of {total:,})")

    def warn(self, text: str) -> None:
        console = Console(stderr=True) if self._console.quiet else self._console
        with contextlib.suppress(OSError, SystemExit):
            console.print(f"fqf: {text}", style="bold yellow", markup=False, highlight=False, soft_wrap=True)

    def look(self) -> None:
        """Draw anew, if it is time to."""
        now, live = time.monotonic(), self._live.is_started
        if self._console.quiet or now - (self._looked if live else self._printed) < (
            SECONDS_BETWEEN_LOOKS if live else SECONDS_BETWEEN_LINES
        ):
            return
        self._looked = self._printed = now
        statuses = self._statuses()
        line = summary_line(self._name, statuses, self._slots())
        if live:
            with contextlib.suppress(OSError, SystemExit):
                self._live.update(Group(Text(line), table(statuses, self._frames)), refresh=True)
        else:
            self._print(line)

    def _print(self, line: str, **how: Any) -> None:
        """Nobody reading is no reason to end a suite."""
        with contextlib.suppress(OSError, SystemExit):
            self._console.print(line, highlight=False, soft_wrap=True, markup=False, **how)
