"""Environments by name, and lanes of them."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from gymnax.environments.environment import Environment as GymnaxEnvironment
from jaxtyping import Array, Bool

from fqf.environments import gymnax, toy
from fqf.errors import UserError, nearest
from fqf.types import Environment, JittableEnvironment, Key, PyTree, Timestep

FAMILIES: dict[str, tuple[Callable[[str], JittableEnvironment], tuple[str, ...]]] = {
    "classic": (gymnax.make_classic, tuple(gymnax.CLASSIC)),
    "minatar": (gymnax.make_minatar, tuple(gymnax.MINATAR)),
    "toy": (toy.make_toy, tuple(toy.TOYS)),
}
IDS = tuple(f"{family}/{name}" for family, (_, names) in FAMILIES.items() for name in names)

EnvironmentLike: TypeAlias = str | JittableEnvironment | GymnaxEnvironment


def make(environment: EnvironmentLike) -> JittableEnvironment:
    """An environment by id, or one of the user's own: a gymnax environment or a `JittableEnvironment`."""
    if isinstance(environment, JittableEnvironment):
        return environment
    if isinstance(environment, GymnaxEnvironment):
        return gymnax.adapt(environment, f"custom/{environment.name}")
    if environment not in IDS:
        raise UserError(f"unknown environment {environment!r}; {nearest(environment, IDS)}")
    family, name = environment.split("/")
    return FAMILIES[family][0](name)


def family(id: str) -> str:
    return id.split("/")[0]


class LaneState(NamedTuple):
    state: PyTree
    key: Key
    last: Bool[Array, ""]


def vectorize(environment: JittableEnvironment, num_lanes: int) -> Environment:
    """`num_lanes` independent copies; the step after `last` is a reset, whatever the action."""

    def init_lane(key):
        key, reset_key = jax.random.split(key)
        state, observation = environment.reset(reset_key)
        return LaneState(state, key, jnp.array(False)), _first(observation)

    def step_lane(lane, action):
        key, step_key, reset_key = jax.random.split(lane.key, 3)
        fresh, observation = environment.reset(reset_key)
        stepped, timestep = environment.step(step_key, lane.state, action)
        state, timestep = jax.tree.map(
            lambda new, old: jnp.where(lane.last, new, old).astype(old.dtype),
            (fresh, _first(observation)),
            (stepped, timestep),
        )
        return LaneState(state, key, timestep.last), timestep

    return Environment(
        spec=environment.spec,
        num_lanes=num_lanes,
        init=lambda key: jax.vmap(init_lane)(jax.random.split(key, num_lanes)),
        step=jax.vmap(step_lane),
    )


def _first(observation: Array) -> Timestep:
    return Timestep(observation, reward=jnp.zeros(()), discount=jnp.ones(()), last=jnp.array(False))
