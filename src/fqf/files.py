"""Files that survive a crash: a reader never sees half of one, and two processes never write into one directory."""

import contextlib
import fcntl
import os
import time
from pathlib import Path

from fqf.errors import UserError


def write_whole(path: Path, data: bytes) -> None:
    """Write beside the target, force it to disk, rename into place, and force the new name to disk too."""
    temporary = path.with_name(path.name + ".partial")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # on a full disk, half a file would only be in the way
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """A new name is safe only when its directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Lock:
    """A directory is one process's at a time. The system lets go of the lock when the process dies, however it does."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _lock(self._descriptor):
                time.sleep(0.05)  # somebody may only have looked whether it is locked
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 20).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise UserError(
                f"{directory} is in use by process {holder or 'unknown'}: wait until it has ended, or stop it"
            ) from None
        except OSError as error:
            os.close(self._descriptor)
            raise UserError(f"{directory} can't be locked: {error.strerror}") from None
        with contextlib.suppress(OSError):  # on a full disk, the lock holds without a name on it
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._descriptor)


def is_locked(directory: Path) -> bool:
    """Whether a process is at work there; where that can't be told, as if none were."""
    try:
        descriptor = os.open(directory / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        return not _lock(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
