"""The quantile value network of IQN and FQF: the return's quantile function, asked at any fractions."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from fqf.networks.heads import HIDDEN, ValueHead
from fqf.networks.layers import CosineEmbedding
from fqf.networks.torsos import NetworkConfig, make_torso, num_features
from fqf.types import EnvironmentSpec, Key, PyTree


class QuantileNetwork(NamedTuple):
    """One torso pass, then any number of questions: `values(params, features(params, observation), taus)`."""

    init: Callable[[Key], PyTree]
    features: Callable[[PyTree, Shaped[Array, "B ..."]], Float[Array, "B D"]]
    """psi(x)"""
    values: Callable[[PyTree, Float[Array, "B D"], Float[Array, "B N"]], Float[Array, "B A N"]]
    """F(tau) = head(psi * phi(tau)) of every action"""
    num_features: int


def make_quantile_network(spec: EnvironmentSpec, network: NetworkConfig, num_cosines: int) -> QuantileNetwork:
    torso = make_torso(network, spec.observation_shape)
    size = num_features(torso, spec.observation_shape)
    embedding, head = CosineEmbedding(size, num_cosines), ValueHead(network.hidden, spec.num_actions)

    def init(key):
        torso_key, embedding_key, head_key = jax.random.split(key, 3)
        return {
            "torso": torso.init(torso_key, jnp.zeros((1, *spec.observation_shape))),
            "embedding": embedding.init(embedding_key, jnp.zeros((1, 1))),
            "head": head.init(head_key, jnp.zeros((1, size))),
        }

    def features(params, observation):
        return torso.apply(params["torso"], observation)

    def values_of(params, psi, taus):
        asked = modulate(psi, embedding.apply(params["embedding"], taus))
        return jnp.swapaxes(head.apply(params["head"], asked), 1, 2)

    def values(params, psi, taus):
        return in_chunks(functools.partial(values_of, params), psi, taus, taus.shape[1] * size)

    return QuantileNetwork(init, features, values, size)


@jax.custom_vjp
def modulate(psi: Float[Array, "B D"], phi: Float[Array, "B N D"]) -> Float[Array, "B N D"]:
    """psi * phi, every fraction's embedding with its state's features.

    The gradient of psi is a sum over N. As such, under `vmap` over seeds, XLA's CPU back end hands it to a library that
    takes 2.3 ms at MinAtar's size and N = 8, two fifths of an update; as a product of arrays it takes 0.1
    (docs/decisions/0010-speed.md).
    """
    return psi[:, None, :] * phi


def _modulate(psi, phi):
    return modulate(psi, phi), (psi, phi)


def _modulate_back(saved, gradient):
    psi, phi = saved
    return jnp.einsum("bnd,bnd->bd", gradient, phi), gradient * psi[:, None, :]


modulate.defvjp(_modulate, _modulate_back)


CHUNK = 2**21
"""Numbers [B, N, D] that are made at once: 8 MB."""


def in_chunks(function: Callable[..., Array], psi: Array, taus: Array, numbers: int) -> Array:
    """`function(psi, taus)`, where it makes `numbers` for a state, a few states after the other if they are many.

    At Atari's size and N = 32 an array [B, N, D] has 13 MB, and an update makes a dozen that leave the caches and come
    back. Chunks stay there. What the gradient needs again is made again, but for the hidden layer, whose product is the
    dear one (docs/decisions/0010-speed.md has the figures).
    """
    divisors = [count for count in range(1, len(psi) + 1) if len(psi) % count == 0]
    states = max(count for count in divisors if count == 1 or count * numbers <= CHUNK)
    if states == len(psi):
        return function(psi, taus)
    keep = jax.checkpoint_policies.save_only_these_names(HIDDEN)
    again = jax.checkpoint(function, policy=keep, prevent_cse=False)
    chunks = [each.reshape(-1, states, *each.shape[1:]) for each in (psi, taus)]
    return jnp.concatenate(jax.lax.map(lambda chunk: again(*chunk), chunks))
