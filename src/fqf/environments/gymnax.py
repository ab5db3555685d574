"""gymnax's classic control and MinAtar games, with terminations and truncations told apart.

gymnax's MinAtar is not quite the original: no sticky actions, episodes cut at 1,000 steps, and its Space Invaders draws
no random number, so that the same actions always give the same game.

The package is imported when one of its environments is made, and not before: it brings pandas and seaborn along, which
take 2.6 of the 4.3 seconds in which `fqf` starts, and 60 MB.
"""

import importlib
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from fqf.types import EnvironmentSpec, JittableEnvironment, Timestep

FLOAT, BOOL = np.dtype("float32"), np.dtype(bool)
CLASSIC = {"cartpole": "CartPole-v1", "acrobot": "Acrobot-v1", "mountain_car": "MountainCar-v0"}
MINATAR = {
    "asterix": "Asterix-MinAtar",
    "breakout": "Breakout-MinAtar",
    "freeway": "Freeway-MinAtar",
    "seaquest": "Seaquest-MinAtar",
    "space_invaders": "SpaceInvaders-MinAtar",
}


@runtime_checkable
class GymnaxEnvironment(Protocol):
    """What we need of `gymnax.environments.environment.Environment`."""

    name: str
    num_actions: int
    default_params: Any

    def reset_env(self, key: Any, params: Any) -> Any: ...

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any: ...

    def is_truncated(self, state: Any, params: Any) -> Any: ...

    def observation_space(self, params: Any) -> Any: ...


def make_classic(name: str) -> JittableEnvironment:
    return adapt(from_package(CLASSIC[name]), f"classic/{name}")


def make_minatar(name: str) -> JittableEnvironment:
    """MinAtar's cells are 0 or 1: as booleans a replay of 100,000 frames takes 40 to 100 MB, not 160 to 400."""
    return adapt(from_package(MINATAR[name]), f"minatar/{name}", BOOL)


def from_package(name: str) -> GymnaxEnvironment:
    return importlib.import_module("gymnax").make(name)[0]


def adapt(environment: GymnaxEnvironment, id: str, dtype: np.dtype = FLOAT) -> JittableEnvironment:
    """Any gymnax environment with a discrete action space, under its default parameters."""
    params: Any = environment.default_params

    def reset(key):
        observation, state = environment.reset_env(key, params)
        return jax.tree.map(jnp.asarray, state), observation.astype(dtype)

    def step(key, state, action):
        observation, state, reward, terminated, _ = environment.step_env(key, state, action, params)
        terminated = jnp.asarray(terminated, bool)
        return state, Timestep(
            observation=observation.astype(dtype),
            reward=jnp.asarray(reward, jnp.float32),
            discount=1.0 - terminated,
            last=terminated | environment.is_truncated(state, params),
        )

    shape = tuple(environment.observation_space(params).shape)
    return JittableEnvironment(EnvironmentSpec(id, shape, dtype, environment.num_actions), reset, step)
