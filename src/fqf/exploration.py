"""Epsilon-greedy play, and what changes linearly over a run."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fqf.types import Key


def epsilon_greedy(key: Key, q_values: Float[Array, "E A"], epsilon: float | Float[Array, ""]) -> Int[Array, "E"]:
    """The best action, or with probability epsilon any of them."""
    explore_key, action_key = jax.random.split(key)
    num_lanes, num_actions = q_values.shape
    explore = jax.random.uniform(explore_key, (num_lanes,)) < epsilon
    return jnp.where(
        explore, jax.random.randint(action_key, (num_lanes,), 0, num_actions), jnp.argmax(q_values, axis=1)
    )


def linear_epsilon(final: float, warm_up_steps: int, decay_steps: int) -> Callable[[Array], Array]:
    """1 while the replay fills, then linearly down to `final` (Dopamine's schedule)."""

    def epsilon(step):
        left = 1.0 - (step - warm_up_steps) / max(1, decay_steps)
        return final + (1.0 - final) * jnp.clip(left, 0.0, 1.0)

    return epsilon


def linear_exponent(initial: float, steps: int) -> Callable[[Array], Array]:
    """Of the importance weights: from `initial` to a full correction at the end of the run (Schaul et al. 2016)."""
    return lambda step: initial + (1 - initial) * step / steps
