"""Noisy layers: the noise is that of a weight matrix, and there is none without a key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fqf.networks.layers import FEW_ROWS, NoisyDense

LAYER = NoisyDense(features=3, sigma=0.5)


def setup(rows=(2, 4)):
    inputs = jax.random.normal(jax.random.key(0), (*rows, 5))
    params = LAYER.init(jax.random.key(1), inputs, None)
    return inputs, jax.tree.map(lambda leaf: leaf + 0.1, params)


@pytest.mark.parametrize("rows", [(1,), (2, 4)])
def test_it_is_a_dense_layer_with_noise_in_its_weights(rows):
    """W + S * outer(f(e_in), f(e_out)), with the five and three numbers that the key gives; for few rows and many."""
    inputs, params = setup(rows)
    assert (np.prod(rows) <= FEW_ROWS) == (rows == (1,))
    leaves = {name: np.asarray(leaf, np.float64) for name, leaf in params["params"].items()}
    noise = np.asarray(jax.random.normal(jax.random.key(2), (8,)), np.float64)
    f = np.sign(noise) * np.sqrt(np.abs(noise))
    kernel = leaves["kernel"] + leaves["kernel_sigma"] * np.outer(f[:5], f[5:])
    bias = leaves["bias"] + leaves["bias_sigma"] * f[5:]
    got = LAYER.apply(params, inputs, jax.random.key(2))
    np.testing.assert_allclose(got, np.asarray(inputs, np.float64) @ kernel + bias, rtol=1e-5, atol=1e-6)
    plain = LAYER.apply(params, inputs, None)
    np.testing.assert_allclose(plain, inputs @ params["params"]["kernel"] + params["params"]["bias"], rtol=1e-6)


def test_it_starts_as_published():
    """mu uniform within 1/sqrt(5), sigma 0.5 / sqrt(5) (Fortunato et al. 2018, section 3.2)."""
    wide = NoisyDense(features=500, sigma=0.5).init(jax.random.key(0), jnp.zeros((1, 5)), None)["params"]
    bound = 1 / np.sqrt(5)
    for name in ("kernel", "bias"):
        assert np.all(np.abs(wide[name]) <= bound)
        assert np.max(wide[name]) > 0.9 * bound
        assert np.min(wide[name]) < -0.9 * bound
        np.testing.assert_allclose(wide[name + "_sigma"], 0.5 * bound, rtol=1e-6)


def test_both_parts_get_gradients():
    inputs, params = setup()
    gradients = jax.grad(lambda p: jnp.sum(LAYER.apply(p, inputs, jax.random.key(2)) ** 2))(params)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(gradients))
