import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fqf.networks import quantile
from fqf.networks.quantile import make_quantile_network, modulate
from fqf.networks.torsos import NetworkConfig
from fqf.types import EnvironmentSpec

STATES, FRACTIONS, FEATURES, ACTIONS = 6, 5, 7, 4


@pytest.fixture
def network():
    spec = EnvironmentSpec("test/numbers", (3,), np.dtype("float32"), ACTIONS)
    return make_quantile_network(spec, NetworkConfig("mlp", (FEATURES,), hidden=9), num_cosines=8)


def asked(network):
    """Values, and their gradients by all that goes in, for a cotangent of its own in every place."""
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: leaf + 0.1, network.init(jax.random.key(0)))
    psi = jnp.array(rng.normal(size=(STATES, FEATURES)), jnp.float32)
    taus = jnp.array(rng.random((STATES, FRACTIONS)), jnp.float32)
    values, pull_back = jax.vjp(network.values, params, psi, taus)
    return values, pull_back(jnp.array(rng.normal(size=values.shape), jnp.float32))


@pytest.mark.parametrize(("room", "states"), [(3, 3), (5, 3), (2, 2), (1, 1), (0.5, 1)])
def test_a_few_states_after_the_other_are_as_all_at_once(network, monkeypatch, room, states):
    """`room` states fit into a chunk; it gets the largest number of them that divides six, at least one."""
    at_once = asked(network)
    assert at_once[0].shape == (STATES, ACTIONS, FRACTIONS)
    monkeypatch.setattr(quantile, "CHUNK", int(room * FRACTIONS * FEATURES))
    program = str(jax.make_jaxpr(network.values)(network.init(jax.random.key(0)), *zeros()))
    assert f"length={STATES // states}" in program
    for chunked, whole in zip(jax.tree.leaves(asked(network)), jax.tree.leaves(at_once), strict=True):
        np.testing.assert_allclose(chunked, whole, rtol=1e-5, atol=1e-6)


def test_what_fits_is_asked_at_once(network):
    assert "scan" not in str(jax.make_jaxpr(network.values)(network.init(jax.random.key(0)), *zeros()))


def test_gradients_of_chunks_repeat_no_product_with_the_hidden_layer(network, monkeypatch):
    """Forward: cosines, hidden, output. Backward: the cosines again, two for each of the three, of which that by the
    fractions is not used (and not compiled), and the sum over fractions."""
    monkeypatch.setattr(quantile, "CHUNK", 2 * FRACTIONS * FEATURES)
    params, (psi, taus) = network.init(jax.random.key(0)), zeros()
    gradient = jax.grad(lambda params, psi: jnp.sum(network.values(params, psi, taus)), argnums=(0, 1))
    assert str(jax.make_jaxpr(gradient)(params, psi)).count("dot_general[") == 3 + 1 + 6 + 1


def test_features_times_embeddings_have_the_gradients_of_the_plain_product():
    rng = np.random.default_rng(1)
    psi, phi = (jnp.array(rng.normal(size=shape), jnp.float32) for shape in ((6, 7), (6, 5, 7)))
    cotangent = jnp.array(rng.normal(size=(6, 5, 7)), jnp.float32)
    for function in (modulate, jax.jit(modulate)):
        product, pull_back = jax.vjp(function, psi, phi)
        plain, plain_back = jax.vjp(lambda psi, phi: psi[:, None, :] * phi, psi, phi)
        np.testing.assert_array_equal(product, plain)
        for found, expected in zip(pull_back(cotangent), plain_back(cotangent), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def zeros():
    return jnp.zeros((STATES, FEATURES)), jnp.zeros((STATES, FRACTIONS))
