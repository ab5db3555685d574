"""Return distributions as probabilities on a fixed grid of atoms (C51; Bellemare et al. 2017)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def project(
    values: Float[Array, "M"], probabilities: Float[Array, "M"], support: Float[Array, "N"]
) -> Float[Array, "N"]:
    """Share each atom's probability between its two neighbours on the grid; beyond the ends it goes to the end."""
    spacing = support[1] - support[0]
    inside = jnp.clip(values, support[0], support[-1])
    shares = jnp.clip(1 - jnp.abs(inside[None, :] - support[:, None]) / spacing, 0, 1)  # [N, M]
    return shares @ probabilities


def cross_entropy(probabilities: Float[Array, "N"], logits: Float[Array, "N"]) -> Float[Array, ""]:
    """- sum_i m_i log p_i"""
    return -jnp.sum(probabilities * jax.nn.log_softmax(logits))


def divergence(probabilities: Float[Array, "N"], logits: Float[Array, "N"]) -> Float[Array, ""]:
    """KL(m || p): the cross entropy without the target's own entropy, which no network can lower."""
    positive = probabilities > 0
    own = jnp.where(positive, probabilities * jnp.log(jnp.where(positive, probabilities, 1.0)), 0.0)
    return cross_entropy(probabilities, logits) + jnp.sum(own)
