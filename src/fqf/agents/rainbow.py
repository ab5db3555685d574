"""Rainbow: double, prioritized, dueling, multi-step, distributional and noisy at once (Hessel et al. 2018).

Prioritized replay, three steps and the double choice of the target's action are settings of the run; the categorical
algorithm is C51's; the noisy dueling head is here. It explores by its noise, without epsilon.
"""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fqf.agents.agent import Agent, Setting
from fqf.agents.c51 import make_categorical_agent, make_support
from fqf.networks.layers import NoisyDense
from fqf.networks.torsos import make_torso, num_features
from fqf.types import Key


@dataclass(frozen=True)
class RainbowConfig:
    """What is Rainbow's own."""

    num_atoms: int = 51
    """Atoms of the grid; 51 (Rainbow, table 1)."""
    v_min: float = -10.0
    """Smallest return of the grid; -10 on Atari (Rainbow, table 1)."""
    v_max: float = 10.0
    """Largest return of the grid; 10 on Atari (Rainbow, table 1)."""
    noisy_sigma: float = 0.5
    """Noise of the weights at the start; 0.5 (Rainbow, table 1)."""


class NoisyDuelingHead(nn.Module):
    """Logits of every atom: V + A - mean of A over the actions, atom by atom (Rainbow section 3)."""

    hidden: int
    num_actions: int
    num_atoms: int
    sigma: float

    @nn.compact
    def __call__(self, features: Float[Array, "B D"], key: Key | None) -> Float[Array, "B A N"]:
        keys = [None] * 4 if key is None else jax.random.split(key, 4)

        def stream(outputs, hidden_key, output_key):
            hidden = jax.nn.relu(NoisyDense(self.hidden, self.sigma)(features, hidden_key))
            return NoisyDense(outputs, self.sigma)(hidden, output_key)

        value = stream(self.num_atoms, keys[0], keys[1])[:, None, :]
        advantages = stream(self.num_actions * self.num_atoms, keys[2], keys[3])
        advantages = advantages.reshape(len(features), self.num_actions, self.num_atoms)
        return value + advantages - jnp.mean(advantages, axis=1, keepdims=True)


def make_rainbow(setting: Setting, config: RainbowConfig) -> Agent:
    torso = make_torso(setting.network, setting.spec.observation_shape)
    size = num_features(torso, setting.spec.observation_shape)
    head = NoisyDuelingHead(setting.network.hidden, setting.spec.num_actions, config.num_atoms, config.noisy_sigma)

    def init(key):
        torso_key, head_key = jax.random.split(key)
        return {
            "torso": torso.init(torso_key, jnp.zeros((1, *setting.spec.observation_shape))),
            "head": head.init(head_key, jnp.zeros((1, size)), None),
        }

    def logits(params, observation, key):
        return head.apply(params["head"], torso.apply(params["torso"], observation), key)

    return make_categorical_agent(setting, make_support(config.v_min, config.v_max, config.num_atoms), init, logits)
