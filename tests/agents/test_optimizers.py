"""Centred RMSProp against its textbook form, where that form can be computed."""

import jax
import jax.numpy as jnp
import numpy as np

from fqf.agents.optimizers import centred_rmsprop


def steps(optimizer, gradients):
    state = optimizer.init(jnp.zeros(gradients.shape[1]))
    _, updates = jax.lax.scan(lambda state, g: optimizer.update(g, state)[::-1], state, gradients)
    return np.asarray(updates)


def test_it_is_the_textbook_form():
    """E[g^2] - E[g]^2 by two averages, in float64."""
    gradients = np.random.default_rng(0).normal([0.3, -2.0, 0.0], [1.0, 0.5, 0.1], (50, 3))
    mean, square, expected = np.zeros(3), np.zeros(3), []
    for g in gradients:
        mean, square = 0.9 * mean + 0.1 * g, 0.9 * square + 0.1 * g**2
        expected.append(-0.01 * g / np.sqrt(square - mean**2 + 1e-5))
    got = steps(centred_rmsprop(0.01, 0.9, 1e-5), jnp.asarray(gradients, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-3)


def test_a_large_steady_gradient_stays_finite():
    """The difference of two averages rounds below zero here, and its root is NaN."""
    noise = 1 + 1e-4 * np.random.default_rng(1).normal(size=(5_000, 8))
    updates = steps(centred_rmsprop(1e-3, 0.95, 1e-5), jnp.asarray(100 * noise, jnp.float32))
    assert np.all(np.isfinite(updates))
    assert np.all(updates < 0)
