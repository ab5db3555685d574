"""C51's projection and its loss, by hand and against loops."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.naive_losses import central_differences, naive_categorical_projection

from fqf.losses.categorical import cross_entropy, divergence, project

SUPPORT = np.linspace(-2.0, 4.0, 7)  # spacing 1
PROJECT = jax.jit(project)


def shares(values, probabilities):
    return np.asarray(PROJECT(*(jnp.asarray(x, jnp.float32) for x in (values, probabilities, SUPPORT))))


def test_by_hand():
    """0.25 lies a quarter of the way from 0 to 1; -9 and 4.5 go to the ends; 2 lies on the grid."""
    got = shares([0.25, -9.0, 2.0, 4.5], [0.4, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(got, [0.1, 0.0, 0.3, 0.1, 0.2, 0.0, 0.3], atol=1e-6)


def test_atoms_on_the_grid_keep_their_mass():
    probabilities = np.array([0.1, 0.05, 0.25, 0.2, 0.1, 0.1, 0.2])
    np.testing.assert_allclose(shares(SUPPORT, probabilities), probabilities, atol=1e-7)


atoms = st.lists(st.tuples(st.floats(-6, 8, width=32), st.floats(0.0625, 1, width=32)), min_size=1, max_size=9)


@settings(max_examples=100, deadline=None)
@given(atoms)
def test_mass_is_kept_and_the_loop_agrees(pairs):
    values, masses = (np.array(x) for x in zip(*pairs, strict=True))
    probabilities = masses / masses.sum()
    padded = np.pad(values, (0, 9 - len(values))), np.pad(probabilities, (0, 9 - len(values)))  # one shape to compile
    got = shares(*padded)
    np.testing.assert_allclose(got.sum(), 1.0, rtol=1e-5)
    assert np.all(got >= 0)
    np.testing.assert_allclose(got, naive_categorical_projection(values, probabilities, SUPPORT), atol=1e-5)
    inside = (values >= SUPPORT[0]) & (values <= SUPPORT[-1])
    if np.all(inside):
        np.testing.assert_allclose(got @ SUPPORT, probabilities @ values, atol=1e-4)


def test_cross_entropy_and_divergence():
    """Three atoms; KL = cross entropy - entropy of the target, 0 where the two agree, and 0 log 0 = 0."""
    target, logits = np.array([0.5, 0.0, 0.5]), np.array([0.3, -1.0, 2.0])
    probabilities = np.exp(logits) / np.exp(logits).sum()
    expected = -0.5 * np.log(probabilities[0]) - 0.5 * np.log(probabilities[2])
    arguments = jnp.asarray(target, jnp.float32), jnp.asarray(logits, jnp.float32)
    np.testing.assert_allclose(cross_entropy(*arguments), expected, rtol=1e-6)
    np.testing.assert_allclose(divergence(*arguments), expected - np.log(2), rtol=1e-6)
    agree = jax.nn.softmax(arguments[1])
    np.testing.assert_allclose(divergence(agree, arguments[1]), 0.0, atol=1e-6)


def test_gradient_of_the_cross_entropy_is_softmax_minus_target():
    target, logits = np.array([0.2, 0.7, 0.1]), np.array([0.3, -1.0, 2.0])
    got = jax.grad(cross_entropy, argnums=1)(jnp.asarray(target, jnp.float32), jnp.asarray(logits, jnp.float32))
    naive = lambda x: -float(target @ (x - np.log(np.exp(x).sum())))  # noqa: E731
    np.testing.assert_allclose(got, central_differences(naive, logits, 1e-5), atol=1e-5)
    np.testing.assert_allclose(got, np.exp(logits) / np.exp(logits).sum() - target, atol=1e-6)
