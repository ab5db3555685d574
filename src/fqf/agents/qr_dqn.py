"""QR-DQN: the return's quantiles at N fixed, equal fractions (Dabney et al. 2018, "Distributional RL with quantile
regression")."""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp

from fqf.agents.agent import Agent, Setting, bellman, mean, pick
from fqf.losses.quantile import quantile_huber
from fqf.networks.heads import AtomHead
from fqf.networks.torsos import make_torso
from fqf.types import LossOutput, ReturnDistribution


@dataclass(frozen=True)
class QRDQNConfig:
    """What is QR-DQN's own."""

    num_quantiles: int = 200
    """N, the number of quantiles; 200 (QR-DQN section 5)."""
    huber_kappa: float = 1.0
    """Huber threshold, by which the loss is divided; 1 (QR-DQN section 5)."""


def make_qr_dqn(setting: Setting, config: QRDQNConfig) -> Agent:
    num_quantiles = config.num_quantiles
    head = AtomHead(setting.network.hidden, setting.spec.num_actions, num_quantiles)
    network = nn.Sequential([make_torso(setting.network, setting.spec.observation_shape), head])
    tau_hats = (jnp.arange(num_quantiles) + 0.5) / num_quantiles
    equal = jnp.full(num_quantiles, 1 / num_quantiles)

    def init(key):
        return network.init(key, jnp.zeros((1, *setting.spec.observation_shape)))

    def distribution(params, observation):
        values = network.apply(params, observation)
        return ReturnDistribution(jnp.broadcast_to(equal, values.shape), values)

    def q_values(params, observation, key):
        return mean(distribution(params, observation))

    def loss(params, target_params, batch, key):
        following = distribution(target_params, batch.next_observation)
        chooser = distribution(params, batch.next_observation) if setting.double else following
        greedy = jnp.argmax(mean(chooser), axis=1)
        targets = jax.lax.stop_gradient(bellman(batch, pick(following.values, greedy)))
        values = pick(distribution(params, batch.observation).values, batch.action)
        huber = jax.vmap(quantile_huber, in_axes=(0, None, 0, None, None))
        losses = huber(values, tau_hats, targets, equal, config.huber_kappa)
        errors = jnp.mean(jnp.abs(targets[:, None, :] - values[:, :, None]), axis=(1, 2))
        return LossOutput(losses, errors, {"quantile_loss": jnp.mean(losses), "q": jnp.mean(values)})

    return Agent(init, q_values, distribution, loss, setting.optimization.values)
