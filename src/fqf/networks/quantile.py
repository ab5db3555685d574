"""The quantile value network of IQN and FQF: the return's quantile function, asked at any fractions."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from fqf.networks.heads import ValueHead
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

    def values(params, psi, taus):
        asked = psi[:, None, :] * embedding.apply(params["embedding"], taus)  # [B, N, D]
        return jnp.swapaxes(head.apply(params["head"], asked), 1, 2)

    return QuantileNetwork(init, features, values, size)
