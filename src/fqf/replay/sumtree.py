"""A sum tree: draw places with probabilities proportional to their masses, in float32, without drift.

Every node has FANOUT children, so a million leaves have three levels, not twenty: a draw reads three short rows, a
write sums two. A parent is always the sum of its children as they are now, never the old sum plus a difference, so
rounding does not add up over a run. Each level is descended with a random number of its own: one number for the whole
way down would have 24 bits, sixteen for each of a million leaves.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fqf.types import Key

FANOUT = 128


class SumTree(NamedTuple):
    levels: tuple[Float[Array, "_"], ...]
    """Leaves first; level k + 1 sums blocks of FANOUT of level k; the last has at most FANOUT nodes."""


def init(num_leaves: int) -> SumTree:
    sizes = []
    while num_leaves > FANOUT:
        num_blocks = -(-num_leaves // FANOUT)
        sizes.append(num_blocks * FANOUT)
        num_leaves = num_blocks
    return SumTree(tuple(jnp.zeros(size) for size in [*sizes, num_leaves]))


def total(tree: SumTree) -> Float[Array, ""]:
    return jnp.sum(tree.levels[-1])


def write(tree: SumTree, places: Int[Array, "K"], masses: Float[Array, "K"]) -> SumTree:
    """Replace some leaves and all that stands above them; a leaf that is named twice keeps the larger mass."""
    level = tree.levels[0].at[places].set(0.0).at[places].max(masses)
    levels = [level]
    for above in tree.levels[1:]:
        places = places // FANOUT
        level = above.at[places].set(jnp.sum(level.reshape(-1, FANOUT)[places], axis=1))
        levels.append(level)
    return SumTree(tuple(levels))


def draw(tree: SumTree, key: Key, num_draws: int) -> Int[Array, "B"]:
    """Places in proportion to their masses. The first level is stratified (Schaul et al. 2016, appendix B.2.1)."""
    key, root_key = jax.random.split(key)
    strata = (jnp.arange(num_draws) + jax.random.uniform(root_key, (num_draws,))) / num_draws
    places = choose(jnp.broadcast_to(tree.levels[-1], (num_draws, len(tree.levels[-1]))), strata)
    for level in tree.levels[-2::-1]:
        key, level_key = jax.random.split(key)
        children = level.reshape(-1, FANOUT)[places]
        places = places * FANOUT + choose(children, jax.random.uniform(level_key, (num_draws,)))
    return places


def choose(masses: Float[Array, "B n"], uniform: Float[Array, "B"]) -> Int[Array, "B"]:
    """One column per row, by inversion. Whatever rounding does, it is a column of positive mass, if there is one."""
    cumulated = jnp.cumsum(masses, axis=1)
    positive = masses > 0
    reached = positive & (cumulated > (uniform * cumulated[:, -1])[:, None])
    last_positive = masses.shape[1] - 1 - jnp.argmax(positive[:, ::-1], axis=1)
    return jnp.where(jnp.any(reached, axis=1), jnp.argmax(reached, axis=1), last_positive)


def check_valid(tree: SumTree) -> tuple[bool, str]:
    """Whether every node is the sum of its children; for tests."""
    for number, (below, above) in enumerate(zip(tree.levels, tree.levels[1:], strict=False)):
        sums = np.asarray(below, np.float64).reshape(-1, FANOUT).sum(axis=1)
        found = np.asarray(above, np.float64)[: len(sums)]
        if not np.allclose(found, sums, rtol=1e-5, atol=0):
            return False, f"a node of level {number + 1} is not the sum of its children"
    if any(np.any(np.asarray(level) < 0) for level in tree.levels):
        return False, "a negative mass"
    return True, ""
