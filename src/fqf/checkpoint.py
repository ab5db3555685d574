"""Checkpoints of one run: what is new since the last one is written, and a manifest, last of all, makes it count.

    checkpoints/000000120000/state-00.safetensors ...            learner, priorities, environment, actor, key, in pieces
    checkpoints/000000120000/manifest.json                       every file with size and hash; what Python counts
    checkpoints/rows/000000000000-000000030000.safetensors ...   experience, shared by the checkpoints that name it

No file that a manifest names is ever written again.
"""

import contextlib
import errno
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors.numpy

from fqf.errors import UserError
from fqf.files import sync_directory, write_whole
from fqf.formats import (
    FORMAT,
    MANIFEST_BYTES,
    Damaged,
    Entry,
    believed,
    in_pieces,
    manifest,
    read_manifest,
    read_tensors,
    sha256,
    to_arrays,
)
from fqf.replay.ring import Ring
from fqf.snapshots import Snapshots
from fqf.types import RunState, Snapshot

KEPT = 2


class Segment(NamedTuple):
    """Rows of all lanes, from number `first` to just before `end`."""

    first: int
    end: int
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return segment_name(self.first, self.end)


class Saved(NamedTuple):
    """A checkpoint whose state has been read; its rows have not."""

    snapshot: Snapshot
    ledger: dict[str, Any]
    segments: list[Segment]


class Kept(NamedTuple):
    """A checkpoint that this process has written or read."""

    path: Path
    segments: list[Segment]


class Checkpoints:
    """Those of one run directory. `index` is the run's place among the seeds of its program."""

    def __init__(self, run: Path, snapshots: Snapshots, index: int = 0) -> None:
        self.directory, self._snapshots, self._index = run / "checkpoints", snapshots, index
        self._kept: list[Kept] = []

    @property
    def last(self) -> Path | None:
        return self._kept[-1].path if self._kept else None

    # Writing

    def save(self, step: int, num_rows: int, state: RunState, ledger: Mapping[str, Any]) -> None:
        """Beside those there are: `prune` removes the old ones. Raises OSError if the disk is full or gone."""
        target, written = self._path(step), list[Path]()
        try:
            if not self.directory.is_dir():
                self.directory.mkdir()
                sync_directory(self.directory.parent)
            (self.directory / "rows").mkdir(exist_ok=True)
            if target.exists():  # half of one, or damaged: its manifest must not vouch for what is written now
                remove(target)
                sync_directory(self.directory)
            target.mkdir(exist_ok=True)
            segments = list(self._save_rows(num_rows, state, written))
            snapshot, memento = self._snapshots.take(state, self._index)
            pieces = enumerate(in_pieces(to_arrays(snapshot)))
            content = {
                "format": FORMAT,
                "step": step,
                "num_rows": num_rows,
                "state": [self._write_tensors(target / state_name(i), piece, written) for i, piece in pieces],
                "rows": [list(segment) for segment in segments],
                "ledger": {**ledger, "lanes": memento},
            }
            sync_directory(self.directory)
            data = manifest(content)
            if len(data) > MANIFEST_BYTES:
                raise OSError(errno.EFBIG, "the actions of its unfinished episodes would not fit into a manifest")
            self._write(target / "manifest.json", data, written)
        except OSError:
            for path in written:
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                target.rmdir()
            raise
        self._kept.append(Kept(target, segments))

    def take_back(self) -> None:
        """The checkpoint just written: another seed of the same program has none at this step."""
        remove(self._kept.pop().path)

    def _save_rows(self, num_rows: int, state: RunState, written: list[Path]) -> Iterator[Segment]:
        """The last checkpoint's segments as far as they are still needed, and new ones for the rows since."""
        oldest = max(0, num_rows - len(self._snapshots.rows.last))
        known = [segment for segment in (self._kept[-1].segments if self._kept else []) if segment.end > oldest]
        yield from known
        for first in range(known[-1].end if known else oldest, num_rows, self._snapshots.piece):
            end = min(first + self._snapshots.piece, num_rows)
            rows = self._snapshots.read(state, self._index, first)
            arrays = {name: leaf[: end - first] for name, leaf in to_arrays(rows).items()}
            path = self.directory / "rows" / segment_name(first, end)
            yield Segment(first, end, *self._write_tensors(path, arrays, written))

    def _write_tensors(self, path: Path, arrays: dict[str, np.ndarray], written: list[Path]) -> Entry:
        data = safetensors.numpy.save(arrays)
        self._write(path, data, written)
        return Entry(len(data), sha256(data))

    def _write(self, path: Path, data: bytes, written: list[Path]) -> None:
        written.append(path)
        write_whole(path, data)

    def prune(self) -> None:
        """Keep the last few, once there are as many."""
        if len(self._kept) >= KEPT:
            self._kept = self._kept[-KEPT:]
            prune(self.directory, self._kept)

    # Reading

    def steps(self) -> list[int]:
        """Where there are checkpoints, whole or not, newest first."""
        try:
            return sorted((int(path.name) for path in checkpoints_in(self.directory)), reverse=True)
        except OSError as error:
            raise UserError(f"{self.directory} can't be read: {error.strerror}") from None

    def with_manifest(self) -> set[int]:
        """Where there is one that was whole once."""
        return {step for step in self.steps() if (self._path(step) / "manifest.json").exists()}

    def _path(self, step: int) -> Path:
        return self.directory / f"{step:012d}"

    def load(self, step: int) -> Saved:
        """All but the rows."""
        path = self._path(step)
        content = read_manifest(path / "manifest.json")
        with believed(path / "manifest.json"):
            segments = [Segment(int(a), int(b), int(size), str(hash)) for a, b, size, hash in content["rows"]]
            ledger, num_rows = dict(content["ledger"]), int(content["num_rows"])
            oldest = max(0, num_rows - len(self._snapshots.rows.last))
            edges = [segment.first for segment in segments] + [num_rows]
            if content["step"] != step:
                raise ValueError(f"it speaks of step {content['step']}")
            if edges[0] > oldest or edges[1:] != [segment.end for segment in segments]:
                raise ValueError("its rows do not follow one another")
            entries = [Entry(int(size), str(hash)) for size, hash in content["state"]]
            files = {path / state_name(i): entry for i, entry in enumerate(entries)}
            if not files:
                raise ValueError("it names no state")
        snapshot = read_tensors(files, self._snapshots.template)
        return Saved(snapshot, ledger | {"num_rows": num_rows}, segments)

    def load_rows(self, state: RunState, step: int, segments: list[Segment]) -> RunState:
        """Piece by piece into the ring, which is there already: memory holds it once. The next one builds on it."""
        for segment in segments:
            rows = self._load_segment(segment)
            count = segment.end - segment.first
            state = self._snapshots.write(state, self._index, segment.first, count, rows)
        self._kept = [Kept(self._path(step), segments)]
        return state

    def _load_segment(self, segment: Segment) -> Ring:
        """Its rows, and zeros to fill up a piece: every piece has one size, so its program is compiled once."""
        path, count, piece = self.directory / "rows" / segment.name, segment.end - segment.first, self._snapshots.piece
        if not 0 < count <= piece:
            raise Damaged(f"{path} is said to hold {count} rows")
        shapes = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape[1:]), leaf.dtype), self._snapshots.rows
        )
        rows: Ring = read_tensors({path: Entry(segment.size, segment.sha256)}, shapes)
        return jax.tree.map(lambda leaf: np.pad(leaf, [(0, piece - count), *[(0, 0)] * (leaf.ndim - 1)]), rows)

    def digests(self, state: RunState, num_rows: int) -> dict[str, str]:
        """Hashes of everything learned and remembered: two runs that went the same way have the same."""
        snapshot, _ = self._snapshots.take(state, self._index)
        arrays, rows = to_arrays(snapshot), hashlib.sha256()
        for first in range(max(0, num_rows - len(self._snapshots.rows.last)), num_rows, self._snapshots.piece):
            count = min(self._snapshots.piece, num_rows - first)
            for leaf in to_arrays(self._snapshots.read(state, self._index, first)).values():
                rows.update(leaf[:count].tobytes())
        parts = {"parameters": ".learner.params", "optimizer": ".learner.optimizer_state", "priorities": ".memory"}
        found = {"state": "", **parts}
        hashes = {part: hashlib.sha256() for part in found}
        for name, leaf in arrays.items():
            for part, prefix in found.items():
                if name.startswith(prefix):
                    hashes[part].update(name.encode() + leaf.tobytes())
        return {part: each.hexdigest() for part, each in hashes.items()} | {"replay": rows.hexdigest()}


def state_name(index: int) -> str:
    return f"state-{index:02d}.safetensors"


def segment_name(first: int, end: int) -> str:
    return f"{first:012d}-{end:012d}.safetensors"


def checkpoints_in(directory: Path) -> list[Path]:
    """Whole or not. One that can't be listed is not one without checkpoints: it raises OSError."""
    paths = directory.iterdir() if directory.exists() else ()
    return [path for path in paths if re.fullmatch(r"\d{12}", path.name)]


def prune(directory: Path, kept: Sequence[Kept]) -> None:
    """Delete what some checkpoints do not need: only files named as ours are."""
    needed = {segment.name for each in kept for segment in each.segments}
    for path in checkpoints_in(directory):
        if path not in [each.path for each in kept]:
            remove(path)
    for path in (directory / "rows").glob("*"):
        if re.fullmatch(r"\d{12}-\d{12}\.safetensors(\.partial)?", path.name) and path.name not in needed:
            path.unlink(missing_ok=True)


def remove(checkpoint: Path) -> None:
    ours = re.compile(r"(manifest\.json|state-\d+\.safetensors)(\.partial)?")
    for path in sorted(checkpoint.glob("*")):  # the manifest first: half a checkpoint is none
        if ours.fullmatch(path.name):
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        checkpoint.rmdir()


def remove_all(run: Path) -> None:
    """The checkpoints of a run that is finished."""
    directory = run / "checkpoints"
    prune(directory, [])
    for path in (directory / "rows", directory):
        with contextlib.suppress(OSError):  # somebody else's files are in it
            path.rmdir()
