"""The files of a checkpoint, byte by byte: manifests and tensors. Nothing in one is believed before its size and its
hash are right, and nothing is allocated that a config did not ask for."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors
import safetensors.numpy

from fqf.errors import UserError
from fqf.resources import tree_bytes
from fqf.snapshots import PIECE_BYTES, is_key
from fqf.types import PyTree

FORMAT = "fqf-checkpoint-2"
MANIFEST_BYTES = 2**24
"""Of which a million rows need 0.1 MB, and a lane in the longest episode of Atari 0.1 more."""
HEADER_BYTES = 2**20
"""More than safetensors needs for the names and shapes of our tensors."""


NONSENSE = (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What is raised on the way through a file that makes no sense."""


class Damaged(Exception):
    """A checkpoint that can't be trusted; an older one may be whole."""


class Entry(NamedTuple):
    """What a manifest says of a file."""

    size: int
    sha256: str


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(content: Mapping[str, Any]) -> bytes:
    """With a hash of itself: nothing else vouches for it."""
    return json.dumps({"sha256": _own_hash(content), "content": content}, sort_keys=True).encode()


def read_manifest(path: Path) -> dict[str, Any]:
    """Refuses one of another format, which is not damage."""
    with believed(path):
        if path.stat().st_size > MANIFEST_BYTES:
            raise ValueError(f"it has {path.stat().st_size} bytes")
        whole = json.loads(path.read_bytes())
        content = dict(whole["content"])
        if whole["sha256"] != _own_hash(content):
            raise ValueError("its hash is not that of its content")
        writer = content["ledger"].get("made_by", {}).get("versions", {}).get("fqf", "that wrote it")
    if content.get("format") != FORMAT:
        raise UserError(f"{path} has format {content.get('format')!r}; this version reads {FORMAT!r}: use fqf {writer}")
    return content


def _own_hash(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode())


@contextlib.contextmanager
def believed(path: Path) -> Iterator[None]:
    """What is missing or makes no sense is damage, told in one line."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise Damaged(f"{path} can't be used: {error.strerror}") from None
    except OSError as error:  # it may be whole, on a disk or with rights that are not: nothing to start again for
        raise UserError(f"{path} can't be read: {error.strerror}") from None
    except NONSENSE as error:
        raise Damaged(f"{path} can't be used: {error or type(error).__name__}") from None


def read_tensors(files: Mapping[Path, Entry], template: PyTree) -> PyTree:
    """A tree like the template. The files must have the sizes and hashes that are said, and no more than they need;
    together they must hold tensors of the template's names, shapes and types."""
    arrays, room = dict[str, np.ndarray](), tree_bytes(without_keys, template) + HEADER_BYTES
    for path, entry in files.items():
        with believed(path):
            size = path.stat().st_size
            if size != entry.size or size > room:
                raise ValueError(f"it has {size} bytes, not {min(entry.size, room)}")
            data, room = path.read_bytes(), room - size
            if sha256(data) != entry.sha256:
                raise ValueError("its hash is not the one in the manifest")
        arrays |= _tensors(data, path)
    return _from_arrays(template, arrays, next(iter(files)).parent)


def _tensors(data: bytes, path: Path) -> dict[str, np.ndarray]:
    try:
        return safetensors.numpy.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a file of tensors, although its hash is right: {error}") from None


def without_keys(tree: PyTree) -> PyTree:
    """Random keys as the numbers they are made of."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if is_key(leaf) else leaf, tree)


def to_arrays(tree: PyTree) -> dict[str, np.ndarray]:
    """Every leaf by its path."""
    leaves = jax.tree_util.tree_flatten_with_path(without_keys(tree))[0]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def in_pieces(arrays: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """In their order; a piece is larger than `PIECE_BYTES` only if it is one array that is."""
    pieces, size = list[dict[str, np.ndarray]](), PIECE_BYTES + 1
    for name, array in arrays.items():
        size += array.nbytes
        if size > PIECE_BYTES:
            pieces, size = [*pieces, {}], array.nbytes
        pieces[-1][name] = array
    return pieces


def _from_arrays(template: PyTree, arrays: Mapping[str, np.ndarray], directory: Path) -> PyTree:
    leaves, structure = jax.tree_util.tree_flatten_with_path(jax.eval_shape(without_keys, template))
    expected = {jax.tree_util.keystr(where): (leaf.shape, leaf.dtype) for where, leaf in leaves}
    if {name: (array.shape, array.dtype) for name, array in arrays.items()} != expected:
        text = (
            "does not hold the tensors of this run, although its hashes are right: was it written by another version?"
        )
        raise UserError(f"{directory} {text}")
    tree = jax.tree.unflatten(structure, [arrays[name] for name in expected])
    keys = jax.tree.map(is_key, template)
    return jax.tree.map(lambda leaf, key: jax.random.wrap_key_data(leaf) if key else leaf, tree, keys)
