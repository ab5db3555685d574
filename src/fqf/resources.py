"""Memory and disk that a run will need, against what there is: said before the first step, not after the first hour."""

import contextlib
import ctypes
import hashlib
import math
import os
import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from fqf.errors import UserError
from fqf.types import PyTree

PROCESS_BYTES = 500_000_000
"""Python, JAX, its compiled programs, and what an update needs besides the parameters and the replay."""
LOG_BYTES = 50_000_000
SHARED_ROWS = 1.1
"""Rows that two checkpoints need together, of those that one does."""


def tree_bytes(make: Callable[..., PyTree], *arguments: Any) -> int:
    """Of what a function returns, without calling it."""
    leaves = jax.tree.leaves(jax.eval_shape(make, *arguments))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves if hasattr(leaf.dtype, "itemsize"))


M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
"""malloc.h"""


def tidy_process() -> None:
    """Before a run: one pool of memory for all threads, not one each with holes in it (glibc), and a place where
    compiled programs are kept for the next run, unless JAX was told of one."""
    set_malloc({M_ARENA_MAX: 1})
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        with contextlib.suppress(OSError, RuntimeError):  # no home, or one that may not be written: compile every time
            caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            programs = caches / "fqf" / f"compiled-{processor()}"
            programs.mkdir(parents=True, exist_ok=True)
            if os.access(programs, os.W_OK):
                jax.config.update("jax_compilation_cache_dir", str(programs))


def keep_freed_memory() -> None:
    """Until `give_back_memory`. Else every update of an Atari agent gets its 40 MB anew from the system, page by page,
    and takes up to a quarter longer (docs/decisions/0010-speed.md); but there are holes in what is kept."""
    set_malloc({M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1})


def set_malloc(options: dict[int, int]) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for name, value in options.items():
            libc.mallopt(name, value)


def kept_programs() -> int:
    """How many programs are on the disk for the next run."""
    directory = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return sum(1 for _ in Path(directory).glob("*-cache")) if directory else 0


def processor() -> str:
    """A name for what programs may be compiled for; home directories are shared between machines."""
    about = Path("/proc/cpuinfo")
    flags = re.search(r"^flags.*$", about.read_text(), re.M) if about.is_file() else None
    return hashlib.sha256(f"{platform.machine()} {flags and flags[0]}".encode()).hexdigest()[:12]


MADV_DONTNEED = 4
"""mman.h"""


def give_back_memory() -> None:
    """To the system: what was freed, but kept by glibc for later, and the pages of JAX's library, most of them its
    compiler, which come back from the page cache one by one if they are needed (docs/decisions/0009-memory.md)."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    for begin, end in library_code("libjax_common"):
        libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_DONTNEED)


def library_code(name: str) -> list[tuple[int, int]]:
    """Where a library's machine code is mapped: never written to, so that dropping its pages loses nothing."""
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return []
    lines = [line.split() for line in maps.read_text().splitlines() if name in line]
    spans = (words[0].split("-") for words in lines if words[1] == "r-xp")
    return [(int(begin, 16), int(end, 16)) for begin, end in spans]


def refuse_too_much_memory(capacity: int, replay_bytes: int, learner_bytes: int, at_once: int) -> None:
    """`at_once` seeds share the memory; gradients and the update's intermediate results count as one more learner."""
    fixed = PROCESS_BYTES + at_once * 2 * learner_bytes
    needed, free = fixed + at_once * replay_bytes, free_memory()
    if needed > free:
        raise UserError(
            f"the run needs about {_gigabytes(needed)} of memory, {_gigabytes(at_once * replay_bytes)} for the replay, "
            f"but {_gigabytes(free)} are free; {_advice(capacity, (free - fixed) / (at_once * replay_bytes))}"
        )


def refuse_too_much_disk(
    capacity: int, replay_bytes: int, learner_bytes: int, seeds: int, checkpoints: int, runs: Path
) -> None:
    """Checkpoints share their rows, but for those of the time between them, and have a learner each."""
    fixed, rows = seeds * (checkpoints * learner_bytes + LOG_BYTES), seeds * replay_bytes * SHARED_ROWS
    there = free_disk(runs)
    if fixed + rows > there:
        raise UserError(
            f"the checkpoints need about {_gigabytes(int(fixed + rows))} of disk, but {_gigabytes(there)} are free in "
            f"{runs}; choose another --runs, or {_advice(capacity, (there - fixed) / rows)}"
        )


def _advice(capacity: int, share: float) -> str:
    fits = int(capacity * share * 0.95)
    return f"--replay-capacity {_two_digits(fits)} would fit" if fits > 1_000 else "not even a small replay fits"


def free_memory() -> int:
    """What could be had without swapping: by the system's count, and by the limit of the container."""
    free = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    meminfo, limit, used = (
        Path(name) for name in ("/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
    )
    if meminfo.is_file():
        lines = (line.split() for line in meminfo.read_text().splitlines())
        free += [int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"]
    if limit.is_file() and used.is_file() and limit.read_text().strip().isdigit():
        free.append(int(limit.read_text()) - int(used.read_text()) + _page_cache(used.with_name("memory.stat")))
    return min(free)


def _page_cache(statistics: Path) -> int:
    """Files that were read and can be forgotten: a container counts them as used."""
    lines = statistics.read_text().splitlines() if statistics.is_file() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def free_disk(path: Path) -> int:
    """Where a directory is, or will be."""
    existing = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    return shutil.disk_usage(existing).free


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2g} GB" if size < 1e10 else f"{size / 1e9:.0f} GB"


def _two_digits(count: int) -> int:
    """Rounded down."""
    unit = 10 ** max(0, int(math.log10(count)) - 1)
    return count // unit * unit
