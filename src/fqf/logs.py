"""Logs of a run: lines that only grow, and TensorBoard's events. A full disk stops neither the run nor its numbers."""

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from fqf.errors import UserError


class Log:
    """A text file to append to. What can't be written now waits in memory, and goes out with the next line."""

    def __init__(self, path: Path, mark: Mapping[str, Any] | None = None) -> None:
        """A new file; or, from a mark, the file as it was then."""
        self._hash, self._waiting, self._size = hashlib.sha256(), b"", 0
        if mark is not None:
            self._hash, self._size = _read(path, mark), int(mark["size"])
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(path, flags if mark is not None else flags | os.O_TRUNC, 0o644)
        os.ftruncate(self._descriptor, self._size)

    def append(self, text: str) -> str | None:
        """Returns what is wrong with the disk, if something is."""
        data = text.encode()
        self._hash.update(data)
        self._size += len(data)
        self._waiting += data
        try:
            self._write()
        except OSError as error:
            return error.strerror
        return None

    def _write(self) -> None:
        while self._waiting:
            written = os.write(self._descriptor, self._waiting)
            self._waiting = self._waiting[written:]

    def mark(self) -> dict[str, Any]:
        """What the file holds by now, for certain: size and hash."""
        self._write()
        os.fsync(self._descriptor)
        return {"size": self._size, "sha256": self._hash.hexdigest()}

    def close(self) -> None:
        os.close(self._descriptor)


def _read(path: Path, mark: Mapping[str, Any]) -> Any:
    """The hash of a log as far as it was written when it was marked."""
    size, found = int(mark["size"]), hashlib.sha256()
    with path.open("rb") as file:
        while size and (block := file.read(min(size, 1 << 20))):
            found.update(block)
            size -= len(block)
    if size or found.hexdigest() != mark["sha256"]:
        raise UserError(f"{path} is not as it was when the last checkpoint was written: the run can't go on from there")
    return found


class Events:
    """Scalars for TensorBoard, as an extra: what a full disk loses of them is lost."""

    def __init__(self, directory: Path, step: int) -> None:
        """From a step on; what an earlier, killed process has written after it no longer counts."""
        self._writer: Any = None
        with contextlib.suppress(OSError):
            self._writer = EventsWriter(str(directory / "events"), f".{os.getpid()}.{step}")
        self._write(Event(wall_time=time.time(), step=step, session_log=SessionLog(status=SessionLog.START)))

    def add(self, values: Mapping[str, Any], step: int) -> None:
        for name, value in values.items():
            self._write(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
        self._attempt("flush")

    def _write(self, event: Event) -> None:
        self._attempt("write_event", event)

    def _attempt(self, method: str, *arguments: Any) -> None:
        try:
            if self._writer is not None:
                getattr(self._writer, method)(*arguments)
        except OSError:
            file, self._writer = self._writer._py_recordio_writer, None
            with contextlib.suppress(OSError):
                file.close()

    def close(self) -> None:
        self._attempt("close")
