"""Prioritized + Dueling: double DQN on prioritized replay, with the value apart from the advantages (Wang et al. 2016).

Prioritized replay and the double choice of the target's action are settings of the run; the dueling head is here.
"""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fqf.agents.agent import Agent, Setting
from fqf.agents.dqn import make_expectation_agent
from fqf.networks.heads import ValueHead


@dataclass(frozen=True)
class PriorDuelConfig:
    """What is Prioritized + Dueling's own."""

    huber_kappa: float = 1.0
    """Errors beyond it count linearly; 1 in DQN (Mnih et al. 2015, "error clipping")."""
    max_gradient_norm: float = 10.0
    """Gradients are scaled down to this norm; 10 in Wang et al. 2016, section 4.2."""


class DuelingHead(nn.Module):
    """Q = V + A - mean of A over the actions (Wang et al. 2016, equation 9)."""

    hidden: int
    num_actions: int

    @nn.compact
    def __call__(self, features: Float[Array, "B D"]) -> Float[Array, "B A"]:
        # Two streams send gradients into the torso: they are scaled by 1/sqrt(2) (Wang et al. 2016, section 4.2).
        share = 2**-0.5
        features = share * features + jax.lax.stop_gradient((1 - share) * features)
        value = ValueHead(self.hidden, 1)(features)
        advantages = ValueHead(self.hidden, self.num_actions)(features)
        return value + advantages - jnp.mean(advantages, axis=1, keepdims=True)


def make_prior_duel(setting: Setting, config: PriorDuelConfig) -> Agent:
    head = DuelingHead(setting.network.hidden, setting.spec.num_actions)
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), setting.optimization.values)
    return make_expectation_agent(setting, head, config.huber_kappa, optimizer)
