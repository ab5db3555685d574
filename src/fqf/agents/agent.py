"""What an agent is to the rest of the project."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Shaped

from fqf.networks.torsos import NetworkConfig
from fqf.types import EnvironmentSpec, Key, LossOutput, PyTree, ReturnDistribution, Transition


class Agent(NamedTuple):
    """A handful of pure functions, all batched over observations."""

    init: Callable[[Key], PyTree]
    q_values: Callable[[PyTree, Shaped[Array, "B ..."], Key], Float[Array, "B A"]]
    """Expected returns while training; the key serves agents whose networks are random."""
    distribution: Callable[[PyTree, Shaped[Array, "B ..."]], ReturnDistribution]
    """The whole return of every action, [B, A, N], with nothing random in it: what evaluation and plots read."""
    loss: Callable[[PyTree, PyTree, Transition, Key], LossOutput]
    optimizer: optax.GradientTransformation


class Setting(NamedTuple):
    """What every agent is given beside its own config."""

    spec: EnvironmentSpec
    network: NetworkConfig
    optimization: "Optimization"
    double: bool
    """Whether the online network chooses the target's action (van Hasselt et al. 2016), or the target network."""


class Optimization(NamedTuple):
    """How an agent's parameters are descended."""

    values: optax.GradientTransformation
    rate: Callable[[float], optax.ScalarOrSchedule]
    """Turns another initial learning rate into one that follows the same schedule as the values' own."""


def mean(distribution: ReturnDistribution) -> Float[Array, "*B A"]:
    """Expected return of each action."""
    return jnp.sum(distribution.probabilities * distribution.values, axis=-1)


def pick(values: Float[Array, "B A *N"], action: Int[Array, "B"]) -> Float[Array, "B *N"]:
    """What belongs to one action of each state."""
    return jax.vmap(lambda rows, index: rows[index])(values, action)


def bellman(batch: Transition, values: Float[Array, "B *N"]) -> Float[Array, "B *N"]:
    """r + discount * values, atom by atom. What a network says of a terminal state does not count, NaN included."""
    reward, discount = (jax.lax.expand_dims(x, range(1, values.ndim)) for x in (batch.reward, batch.discount))
    return reward + jnp.where(discount > 0, discount * values, 0.0)
