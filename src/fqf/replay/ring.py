"""Uniform replay: one ring of rows per lane, every frame stored once.

The ring has no counter. `num_rows`, the number of rows ever written to a lane, is the same for all lanes and seeds; it
stays outside the vmapped axes, so that the write head is a scalar to the compiler and rows are written in place.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from fqf.replay.nstep import n_step, same_episode, view
from fqf.types import EnvironmentSpec, Key, Timestep, Transition


class Ring(NamedTuple):
    """Row t is (o_t, a_t, r_t, discount_t, last_t) at position t modulo the capacity C."""

    observation: Shaped[Array, "C E ..."]
    action: Int[Array, "C E"]
    reward: Float[Array, "C E"]
    discount: Float[Array, "C E"]
    last: Bool[Array, "C E"]


class Sampling(NamedTuple):
    """How rows become transitions."""

    batch_size: int
    gamma: float
    n_step: int
    frame_stack: int
    clip_rewards: bool = False


def init(spec: EnvironmentSpec, capacity: int, num_lanes: int) -> Ring:
    rows = (capacity, num_lanes)
    return Ring(
        observation=jnp.zeros((*rows, *spec.observation_shape), spec.observation_dtype),
        action=jnp.zeros(rows, jnp.int32),
        reward=jnp.zeros(rows),
        discount=jnp.zeros(rows),
        last=jnp.zeros(rows, bool),
    )


def add(ring: Ring, timestep: Timestep, action: Int[Array, "E"], num_rows: Int[Array, ""]) -> Ring:
    """Write row number `num_rows`, over the oldest one if the ring is full."""
    head = num_rows % len(ring.last)
    row = Ring(timestep.observation, action, timestep.reward, timestep.discount, timestep.last)
    return jax.tree.map(lambda rows, new: jax.lax.dynamic_update_index_in_dim(rows, new, head, 0), ring, row)


def starts(num_rows: Int[Array, ""], capacity: int, how: Sampling) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """First row that may start a transition, and one past the last: neither stack nor return crosses the write head."""
    wrapped = num_rows > capacity
    first = jnp.where(wrapped, num_rows - capacity + how.frame_stack - 1, 0)
    return first, num_rows - how.n_step


def sample(ring: Ring, num_rows: Int[Array, ""], key: Key, how: Sampling) -> Transition:
    """A batch drawn uniformly, with replacement, from all rows that may start a transition and are not `last`."""
    return assemble(ring, *sample_starts(ring, num_rows, key, how), how)


def sample_starts(
    ring: Ring, num_rows: Int[Array, ""], key: Key, how: Sampling
) -> tuple[Int[Array, "B"], Int[Array, "B"]]:
    """Rows and lanes of the starts. Draws that hit a `last` row are drawn again, so the rest stays exactly uniform."""
    capacity, num_lanes = ring.last.shape
    first, end = starts(num_rows, capacity, how)

    def draw_again(carry):
        key, rows, lanes, rejected = carry
        key, draw_key = jax.random.split(key)
        drawn = jax.random.randint(draw_key, (how.batch_size,), 0, (end - first) * num_lanes)
        rows = jnp.where(rejected, first + drawn // num_lanes, rows)
        lanes = jnp.where(rejected, drawn % num_lanes, lanes)
        return key, rows, lanes, ring.last[rows % capacity, lanes]

    nothing = jnp.zeros(how.batch_size, jnp.int32)
    everything = jnp.ones(how.batch_size, bool)
    _, rows, lanes, _ = jax.lax.while_loop(
        lambda carry: jnp.any(carry[3]), draw_again, (key, nothing, nothing, everything)
    )
    return rows, lanes


def assemble(ring: Ring, rows: Int[Array, "B"], lanes: Int[Array, "B"], how: Sampling) -> Transition:
    """Transitions of `how.n_step` steps, or fewer where an episode ends, from these starts."""
    capacity = len(ring.last)
    arrivals = (rows[:, None] + 1 + jnp.arange(how.n_step)) % capacity, lanes[:, None]
    rewards = jnp.clip(ring.reward[arrivals], -1, 1) if how.clip_rewards else ring.reward[arrivals]
    total, discount, steps = jax.vmap(n_step, in_axes=(0, 0, 0, None))(
        rewards, ring.discount[arrivals], ring.last[arrivals], how.gamma
    )
    return Transition(
        observation=observe(ring, rows, lanes, how.frame_stack),
        action=ring.action[rows % capacity, lanes],
        reward=total,
        discount=discount,
        next_observation=observe(ring, rows + steps, lanes, how.frame_stack),
    )


def observe(ring: Ring, rows: Int[Array, "B"], lanes: Int[Array, "B"], frame_stack: int) -> Shaped[Array, "B ..."]:
    """Observations as the network sees them: as they are, or stacked along a new last axis, newest last."""
    capacity = len(ring.last)
    if frame_stack == 1:
        return ring.observation[rows % capacity, lanes]
    positions = rows[:, None] - jnp.arange(frame_stack)[::-1]  # [B, S], oldest first
    ended = ring.last[positions[:, :-1] % capacity, lanes[:, None]] | (positions[:, :-1] < 0)
    belongs = jax.vmap(same_episode)(ended)
    frames = ring.observation[positions % capacity, lanes[:, None]]  # [B, S, ...]
    frames = jnp.where(jax.lax.expand_dims(belongs, range(2, frames.ndim)), frames, 0)
    return view(frames, frame_stack)


def check_valid(ring: Ring, num_rows: int) -> tuple[bool, str]:
    """Whether the written rows can be episodes at all, and why not; for tests."""
    capacity = len(ring.last)
    order = np.arange(max(0, num_rows - capacity), num_rows) % capacity
    last, discount, reward = (np.asarray(leaf)[order] for leaf in (ring.last, ring.discount, ring.reward))
    if np.any(last[1:] & last[:-1]):
        return False, "two `last` rows in a row: an episode without a step"
    if not np.all((discount == 0) | (discount == 1)):
        return False, "a discount that is neither 0 nor 1"
    first = np.roll(last, 1, axis=0)[1:]
    if np.any(first & ((reward[1:] != 0) | (discount[1:] != 1))):
        return False, "the first row of an episode carries a reward or a termination"
    if not np.all(np.isfinite(reward)):
        return False, "a reward that is not finite"
    return True, ""
