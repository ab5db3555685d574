"""SIGINT and SIGTERM: the first asks, the second insists."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def heeding_signals(end_early: Callable[[], None]) -> Iterator[list[int]]:
    """The first SIGINT or SIGTERM calls `end_early`, the second ends the process where it is. Gives those received."""
    received: list[int] = []

    def heed(number: int, frame: Any) -> None:
        if received:
            os.write(2, b"\x1b[?25h\n" if os.isatty(2) else b"\n")  # show the cursor that the bar has hidden
            os._exit(128 + number)
        received.append(number)
        end_early()

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]  # nohup: not ours
    for number in ours:
        signal.signal(number, heed)
    try:
        yield received
    finally:
        for number in ours:
            signal.signal(number, before[number])
