"""From consecutive rows to n-step returns and stacked observations.

rows of one lane:   o0   o1   o2   o3* | o0   o1 ...         (* last)
arrival:            -    r1   r2   r3    0    r1             r_t, discount_t and last_t belong to the arrival at o_t
start at o1, n = 3:      o1 -> r2 + gamma r3, then o3*:      the sum stops at the end of the episode, after two steps
stack of 3 at o1:   0 o0 o1                                  zeros stand for frames before the episode
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from fqf.types import Timestep


def n_step(
    rewards: Float[Array, "n"], discounts: Float[Array, "n"], lasts: Bool[Array, "n"], gamma: float
) -> tuple[Float[Array, ""], Float[Array, ""], Int[Array, ""]]:
    """Return, bootstrap discount and number of steps over the n arrivals after a start.

    The sum stops after an arrival with discount 0 (the return ends there) or `last` (what follows is another episode).
    """
    stops = (discounts == 0) | lasts
    reached = jnp.cumsum(stops) - stops == 0  # no stop before this arrival
    steps = jnp.sum(reached)
    powers = gamma ** jnp.arange(len(rewards))
    total = jnp.sum(jnp.where(reached, powers * rewards, 0.0))
    return total, gamma**steps * discounts[steps - 1], steps


def same_episode(lasts: Bool[Array, "older"]) -> Bool[Array, "older+1"]:
    """Which of S rows, oldest first, belong to the episode of the newest; `lasts` are of all but the newest."""
    ends_between = jnp.cumsum(lasts[::-1])[::-1]
    return jnp.append(ends_between == 0, True)


def push(
    stack: Shaped[Array, "E ..."], observation: Shaped[Array, "E ..."], first: Bool[Array, "E"], frame_stack: int
) -> Shaped[Array, "E ..."]:
    """The acting side of stacking: drop the oldest frame, append the newest; an episode's first row stands on zeros.

    A stack keeps its frames along its second axis, each in one piece: whole frames are moved faster than every fourth
    byte, as networks want them (`view`), and they move at every step.
    """
    if frame_stack == 1:
        return observation
    kept = jnp.where(_expand(first, stack), 0, stack[:, 1:])
    return jnp.concatenate([kept, observation[:, None]], axis=1)


def view(stack: Shaped[Array, "B ..."], frame_stack: int) -> Shaped[Array, "B ..."]:
    """A stack as networks see it: the frames along the last axis, newest last."""
    return stack if frame_stack == 1 else jnp.moveaxis(stack, 1, -1)


def first_stack(timestep: Timestep, frame_stack: int) -> Shaped[Array, "E ..."]:
    """The stack at the first row of every lane."""
    frame = timestep.observation
    empty = jnp.zeros((len(frame), frame_stack, *frame.shape[1:]), frame.dtype)
    return push(empty, frame, jnp.ones(len(timestep.last), bool), frame_stack)


def _expand(flags: Bool[Array, "E"], like: Shaped[Array, "E ..."]) -> Bool[Array, "E ..."]:
    return jax.lax.expand_dims(flags, range(1, like.ndim))
