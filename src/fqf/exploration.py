"""Epsilon-greedy play, and what changes linearly over a run."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fqf.types import Key


def epsilon_greedy(key: Key, q_values: Float[Array, "E A"], epsilon: float | Float[Array, ""]) -> Int[Array, "E"]:
    """The best action, or with probability epsilon any of them."""
    num_lanes, num_actions = q_values.shape
    return greedy_but(explore(key, num_lanes, num_actions, epsilon), q_values)


def explore(key: Key, num_lanes: int, num_actions: int, epsilon: float | Float[Array, ""]) -> Int[Array, "E"]:
    """With probability epsilon any action, else -1. It needs no values, so it can be drawn before they are known."""
    explore_key, action_key = jax.random.split(key)
    chosen = jax.random.uniform(explore_key, (num_lanes,)) < epsilon
    return jnp.where(chosen, jax.random.randint(action_key, (num_lanes,), 0, num_actions), -1)


def greedy_but(explored: Int[Array, "E"], q_values: Float[Array, "E A"]) -> Int[Array, "E"]:
    return jnp.where(explored < 0, jnp.argmax(q_values, axis=1), explored)


def linear_epsilon(final: float, warm_up_steps: int, decay_steps: int) -> Callable[[Array], Array]:
    """1 while the replay fills, then linearly down to `final` (Dopamine's schedule)."""

    def epsilon(step):
        left = 1.0 - (step - warm_up_steps) / max(1, decay_steps)
        return final + (1.0 - final) * jnp.clip(left, 0.0, 1.0)

    return epsilon


def linear_exponent(initial: float, steps: int) -> Callable[[Array], Array]:
    """Of the importance weights: from `initial` to a full correction at the end of the run (Schaul et al. 2016)."""
    return lambda step: initial + (1 - initial) * step / steps
