"""A run's state taken apart, seed by seed, and put together again: the small parts whole, the rows piece by piece."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fqf.cycle import Cycle, run_keys
from fqf.drivers import Driver, no_timestep
from fqf.errors import UserError
from fqf.replay.ring import Ring
from fqf.types import HostEnvironment, PyTree, RunState, Snapshot

PIECE_BYTES = 8 * 2**20
"""Of what is in memory twice, or thrice, while it is read or written."""


class Snapshots(NamedTuple):
    template: Snapshot
    """Shapes and types of one seed's."""
    rows: Ring
    """Shapes and types of one seed's rows."""
    piece: int
    """Rows that are read or written at once."""
    take: Callable[[RunState, int], tuple[Snapshot, dict[str, Any] | None]]
    """state, index of the seed; with the memento of lanes on the host"""
    read: Callable[[RunState, int, int], Ring]
    """state, index, first row: a copy of a piece of rows; those that were never written hold anything"""
    restore: Callable[[Sequence[Snapshot], Sequence[dict[str, Any] | None]], RunState]
    """All seeds together, without any rows"""
    write: Callable[[RunState, int, int, int, Ring], RunState]
    """state (given away), index, first row, how many, a piece of rows"""
    compile: Callable[[], None]
    """What is needed to save, ahead of it."""


def make_device_snapshots(cycle: Cycle, driver: Driver) -> Snapshots:
    """The state of all seeds is one tree, with seeds along its first axis."""
    shapes = jax.eval_shape(driver.init, jax.random.key(0)[None])
    template = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shapes)
    rows, memory = cycle.replay.split(template.replay)
    piece = piece_length(rows)

    def take(state, index):
        _, memory = cycle.replay.split(state.replay)
        snapshot = cloned_keys(Snapshot(*state._replace(replay=memory)))
        return jax.tree.map(lambda leaf: leaf[index], snapshot), None

    def restore(snapshots, mementos):
        together = cloned_keys(jax.tree.map(lambda *leaves: jnp.stack(leaves), *snapshots))
        rows = jax.jit(jax.vmap(lambda _: cycle.replay.split(cycle.replay.init())[0]))(jnp.arange(len(snapshots)))
        return RunState(together.learner, cycle.replay.join(rows, together.memory), *together[2:])

    def read(state, index, first):
        return read_rows(cycle.replay.split(state.replay)[0], (index,), first, piece)

    def write(state, index, first, count, rows):
        old, memory = cycle.replay.split(state.replay)
        return state._replace(replay=cycle.replay.join(write_rows(old, (index,), first, count, rows), memory))

    snapshot = Snapshot(*template._replace(replay=memory))
    return Snapshots(snapshot, rows, piece, take, read, restore, write, lambda: None)


def make_host_snapshots(cycle: Cycle, environment: HostEnvironment, num_lanes: int) -> Snapshots:
    """One seed; what its lanes are is not a tree, and stays outside compiled functions."""
    template = jax.eval_shape(cycle.init, run_keys(jax.random.key(0)), (), no_timestep(environment.spec, num_lanes))
    rows, memory = cycle.replay.split(template.replay)
    piece = piece_length(rows)

    def take(state, index):
        _, memory = cycle.replay.split(state.replay)
        snapshot = cloned_keys(Snapshot(*state._replace(replay=memory, environment=())))
        return snapshot, state.environment.memento()

    def restore(snapshots, mementos):
        (snapshot,), (memento,) = snapshots, mementos
        lanes = environment.make(num_lanes, False)
        try:
            arrived = lanes.restore(memento)
        except BaseException:
            lanes.close()
            raise
        if not np.array_equal(arrived, snapshot.actor.timestep.observation):
            lanes.close()
            raise UserError(
                f"{environment.spec.id} did not repeat its unfinished episode from its seed and its actions, so the "
                "run can't go on exactly where it was: an environment must follow from the seed that reset() gets"
            )
        rows, _ = cycle.replay.split(jax.jit(cycle.replay.init)())
        snapshot = jax.tree.map(jnp.copy, snapshot)  # out of NumPy's memory: it will be given away
        return RunState(*snapshot)._replace(replay=cycle.replay.join(rows, snapshot.memory), environment=lanes)

    def read(state, index, first):
        return read_rows(cycle.replay.split(state.replay)[0], (), first, piece)

    def write(state, index, first, count, rows):
        old, memory = cycle.replay.split(state.replay)
        return state._replace(replay=cycle.replay.join(write_rows(old, (), first, count, rows), memory))

    def compile():
        read_rows.lower(rows, (), 0, piece).compile()

    return Snapshots(Snapshot(*template._replace(replay=memory)), rows, piece, take, read, restore, write, compile)


@functools.partial(jax.jit, static_argnums=3)
def read_rows(rows: Ring, seed: tuple[Any, ...], first: Any, count: int) -> Ring:
    """A copy of `count` rows; `seed` is where along the seeds' axis, if the rows have one."""
    positions = (first + jnp.arange(count)) % rows.last.shape[len(seed)]
    return jax.tree.map(lambda leaf: leaf[(*seed, positions)], rows)


@functools.partial(jax.jit, donate_argnums=0)
def write_rows(rows: Ring, seed: tuple[Any, ...], first: Any, count: Any, new: Ring) -> Ring:
    """Put back the first `count` of some rows, one by one and in place: there is no room for a second ring."""

    def put(i, rows):
        def put_leaf(leaf, new):
            position = (*seed, (first + i) % leaf.shape[len(seed)])
            row = jax.lax.expand_dims(new[i], range(len(position)))
            return jax.lax.dynamic_update_slice(leaf, row, (*position, *[0] * (leaf.ndim - len(position))))

        return jax.tree.map(put_leaf, rows, new)

    return jax.lax.fori_loop(0, count, put, rows)


def cloned_keys(tree: PyTree) -> PyTree:
    """To look at a key is not to use it: JAX's check for keys used twice is told so."""
    return jax.tree.map(lambda leaf: jax.random.clone(leaf) if is_key(leaf) else leaf, tree)


def is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def piece_length(rows: Ring) -> int:
    capacity = len(rows.last)
    row_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in rows) // capacity
    return max(1, min(capacity, PIECE_BYTES // row_bytes))
