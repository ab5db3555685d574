"""From observations to state features."""

from dataclasses import dataclass
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from fqf.errors import UserError
from fqf.networks.layers import Dense, PatchConv


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes that all agents share."""

    torso: Literal["mlp", "minatar", "atari"] = "atari"
    """Network from observation to features: dense layers, MinAtar's convolution, or DQN's three (Mnih et al. 2015)."""
    torso_layers: tuple[int, ...] = (64,)
    """Sizes of the mlp torso's layers; the last is the number of features."""
    hidden: int = 512
    """Units of the head's hidden layer (Mnih et al. 2015)."""


class MLPTorso(nn.Module):
    """ReLU layers on a flat observation."""

    layers: tuple[int, ...]

    @nn.compact
    def __call__(self, observation: Shaped[Array, "B ..."]) -> Float[Array, "B D"]:
        features = observation.reshape(len(observation), -1).astype(jnp.float32)
        for size in self.layers:
            features = jax.nn.relu(Dense(size)(features))
        return features


class MinAtarTorso(nn.Module):
    """16 filters of 3x3, as in the MinAtar paper's network: 10x10 cells give 1024 features."""

    @nn.compact
    def __call__(self, observation: Shaped[Array, "B H W ..."]) -> Float[Array, "B D"]:
        images = _stack_into_channels(observation).astype(jnp.float32)
        features = jax.nn.relu(PatchConv(16, size=3, stride=1)(images))
        return features.reshape(len(observation), -1)


class AtariTorso(nn.Module):
    """The three convolutions of DQN (Mnih et al. 2015): 84x84x4 bytes give 3136 features."""

    @nn.compact
    def __call__(self, observation: Shaped[Array, "B H W ..."]) -> Float[Array, "B D"]:
        features = _stack_into_channels(observation).astype(jnp.float32) / 255
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            features = jax.nn.relu(PatchConv(filters, size, stride)(features))
        return features.reshape(len(observation), -1)


def _stack_into_channels(observation: Shaped[Array, "B H W ..."]) -> Shaped[Array, "B H W C"]:
    """Frames of several channels, stacked along a last axis, become channels of one image."""
    return observation.reshape(*observation.shape[:3], -1)


SMALLEST = {"minatar": 3, "atari": 36}
"""Height and width below which a convolution has no window left."""


def make_torso(config: NetworkConfig, observation_shape: tuple[int, ...]) -> nn.Module:
    kind = config.torso
    if kind in SMALLEST and (len(observation_shape) < 3 or min(observation_shape[:2]) < SMALLEST[kind]):
        raise UserError(f"torso is {kind!r}, which does not fit observations of shape {observation_shape}; use 'mlp'")
    return {"mlp": MLPTorso(config.torso_layers), "minatar": MinAtarTorso(), "atari": AtariTorso()}[config.torso]


def num_features(torso: nn.Module, observation_shape: tuple[int, ...]) -> int:
    """Size of a torso's output, without running it."""
    observation = jax.ShapeDtypeStruct((1, *observation_shape), jnp.float32)
    features = jax.eval_shape(lambda x: torso.init_with_output(jax.random.key(0), x)[0], observation)
    return features.shape[-1]
