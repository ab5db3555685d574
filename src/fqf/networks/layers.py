"""Layers that Flax does not have, or that XLA's CPU back end does not run well."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fqf.types import Key


@jax.custom_vjp
def product(inputs: Float[Array, "*axes D"], kernel: Float[Array, "D F"]) -> Float[Array, "*axes F"]:
    """inputs @ kernel, whose kernel's gradient comes out the way the kernel lies.

    JAX makes that gradient as (gradient' @ inputs)', and in a loop XLA's CPU back end turns it around by reading it
    across its rows wherever it is used: in both of Adam's moments. Turning the inputs around costs less as long as
    they have fewer rows than there are outputs (docs/decisions/0010-speed.md).
    """
    return inputs @ kernel


def _product(inputs, kernel):
    return inputs @ kernel, (inputs, kernel)


def _product_back(saved, gradient):
    inputs, kernel = saved
    size, features = kernel.shape
    rows, sent = inputs.reshape(-1, size), gradient.reshape(-1, features)
    of_kernel = rows.T @ sent if len(rows) < features else (sent.T @ rows).T
    return gradient @ kernel.T, of_kernel


product.defvjp(_product, _product_back)


def _dot_general(inputs, kernel, dimensions, precision):
    """`product`, as Flax calls it: the last axis of inputs with the first of the kernel."""
    return product(inputs, kernel)


START = nn.initializers.variance_scaling(3**-0.5, "fan_in", "uniform")
Dense = functools.partial(nn.Dense, kernel_init=START, dot_general=_dot_general)
"""A dense layer as Dopamine's IQN starts it, on which the paper's experiments were built."""


def patches(images: Float[Array, "B H W C"], size: int, stride: int) -> Float[Array, "B h w {size}*{size}*C"]:
    """All windows of a VALID convolution, unfolded: row-major over the window, channels last."""
    height = (images.shape[1] - size) // stride + 1
    width = (images.shape[2] - size) // stride + 1
    windows = [
        images[:, i : i + stride * (height - 1) + 1 : stride, j : j + stride * (width - 1) + 1 : stride]
        for i in range(size)
        for j in range(size)
    ]
    return jnp.concatenate(windows, axis=-1)


def blocks(images: Float[Array, "B H W C"], size: int) -> Float[Array, "B H/{size} W/{size} {size}*{size}*C"]:
    """Squares of pixels that do not overlap become the channels of one."""
    batch, height, width, channels = images.shape
    squares = images.reshape(batch, height // size, size, width // size, size, channels)
    return jnp.swapaxes(squares, 2, 3).reshape(batch, height // size, width // size, size * size * channels)


def convolve(
    images: Float[Array, "B H W C"], kernel: Float[Array, "{size}*{size}*C F"], size: int, stride: int
) -> Float[Array, "B h w F"]:
    """`patches(images, size, stride) @ kernel`, with less to copy (docs/decisions/0010-speed.md).

    Windows that step by whole blocks are windows on blocks: 8x8 pixels by 4 are 2x2 blocks of 4x4 by 1. Where four such
    windows meet, every block is multiplied with all four matrices at once, and each window adds up its own: nothing
    is unfolded, forward or backward. For 3x3 that would be too many products, and windows are unfolded.
    """
    if stride > 1 and size % stride == 0:
        height, width = ((length - size) // stride * stride + size for length in images.shape[1:3])
        kernel = blocks(kernel.reshape(1, size, size, -1), stride).reshape(kernel.shape)
        images, size, stride = blocks(images[:, :height, :width], stride), size // stride, 1
    if stride > 1 or size > 2:
        return patches(images, size, stride) @ kernel
    height, width = (length - size + 1 for length in images.shape[1:3])
    channels, features = images.shape[-1], kernel.shape[-1]
    matrices = jnp.swapaxes(kernel.reshape(size * size, channels, features), 0, 1).reshape(channels, -1)
    products = (images.reshape(-1, channels) @ matrices).reshape(*images.shape[:3], size * size, features)
    places = [(i, j) for i in range(size) for j in range(size)]
    shifted = [products[:, i : i + height, j : j + width, index] for index, (i, j) in enumerate(places)]
    return functools.reduce(jnp.add, shifted)


class Weights(nn.Module):
    """The parameters of a dense layer, for products that are made by hand."""

    features: int

    @nn.compact
    def __call__(self, inputs: int) -> tuple[Float[Array, "D F"], Float[Array, "F"]]:
        kernel = self.param("kernel", START, (inputs, self.features))
        return kernel, self.param("bias", nn.initializers.zeros, (self.features,))


class PatchConv(nn.Module):
    """A VALID convolution as a product of matrices, which it stays under `vmap` over seeds."""

    features: int
    size: int
    stride: int

    @nn.compact
    def __call__(self, images: Float[Array, "B H W C"]) -> Float[Array, "B h w F"]:
        kernel, bias = Weights(self.features, name="Dense_0")(self.size**2 * images.shape[-1])
        return convolve(images, kernel, self.size, self.stride) + bias


def cos_pi(y: Float[Array, "..."]) -> Float[Array, "..."]:
    """cos(pi y) for moderate y: the nearest integer gives the sign, an even polynomial the rest.

    The polynomial is within 3e-10 of the cosine on [-1/2, 1/2], so float32 rounding is all that is left. XLA's own
    cosine reduces arguments of any size and takes longer (docs/decisions/0005-seeds-and-speed.md).
    """
    nearest = jnp.round(y)
    square = (y - nearest) ** 2
    even = 1.0 - jnp.abs(nearest % 2) * 2.0
    # Chebyshev fit of degree 5 to cos(pi sqrt(u)) on 0 <= u <= 1/4.
    coefficients = (1.0, -4.93480214, 4.05870916, -1.335212, 0.234937314, -0.0243963243)
    polynomial = jnp.full_like(y, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        polynomial = polynomial * square + coefficient
    return even * polynomial


class CosineEmbedding(nn.Module):
    """phi(tau) = ReLU(cos(pi i tau) W + b), i = 1..num_cosines (IQN section 3.1; FQF section 3.4)."""

    features: int
    num_cosines: int = 64

    @nn.compact
    def __call__(self, taus: Float[Array, "B N"]) -> Float[Array, "B N D"]:
        harmonics = jnp.arange(1, self.num_cosines + 1, dtype=taus.dtype)
        return jax.nn.relu(Dense(self.features)(cos_pi(taus[..., None] * harmonics)))


FEW_ROWS = 4
"""Up to so many rows a product reads its matrix about as fast as it multiplies, so that two are no loss."""


class NoisyDense(nn.Module):
    """A dense layer whose weights carry factorised Gaussian noise (Fortunato et al. 2018, section 3, case b).

    y = (W + S * f(e_out) f(e_in)') x + b + s * f(e_out), f(e) = sign(e) sqrt(|e|). One key, one noise; without a key
    there is none. For a few rows the noise scales inputs and outputs, and is never a matrix; for many rows it is one,
    which costs as much as one or two rows and saves a second product with all of them.
    """

    features: int
    sigma: float
    """Noise at the start, times 1/sqrt(inputs); 0.5 in Fortunato et al. and in Rainbow."""

    @nn.compact
    def __call__(self, inputs: Float[Array, "*axes D"], key: Key | None) -> Float[Array, "*axes F"]:
        size = inputs.shape[-1]
        uniform = nn.initializers.uniform(2 / size**0.5)
        start = lambda key, shape: uniform(key, shape) - 1 / size**0.5  # noqa: E731
        spread = nn.initializers.constant(self.sigma / size**0.5)
        kernel = self.param("kernel", start, (size, self.features))
        bias = self.param("bias", start, (self.features,))
        kernel_sigma = self.param("kernel_sigma", spread, (size, self.features))
        bias_sigma = self.param("bias_sigma", spread, (self.features,))
        if key is None:
            return inputs @ kernel + bias
        noise = jax.random.normal(key, (size + self.features,))
        noise = jnp.sign(noise) * jnp.sqrt(jnp.abs(noise))
        of_inputs, of_outputs = noise[:size], noise[size:]
        bias = bias + bias_sigma * of_outputs
        if math.prod(inputs.shape[:-1]) <= FEW_ROWS:
            return inputs @ kernel + ((inputs * of_inputs) @ kernel_sigma) * of_outputs + bias
        return product(inputs, kernel + kernel_sigma * of_inputs[:, None] * of_outputs) + bias
