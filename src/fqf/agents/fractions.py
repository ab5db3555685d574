"""What the agents that learn their fractions share: how the fractions are descended, and what is logged of them."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fqf.agents.agent import Optimization
from fqf.agents.optimizers import centred_rmsprop
from fqf.losses.fraction import entropy, w1_estimate, w1_gradient
from fqf.networks.fractions import Fractions, shift


def make_optimizer(
    optimization: Optimization, rate: float, decay: float, epsilon: float
) -> optax.GradientTransformation:
    """RMSProp for the fraction proposal network, the values' optimiser for all else: their losses are summed, and no
    parameter gets gradients from both."""
    fractions = centred_rmsprop(optimization.rate(rate), decay, epsilon)
    return optax.multi_transform(
        {"values": optimization.values, "fractions": fractions},
        lambda params: {name: "fractions" if name == "proposal" else "values" for name in params},
    )


def describe(
    fractions: Fractions, quantiles: Float[Array, "B N"], edge_quantiles: Float[Array, "B inner"]
) -> dict[str, Float[Array, ""]]:
    """Whether fractions move, collapse or run away; F of the taken actions at the midpoints and at the inner edges."""
    gradient = jax.vmap(w1_gradient)(edge_quantiles, quantiles)
    return {
        "q": jnp.mean(jnp.sum(fractions.widths * quantiles, axis=1)),
        "fraction_entropy": jnp.mean(jax.vmap(entropy)(fractions.widths)),
        "fraction_shift": jnp.mean(shift(fractions)),
        "crossing_rate": jnp.sum(jnp.diff(quantiles, axis=1) < 0) / max(1, quantiles.size - len(quantiles)),
        "w1_estimate": jnp.mean(jax.vmap(w1_estimate)(fractions.widths, quantiles, edge_quantiles)),
        "w1_gradient_norm": jnp.mean(jnp.linalg.norm(gradient, axis=1)),
    }
