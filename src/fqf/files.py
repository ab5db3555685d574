"""Writing files so that a reader never sees half of one."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write beside the target, force it to disk, then rename into place."""
    temporary = path.with_name(path.name + ".partial")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
