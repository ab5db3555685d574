"""Experience as the drivers see it: rows in, batches out, priorities back. Uniform or prioritized."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fqf.replay import ring, sumtree
from fqf.replay.ring import Ring, Sampling
from fqf.replay.sumtree import SumTree
from fqf.types import EnvironmentSpec, Key, PyTree, Timestep, Transition


class Batch(NamedTuple):
    transition: Transition
    weights: Float[Array, "B"]
    """Importance weights, the largest 1."""
    places: Int[Array, "B"]
    """Where the batch's new priorities go."""


class Replay(NamedTuple):
    """Pure functions; `num_rows`, the rows ever written to a lane, is the driver's to count."""

    init: Callable[[], PyTree]
    add: Callable[[PyTree, Timestep, Int[Array, "E"], Int[Array, ""]], PyTree]
    """state, timestep, action, num_rows"""
    sample: Callable[[PyTree, Int[Array, ""], Key, Float[Array, ""]], Batch]
    """state, num_rows, key, exponent of the importance weights"""
    reprioritize: Callable[[PyTree, Int[Array, "B"], Float[Array, "B"]], PyTree]
    """state, places, errors"""
    split: Callable[[PyTree], tuple[Ring, PyTree]]
    """The rows, and all the rest."""
    join: Callable[[Ring, PyTree], PyTree]


def make_uniform(spec: EnvironmentSpec, capacity: int, num_lanes: int, how: Sampling) -> Replay:
    def sample(rows, num_rows, key, importance_exponent):
        return Batch(
            ring.sample(rows, num_rows, key, how), jnp.ones(how.batch_size), jnp.zeros(how.batch_size, jnp.int32)
        )

    return Replay(
        init=lambda: ring.init(spec, capacity // num_lanes, num_lanes),
        add=ring.add,
        sample=sample,
        reprioritize=lambda rows, places, errors: rows,
        split=lambda rows: (rows, ()),
        join=lambda rows, nothing: rows,
    )


class Prioritized(NamedTuple):
    rows: Ring
    tree: SumTree
    """Leaf (t modulo C) * E + lane is row t of a lane: its priority, or 0 where no transition may start."""
    largest: Float[Array, ""]
    """The largest priority so far: what new rows get, so that each is likely to be seen once."""


def make_prioritized(
    spec: EnvironmentSpec, capacity: int, num_lanes: int, how: Sampling, exponent: float, epsilon: float
) -> Replay:
    """Proportional prioritized replay (Schaul et al. 2016, section 3.3): p = (|error| + epsilon) ** exponent.

    rows of a lane:   gone | oldest that has its whole stack ... ready | n rows without a successor n steps on | head
    """
    length = capacity // num_lanes

    def places(row):
        return (row % length) * num_lanes + jnp.arange(num_lanes)

    def init():
        tree = sumtree.init(length * num_lanes)
        return Prioritized(ring.init(spec, length, num_lanes), tree, jnp.ones(()))

    def add(state, timestep, action, num_rows):
        """A new row makes one row per lane ready to start a transition; in a full ring it takes one away.

        The row just written has no priority yet: it stands in for rows to clear as long as there are none.
        """
        rows = ring.add(state.rows, timestep, action, num_rows)
        overwritten = num_rows - length
        gone = [jnp.where(overwritten >= 0, overwritten + i, num_rows) for i in range(how.frame_stack)]
        ready = num_rows - how.n_step
        startable = (ready >= 0) & ~rows.last[ready % length]
        masses = [jnp.zeros(num_lanes * len(gone)), jnp.where(startable, state.largest, 0.0)]
        changed = [places(row) for row in (*gone, ready)]
        return state._replace(
            rows=rows, tree=sumtree.write(state.tree, jnp.concatenate(changed), jnp.concatenate(masses))
        )

    def sample(state, num_rows, key, importance_exponent):
        drawn = sumtree.draw(state.tree, key, how.batch_size)
        slots, lanes = drawn // num_lanes, drawn % num_lanes
        rows = num_rows - 1 - (num_rows - 1 - slots) % length
        masses = state.tree.levels[0][drawn]
        # (1 / (size P)) ** beta, divided by the largest: size and total cancel.
        weights = (jnp.min(masses) / masses) ** importance_exponent
        return Batch(ring.assemble(state.rows, rows, lanes, how), weights, drawn)

    def reprioritize(state, drawn, errors):
        masses = (jnp.abs(errors) + epsilon) ** exponent
        tree = sumtree.write(state.tree, drawn, masses)
        return state._replace(tree=tree, largest=jnp.maximum(state.largest, jnp.max(masses)))

    def split(state):
        return state.rows, (state.tree, state.largest)

    def join(rows, rest):
        return Prioritized(rows, *rest)

    return Replay(init, add, sample, reprioritize, split, join)
