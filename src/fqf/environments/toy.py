"""One-state MDPs whose return law is known exactly, so that a learned distribution can be measured against the truth.

| id              | reward                                      | discount | return                               |
| toy/uniform     | 0 or 1, each with probability 1/2           | 1/2      | Uniform[0, 2]                        |
| toy/normal      | Normal(0, 1)                                | 1/2      | Normal(0, 4/3)                       |
| toy/exponential | 0 with probability 1/2, else Exponential(1) | 1/2      | Exponential(1)                       |
| toy/laplace     | 0 with probability 1/4, else Laplace(1)     | 1/2      | Laplace(1)                           |
| toy/geometric   | 1 each step; the episode ends with prob 1/4 | 1/2      | 2 (1 - 2^-T), T ~ Geometric(1/4)     |
| toy/bandit      | Uniform[0, 2] or Exponential(1), by action  | ends     | the reward: equal means, two spreads |

Those that never end are truncated, as everything that is evaluated must end; a truncated return still bootstraps.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fqf.types import EnvironmentSpec, JittableEnvironment, Key, Timestep

GAMMA = 0.5
"""The discount under which the laws above hold."""
TRUNCATION_STEPS = 100


class Toy(NamedTuple):
    reward: Callable[[Key, Int[Array, ""]], Float[Array, ""]]
    termination_probability: float = 0.0
    num_actions: int = 1


def _mostly_zero(probability_of_zero: float, draw: Callable[[Key], Array]) -> Callable[[Key, Array], Array]:
    def reward(key, action):
        zero_key, value_key = jax.random.split(key)
        return jnp.where(jax.random.bernoulli(zero_key, probability_of_zero), 0.0, draw(value_key))

    return reward


def _bandit_reward(key: Key, action: Int[Array, ""]) -> Float[Array, ""]:
    narrow_key, wide_key = jax.random.split(key)
    return jnp.where(action == 0, 2 * jax.random.uniform(narrow_key), jax.random.exponential(wide_key))


TOYS = {
    "uniform": Toy(lambda key, action: jax.random.bernoulli(key).astype(jnp.float32)),
    "normal": Toy(lambda key, action: jax.random.normal(key)),
    "exponential": Toy(_mostly_zero(GAMMA, jax.random.exponential)),
    "laplace": Toy(_mostly_zero(GAMMA**2, jax.random.laplace)),
    "geometric": Toy(lambda key, action: jnp.ones(()), termination_probability=0.25),
    "bandit": Toy(_bandit_reward, termination_probability=1.0, num_actions=2),
}


def make_toy(name: str) -> JittableEnvironment:
    """The single state is observed as a constant 1; the environment's own state is its clock."""
    toy = TOYS[name]
    observation = jnp.ones(1)

    def reset(key):
        return jnp.zeros((), jnp.int32), observation

    def step(key, time, action):
        reward_key, end_key = jax.random.split(key)
        terminated = jax.random.bernoulli(end_key, toy.termination_probability)
        truncated = time + 1 >= TRUNCATION_STEPS
        return time + 1, Timestep(observation, toy.reward(reward_key, action), 1.0 - terminated, terminated | truncated)

    spec = EnvironmentSpec(f"toy/{name}", (1,), np.dtype("float32"), toy.num_actions)
    return JittableEnvironment(spec, reset, step)
