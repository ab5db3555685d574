"""Trackers, beside TensorBoard and JSON lines: a process of its own reads what a run has written, and passes it on."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from fqf.errors import UserError
from fqf.progress import Progress

POLL_SECONDS = 5.0
GRACE_SECONDS = 30.0
"""For the last rows, when the runs have ended."""


def refuse_missing(tracker: str) -> None:
    if tracker != "none" and importlib.util.find_spec(tracker) is None:
        raise UserError(
            f"track is {tracker!r}, but {tracker} is not installed: pip install 'fqf[{tracker}]', or --track none"
            ' (a run to be resumed: track = "none" in its launch.toml)'
        )


@contextlib.contextmanager
def tracked(tracker: str, paths: Sequence[Path], progress: Progress) -> Iterator[None]:
    """While the runs go on. Whatever happens to the tracker is said once, and changes nothing else."""
    if tracker == "none":
        yield
        return
    # -P: this directory holds modules named as those of the standard library. Its own session: Ctrl-C is not for it.
    command = [sys.executable, "-P", str(Path(__file__).with_name("follower.py")), tracker, str(POLL_SECONDS)]
    try:
        process = subprocess.Popen(
            [*command, *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        progress.warn(f"{tracker} gets nothing: {error.strerror}")
        yield
        return
    relay = threading.Thread(target=tell, args=(tracker, process, progress), daemon=True)
    relay.start()
    try:
        yield
    finally:
        end(tracker, process, progress)
        relay.join(GRACE_SECONDS)


def tell(tracker: str, process: subprocess.Popen[bytes], progress: Progress) -> None:
    """What the process says: its first trouble, in one line."""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            text = line.decode(errors="replace").strip()
            progress.warn(f"{tracker} fails, and is tried again now and then; the run goes on. It says: {text}")
    if (code := process.wait()) > 0:  # below 0: by our own hand
        progress.warn(f"the process that passes rows on to {tracker} has ended with {code}; the run goes on without")


def end(tracker: str, process: subprocess.Popen[bytes], progress: Progress) -> None:
    progress.say(f"passing the last rows on to {tracker} ...")
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(b"over")
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        progress.warn(f"{tracker} has not ended within {GRACE_SECONDS:.0f} s, so its last rows may be missing there")
