"""DQN: the expected return of every action (Mnih et al. 2015)."""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from fqf.agents.agent import Agent, Setting, bellman, pick
from fqf.losses.quantile import huber
from fqf.networks.heads import ValueHead
from fqf.networks.torsos import make_torso
from fqf.types import LossOutput, ReturnDistribution


@dataclass(frozen=True)
class DQNConfig:
    """What is DQN's own."""

    huber_kappa: float = 1.0
    """Errors beyond it count linearly; 1 in DQN (Mnih et al. 2015, "error clipping")."""


def make_dqn(setting: Setting, config: DQNConfig) -> Agent:
    head = ValueHead(setting.network.hidden, setting.spec.num_actions)
    return make_expectation_agent(setting, head, config.huber_kappa, setting.optimization.values)


def make_expectation_agent(
    setting: Setting, head: nn.Module, huber_kappa: float, optimizer: optax.GradientTransformation
) -> Agent:
    """Q-learning with a torso and any head that gives one number per action."""
    network = nn.Sequential([make_torso(setting.network, setting.spec.observation_shape), head])

    def init(key):
        return network.init(key, jnp.zeros((1, *setting.spec.observation_shape)))

    def q_values(params, observation, key=None):
        return network.apply(params, observation)

    def distribution(params, observation):
        """One atom: the mean is all that is known."""
        values = q_values(params, observation)[..., None]
        return ReturnDistribution(jnp.ones_like(values), values)

    def loss(params, target_params, batch, key):
        chooser = params if setting.double else target_params
        greedy = jnp.argmax(q_values(chooser, batch.next_observation), axis=1)
        targets = bellman(batch, pick(q_values(target_params, batch.next_observation), greedy))
        q = pick(q_values(params, batch.observation), batch.action)
        errors = jax.lax.stop_gradient(targets) - q
        losses = huber(errors, huber_kappa)
        return LossOutput(losses, jnp.abs(errors), {"td_loss": jnp.mean(losses), "q": jnp.mean(q)})

    return Agent(init, q_values, distribution, loss, optimizer)
