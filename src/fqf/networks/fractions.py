"""The fraction proposal network, and fractions that hold in float32 what they promise on paper."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

GRID = 2.0**24
"""Every fraction is a multiple of 1/GRID. Such numbers up to 1 are exact in float32, and so are their sums, in whatever
order the compiler adds them: cumulated widths can then neither decrease nor pass 1."""


class Fractions(NamedTuple):
    """A staircase's steps along the probability axis, for a batch of states."""

    taus: Float[Array, "B N+1"]
    """Edges, from exactly 0 to exactly 1."""
    tau_hats: Float[Array, "B N"]
    """Midpoints, where the quantile values are asked."""
    widths: Float[Array, "B N"]
    """Probabilities of the steps; they sum to exactly 1."""


def from_widths(widths: Float[Array, "B N"]) -> Fractions:
    """Cumulate widths that sum to about one; what rounding leaves over goes to the last."""
    inner = jnp.cumsum(_straight_through(jnp.floor(widths * GRID) / GRID, widths)[:, :-1], axis=1)
    inner = _straight_through(jnp.minimum(inner, 1.0), inner)  # softmax itself may sum to one unit more than 1
    ends = jnp.zeros_like(widths[:, :1])
    taus = jnp.concatenate([ends, inner, ends + 1], axis=1)
    return Fractions(taus, (taus[:, 1:] + taus[:, :-1]) / 2, jnp.diff(taus, axis=1))


def _straight_through(value: Array, like: Array) -> Array:
    """`value`, exactly, with the gradient of `like`, of which it is a rounding."""
    return like + jax.lax.stop_gradient(value - like)


def propose(logits: Float[Array, "B N"]) -> Fractions:
    """Cumulated softmax (FQF section 3.4)."""
    return from_widths(jax.nn.softmax(logits))


def uniform(batch_size: int, num_fractions: int) -> Fractions:
    """tau_i = i/N, as in QR-DQN."""
    return from_widths(jnp.full((batch_size, num_fractions), 1 / num_fractions))


def random(key: Key[Array, ""], batch_size: int, num_fractions: int) -> Fractions:
    """The N-1 inner edges uniform on (0, 1): the spacings of sorted uniforms are Dirichlet(1, ..., 1)."""
    exponentials = jax.random.exponential(key, (batch_size, num_fractions))
    return from_widths(exponentials / jnp.sum(exponentials, axis=1, keepdims=True))


class FractionProposal(nn.Module):
    """One linear layer from state features to N logits. With zero weights the fractions are uniform."""

    num_fractions: int
    initializer: nn.initializers.Initializer

    @nn.compact
    def __call__(self, features: Float[Array, "B D"]) -> Float[Array, "B N"]:
        return nn.Dense(self.num_fractions, kernel_init=self.initializer)(features)
