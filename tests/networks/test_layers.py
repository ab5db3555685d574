import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fqf.errors import UserError
from fqf.networks.heads import ValueHead
from fqf.networks.layers import CosineEmbedding, PatchConv, cos_pi, product
from fqf.networks.torsos import NetworkConfig, make_torso, num_features


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def params_with_biases(module, *inputs):
    """The module's own parameters, a little off: biases start at zero, and would hide that one was left out."""
    return jax.tree.map(lambda leaf: leaf + 0.1, module.init(jax.random.key(0), *inputs))


def test_cos_pi_is_the_cosine_up_to_rounding():
    """Every arguments' size that 64 harmonics of a fraction can have, and the integers and halves themselves."""
    y = np.concatenate([np.linspace(0, 64, 400_001), np.arange(129) / 2]).astype(np.float32)
    error = np.abs(np.asarray(cos_pi(jnp.array(y)), np.float64) - np.cos(np.pi * y.astype(np.float64)))
    assert np.max(error) < 5e-7


def test_cos_pi_has_the_sines_gradient():
    """-pi sin(pi y), also on both sides of the halves, where the polynomial changes, and at its middle."""
    y = np.float32([0.0, 0.2, 0.4999, 0.5001, 0.75, 1.0, 1.3, 2.5001, 3.4999, 17.4, 63.9])
    expected = -np.pi * np.sin(np.pi * y.astype(np.float64))
    np.testing.assert_allclose(jax.vmap(jax.grad(cos_pi))(jnp.array(y)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axes", [(2,), (2, 2), (6,), (7,), (3, 5)], ids=str)
def test_product_is_the_plain_product_with_its_gradients(axes):
    """Fewer rows than the six outputs, as many, and more, which take different ways; also under `vmap` over seeds."""
    inputs, kernel, weights = normal(0, 4, *axes, 5), normal(1, 4, 5, 6), normal(2, 4, *axes, 6)

    def both(multiply):
        def weighed(inputs, kernel, weights):
            return jnp.sum(weights * jnp.sin(multiply(inputs, kernel)))

        return jax.vmap(jax.value_and_grad(weighed, argnums=(0, 1)))(inputs, kernel, weights)

    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), both(product), both(jnp.matmul))


def test_cosine_embedding_is_the_papers_formula_from_the_first_harmonic():
    """phi_d(tau) = ReLU(sum_{i=1..n} cos(pi i tau) W_id + b_d); B = 2, N = 3, D = 5, n = 7."""
    taus = np.float32([[0.0, 0.31, 0.5], [0.77, 0.92, 1.0]])
    module = CosineEmbedding(5, num_cosines=7)
    params = params_with_biases(module, jnp.array(taus))
    layer = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params["params"]["Dense_0"])
    assert layer["kernel"].shape == (7, 5)
    expected = np.zeros((2, 3, 5))
    for b, n, d in np.ndindex(2, 3, 5):
        total = layer["bias"][d]
        for i in range(1, 8):
            total += np.cos(np.pi * i * float(taus[b, n])) * layer["kernel"][i - 1, d]
        expected[b, n, d] = max(total, 0.0)
    assert np.any(expected == 0)
    assert np.any(expected > 0)
    np.testing.assert_allclose(module.apply(params, jnp.array(taus)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "stride", "shape"),
    [
        (3, 1, (2, 10, 7, 4)),  # unfolded
        (8, 4, (2, 22, 29, 3)),  # 2x2 windows of blocks
        (4, 2, (2, 9, 12, 5)),
        (6, 2, (2, 11, 9, 3)),  # 3x3 windows of blocks, unfolded
        (5, 2, (2, 10, 12, 3)),  # no whole blocks
        (2, 1, (2, 4, 6, 3)),
    ],
)
def test_patch_conv_is_a_valid_convolution(size, stride, shape):
    """Images that are not square, sizes that the stride does not divide evenly; values and both gradients."""
    images = jnp.array(normal(0, *shape))
    module = PatchConv(6, size, stride)
    params = params_with_biases(module, images)
    layer = params["params"]["Dense_0"]

    def patch_conv(images, kernel):
        return module.apply({"params": {"Dense_0": {"kernel": kernel, "bias": layer["bias"]}}}, images)

    def convolution(images, kernel):
        kernel = kernel.reshape(size, size, shape[-1], 6)
        dimensions = ("NHWC", "HWIO", "NHWC")
        return layer["bias"] + jax.lax.conv_general_dilated(
            images, kernel, (stride, stride), "VALID", dimension_numbers=dimensions
        )

    @functools.partial(jax.jit, static_argnums=0)
    def value_and_gradients(layer_function, cotangent):
        value, pull_back = jax.vjp(layer_function, images, layer["kernel"])
        return value, *pull_back(cotangent)

    height, width = (shape[1] - size) // stride + 1, (shape[2] - size) // stride + 1
    cotangent = jnp.array(normal(1, 2, height, width, 6))
    ours, expected = value_and_gradients(patch_conv, cotangent), value_and_gradients(convolution, cotangent)
    for our_array, expected_array in zip(ours, expected, strict=True):
        np.testing.assert_allclose(our_array, expected_array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "shape", "expected"),
    [
        (NetworkConfig("atari"), (84, 84, 4), 3136),  # 84 -> 20 -> 9 -> 7 by VALID 8/4, 4/2, 3/1; 7 * 7 * 64
        (NetworkConfig("minatar"), (10, 10, 4), 1024),  # 10 -> 8 by 3/1; 8 * 8 * 16
        (NetworkConfig("mlp", (64, 7)), (3, 2), 7),  # the last layer
    ],
)
def test_torsos_have_the_papers_number_of_features(config, shape, expected):
    assert num_features(make_torso(config, shape), shape) == expected


def test_value_head_is_one_hidden_layer_and_a_linear_output():
    features = normal(0, 2, 5)
    head = ValueHead(hidden=6, num_actions=4)
    params = params_with_biases(head, jnp.array(features))
    layers = {layer["kernel"].shape: jax.tree.map(np.asarray, layer) for layer in params["params"].values()}
    before = features @ layers[5, 6]["kernel"] + layers[5, 6]["bias"]
    expected = np.maximum(before, 0) @ layers[6, 4]["kernel"] + layers[6, 4]["bias"]
    assert np.any(before < 0)
    assert expected.shape == (2, 4)
    np.testing.assert_allclose(head.apply(params, jnp.array(features)), expected, rtol=1e-5, atol=1e-6)


def test_value_heads_leading_axes_are_free_and_its_rows_independent():
    """[2, 3, 5] -> [2, 3, 4], each row as if it were alone."""
    features = jnp.array(normal(1, 2, 3, 5))
    head = ValueHead(hidden=6, num_actions=4)
    params = params_with_biases(head, features)
    values = head.apply(params, features)
    assert values.shape == (2, 3, 4)
    for b, n in np.ndindex(2, 3):
        alone = head.apply(params, features[b, n])
        assert alone.shape == (4,)
        np.testing.assert_allclose(values[b, n], alone, rtol=1e-5, atol=1e-6)
    changed = head.apply(params, features.at[1, 2].add(1.0))
    np.testing.assert_array_equal(
        np.delete(changed.reshape(6, 4), 5, axis=0), np.delete(values.reshape(6, 4), 5, axis=0)
    )
    assert np.all(changed[1, 2] != values[1, 2])


def test_stacked_frames_of_several_channels_become_channels():
    """10x10 cells of 4 channels, 3 frames: the convolution sees 3 * 3 * 12 numbers per window."""
    torso = make_torso(NetworkConfig("minatar"), (10, 10, 4, 3))
    shapes = jax.eval_shape(torso.init, jax.random.key(0), jnp.zeros((1, 10, 10, 4, 3)))
    assert shapes["params"]["PatchConv_0"]["Dense_0"]["kernel"].shape == (3 * 3 * 12, 16)


@pytest.mark.parametrize(("torso", "shape"), [("minatar", (4,)), ("minatar", (2, 9, 4)), ("atari", (10, 10, 4))])
def test_a_torso_that_does_not_fit_is_refused(torso, shape):
    with pytest.raises(UserError, match=f"torso is '{torso}', which does not fit observations"):
        make_torso(NetworkConfig(torso), shape)
