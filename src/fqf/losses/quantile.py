"""Quantile regression with the Huber loss (FQF section 3.3; Dabney et al. 2018)."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def huber(delta: Float[Array, "..."], kappa: float) -> Float[Array, "..."]:
    """Quadratic up to `kappa`, linear beyond."""
    size = jnp.abs(delta)
    return jnp.where(size <= kappa, 0.5 * delta**2, kappa * (size - 0.5 * kappa))


def quantile_huber(
    quantiles: Float[Array, "N"],
    fractions: Float[Array, "N"],
    targets: Float[Array, "M"],
    target_weights: Float[Array, "M"],
    kappa: float,
) -> Float[Array, ""]:
    """Quantile Huber loss of one transition, divided by kappa. The weights sum to one; the paper's are 1/M each."""
    delta = targets[None, :] - quantiles[:, None]  # [N, M]
    loss = jnp.abs(fractions[:, None] - (delta < 0)) * huber(delta, kappa) / kappa
    return jnp.sum(loss @ target_weights)  # weighted mean over targets, sum over quantiles
