"""Environments by name, and lanes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gymnasium_package
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from fqf.environments import atari, gymnasium, gymnax, toy
from fqf.environments.atari import AtariConfig
from fqf.environments.gymnasium import GymnasiumConfig
from fqf.environments.gymnax import GymnaxEnvironment
from fqf.environments.host import Hosted
from fqf.errors import UserError, nearest
from fqf.types import Environment, HostEnvironment, HostLanes, JittableEnvironment, Key, PyTree, Timestep

FAMILIES: dict[str, tuple[Callable[[str], JittableEnvironment], tuple[str, ...]]] = {
    "classic": (gymnax.make_classic, tuple(gymnax.CLASSIC)),
    "minatar": (gymnax.make_minatar, tuple(gymnax.MINATAR)),
    "toy": (toy.make_toy, tuple(toy.TOYS)),
}
NAMES = {family: names for family, (_, names) in FAMILIES.items()} | {"atari": atari.GAMES}
IDS = tuple(f"{family}/{name}" for family, names in NAMES.items() for name in names)
"""All ids but gym/..., which are Gymnasium's to know."""


@dataclass(frozen=True)
class NoOptions:
    """Of families whose environments have nothing to choose."""


AnyEnvironment: TypeAlias = JittableEnvironment | HostEnvironment
EnvironmentLike: TypeAlias = (
    str | AnyEnvironment | GymnaxEnvironment | gymnasium.MakeEnv | gymnasium_package.Env[Any, Any]
)


def make(environment: EnvironmentLike, options: Any = None) -> AnyEnvironment:
    """An environment by id, or one of the user's own: gymnax's, a record of this package's, or a function that makes
    a Gymnasium environment."""
    if isinstance(environment, JittableEnvironment | HostEnvironment):
        return environment
    if isinstance(environment, GymnaxEnvironment):
        return gymnax.adapt(environment, f"custom/{environment.name}")
    if isinstance(environment, gymnasium_package.Env):
        raise UserError("give a function that makes the environment, not the environment: every lane needs its own")
    if not isinstance(environment, str):
        return gymnasium.adapt(environment, f"custom/{getattr(environment, '__name__', 'gymnasium')}")
    refuse_unknown(environment)
    kind, name = environment.split("/", 1)
    if kind == "gym":
        return gymnasium.make_gymnasium(name, options or GymnasiumConfig())
    if kind == "atari":
        return atari.make_atari(name, options or AtariConfig())
    return FAMILIES[kind][0](name)


def is_known(id: str) -> bool:
    """Whether `make` can find it; not so an environment of the user's own."""
    return id in IDS or id.startswith("gym/")


def refuse_unknown(id: str) -> None:
    if not is_known(id):
        near = nearest(id, IDS)
        advice = near if near.startswith("did you mean") else "`fqf environments` lists them all"
        raise UserError(f"unknown environment {id!r}; {advice}")


def family(id: str) -> str:
    return id.split("/")[0]


def options(id: str) -> Any:
    """What there is to choose about an environment, at its defaults."""
    return {"atari": AtariConfig, "gym": GymnasiumConfig}.get(family(id), NoOptions)()


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


def visible(environment: AnyEnvironment) -> HostLanes:
    """One lane to look at, whatever the environment."""
    if isinstance(environment, HostEnvironment):
        return environment.make(1, True)
    return Hosted(vectorize(environment, 1))


def _first(observation: Array) -> Timestep:
    return Timestep(observation, reward=jnp.zeros(()), discount=jnp.ones(()), last=jnp.array(False))
