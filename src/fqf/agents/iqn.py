"""IQN: the return's quantile function, asked at random fractions (Dabney et al. 2018, "Implicit quantile networks")."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from fqf.agents.agent import Agent, Setting, bellman, pick
from fqf.losses.quantile import quantile_huber
from fqf.networks.quantile import make_quantile_network
from fqf.types import LossOutput, ReturnDistribution


@dataclass(frozen=True)
class IQNConfig:
    """What is IQN's own."""

    num_quantiles: int = 64
    """N, fractions at which the online network is trained; 64 (IQN section 4.1)."""
    num_target_quantiles: int = 64
    """N', fractions at which the target is asked; 64 (IQN section 4.1)."""
    num_action_quantiles: int = 32
    """K, fractions over which a value is averaged to act; 32 (IQN section 4.1)."""
    num_cosines: int = 64
    """Size of the cosine embedding; 64 (IQN section 3.1)."""
    huber_kappa: float = 1.0
    """Huber threshold, by which the loss is divided; 1 (IQN section 3)."""


def make_iqn(setting: Setting, config: IQNConfig) -> Agent:
    quantile_network = make_quantile_network(setting.spec, setting.network, config.num_cosines)

    def ask(params, observation, num_fractions, key):
        """F at fractions drawn anew for every state: fractions [B, N], values [B, A, N]."""
        psi = quantile_network.features(params, observation)
        taus = jax.random.uniform(key, (len(psi), num_fractions))
        return taus, quantile_network.values(params, psi, taus)

    def q_values(params, observation, key):
        return jnp.mean(ask(params, observation, config.num_action_quantiles, key)[1], axis=2)

    def distribution(params, observation):
        """Nothing random: the midpoints of K equal fractions."""
        psi, count = quantile_network.features(params, observation), config.num_action_quantiles
        tau_hats = jnp.broadcast_to((jnp.arange(count) + 0.5) / count, (len(psi), count))
        values = quantile_network.values(params, psi, tau_hats)
        return ReturnDistribution(jnp.full_like(values, 1 / count), values)

    def loss(params, target_params, batch, key):
        tau_key, target_key, action_key = jax.random.split(key, 3)
        chooser = params if setting.double else target_params
        greedy = jnp.argmax(q_values(chooser, batch.next_observation, action_key), axis=1)
        _, following = ask(target_params, batch.next_observation, config.num_target_quantiles, target_key)
        targets = jax.lax.stop_gradient(bellman(batch, pick(following, greedy)))
        taus, values = ask(params, batch.observation, config.num_quantiles, tau_key)
        values = pick(values, batch.action)
        equal = jnp.full(config.num_target_quantiles, 1 / config.num_target_quantiles)
        huber = jax.vmap(quantile_huber, in_axes=(0, 0, 0, None, None))
        losses = huber(values, taus, targets, equal, config.huber_kappa)
        errors = jnp.mean(jnp.abs(targets[:, None, :] - values[:, :, None]), axis=(1, 2))
        return LossOutput(losses, errors, {"quantile_loss": jnp.mean(losses), "q": jnp.mean(values)})

    return Agent(quantile_network.init, q_values, distribution, loss, setting.optimization.values)
