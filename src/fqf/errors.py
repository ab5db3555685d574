"""A user's mistake, told in one line."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right. The command line prints its one line and exits with 2."""


class Diverged(Exception):
    """A number that must be finite is not. The command line prints its one line and exits with 3."""


class Incomplete(Exception):
    """Some runs of a suite did not finish. The command line prints its one line and exits with 1."""


class Stopped(Exception):
    """The user interrupted the launch, or another of its seeds failed."""


class Interrupted(KeyboardInterrupt):
    """A signal ended the run. The command line prints its one line and exits with 128 + signal."""

    def __init__(self, signal: int, text: str) -> None:
        super().__init__(text)
        self.signal = signal


def nearest(name: str, valid: Iterable[str]) -> str:
    """The part of an error message that says what to write instead."""
    valid = list(valid)
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(valid)}"
