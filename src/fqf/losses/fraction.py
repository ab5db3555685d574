"""Where to put the fractions: the gradient of the 1-Wasserstein error (FQF section 3.2, proposition 1)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def w1_gradient(edge_quantiles: Float[Array, "inner"], quantiles: Float[Array, "N"]) -> Float[Array, "inner"]:
    """dW1/dtau_i for i = 1..N-1, from F at the inner edges and at the midpoints."""
    return 2 * edge_quantiles - quantiles[1:] - quantiles[:-1]


def pull_back(gradient: Float[Array, "inner"], taus: Float[Array, "edges"]) -> Float[Array, ""]:
    """A scalar whose gradient with respect to the inner edges is `gradient`; its value means nothing."""
    return jnp.sum(jax.lax.stop_gradient(gradient) * taus[1:-1])


def w1_estimate(
    widths: Float[Array, "N"], quantiles: Float[Array, "N"], edge_quantiles: Float[Array, "inner"]
) -> Float[Array, ""]:
    """The 1-Wasserstein error as far as F was asked: the area between the staircase and the polyline through F at
    midpoints and inner edges. The outermost half-steps are left out, as F is not asked at 0 and 1."""
    before = widths[:-1] * jnp.abs(edge_quantiles - quantiles[:-1])  # triangles of half a step, by 4
    after = widths[1:] * jnp.abs(quantiles[1:] - edge_quantiles)
    return jnp.sum(before + after) / 4


def entropy(widths: Float[Array, "N"]) -> Float[Array, ""]:
    """H(q) = -sum q log q, with 0 log 0 = 0."""
    positive = widths > 0
    return -jnp.sum(jnp.where(positive, widths * jnp.log(jnp.where(positive, widths, 1.0)), 0.0))
