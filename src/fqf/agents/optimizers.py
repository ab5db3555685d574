"""An optimiser that Optax has in another form."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fqf.types import PyTree


class CentredMoments(NamedTuple):
    mean: PyTree
    variance: PyTree


def centred_rmsprop(
    learning_rate: optax.ScalarOrSchedule, decay: float, epsilon: float
) -> optax.GradientTransformationExtraArgs:
    """g / sqrt(variance + epsilon), with the variance of an exponential average kept as such.

    Optax, as TensorFlow did, keeps E[g^2] and subtracts E[g]^2. In float32 that difference of two large numbers falls
    below zero once a gradient is steady and larger than about 10, and its root is NaN. The recursion here is the same
    quantity exactly, and a sum of squares: E[g^2] - E[g]^2 = v gives v' = decay (v + (1 - decay) (g - E[g])^2).
    """

    def init(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return CentredMoments(zeros, jax.tree.map(jnp.zeros_like, params))

    def update(gradients, moments, params=None):
        variance = jax.tree.map(
            lambda v, g, m: decay * (v + (1 - decay) * (g - m) ** 2), moments.variance, gradients, moments.mean
        )
        mean = jax.tree.map(lambda m, g: m + (1 - decay) * (g - m), moments.mean, gradients)
        scaled = jax.tree.map(lambda g, v: g * jax.lax.rsqrt(v + epsilon), gradients, variance)
        return scaled, CentredMoments(mean, variance)

    scale = optax.GradientTransformation(init, update)
    return optax.chain(scale, optax.scale_by_learning_rate(learning_rate))
