"""The fraction proposal network, and fractions that hold in float32 what they promise on paper."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fqf.types import Key, PyTree

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


def random(key: Key, batch_size: int, num_fractions: int) -> Fractions:
    """The N-1 inner edges uniform on (0, 1): the spacings of sorted uniforms are Dirichlet(1, ..., 1)."""
    exponentials = jax.random.exponential(key, (batch_size, num_fractions))
    return from_widths(exponentials / jnp.sum(exponentials, axis=1, keepdims=True))


def shift(fractions: Fractions) -> Float[Array, "B"]:
    """The largest distance of an edge from where uniform fractions have it."""
    size = fractions.widths.shape[1]
    return jnp.max(jnp.abs(fractions.taus - jnp.arange(size + 1) / size), axis=1)


class FractionSource(NamedTuple):
    """Where a state's fractions come from."""

    init: Callable[[Key, int], PyTree]
    """key, number of features -> parameters: those of `proposal`, if a network proposes"""
    fractions: Callable[[PyTree, Float[Array, "B D"], Key | None], Fractions]
    """Gradients reach the source's own parameters and nothing else. Without a key nothing is random."""


def make_fraction_source(
    kind: Literal["proposed", "uniform", "random", "frozen"], num_fractions: int
) -> FractionSource:
    """Proposed: one linear layer from state features to N logits; its zero weights start the fractions uniform.

    A frozen proposal has random weights: with zero weights it would be `uniform`, and an ablation would not tell
    "not uniform" from "learned".
    """
    start = nn.initializers.lecun_normal() if kind == "frozen" else nn.initializers.zeros
    proposal = nn.Dense(num_fractions, kernel_init=start)

    def init(key, num_features):
        return {"proposal": proposal.init(key, jnp.zeros((1, num_features)))}

    def proposed(params, psi, key):
        return propose(proposal.apply(params["proposal"], jax.lax.stop_gradient(psi)))

    def frozen(params, psi, key):
        return jax.lax.stop_gradient(proposed(params, psi, key))

    def drawn(params, psi, key):
        return uniform(len(psi), num_fractions) if key is None else random(key, len(psi), num_fractions)

    def equal(params, psi, key):
        return uniform(len(psi), num_fractions)

    def nothing(key, num_features):
        return {}

    return {
        "proposed": FractionSource(init, proposed),
        "frozen": FractionSource(init, frozen),
        "random": FractionSource(nothing, drawn),
        "uniform": FractionSource(nothing, equal),
    }[kind]
