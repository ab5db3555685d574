"""FQF with the rest of Rainbow: double, dueling, noisy, three steps, prioritized. Ours; no paper has it.

Prioritized replay, three steps and the double choice of the target's action are settings of the run. The fractions
and both losses are FQF's as corrected (`fqf_consistent`): importance weights apply to both. The noisy dueling quantile
head is here. It explores by its noise, without epsilon.
"""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fqf.agents.agent import Agent, Setting, bellman, mean, pick
from fqf.agents.fractions import describe, make_optimizer
from fqf.losses.fraction import pull_back, w1_gradient
from fqf.losses.quantile import quantile_huber
from fqf.networks.fractions import make_fraction_source
from fqf.networks.layers import CosineEmbedding, NoisyDense
from fqf.networks.quantile import modulate
from fqf.networks.torsos import make_torso, num_features
from fqf.types import Key, LossOutput, ReturnDistribution


@dataclass(frozen=True)
class FQFRainbowConfig:
    """What is FQF-Rainbow's own."""

    num_fractions: int = 32
    """N, the number of quantile fractions; 32 in FQF (section 4)."""
    num_cosines: int = 64
    """Size of the cosine embedding; 64 as in IQN (section 3.1)."""
    huber_kappa: float = 1.0
    """Huber threshold, by which the loss is divided; 1 as in QR-DQN and Dopamine's IQN."""
    fraction_learning_rate: float = 2.5e-9
    """RMSProp's rate for the fraction proposal network; 2.5e-9 in FQF (hyper-parameter sheet)."""
    fraction_decay: float = 0.95
    """RMSProp's decay; 0.95 in the FQF authors' code."""
    fraction_epsilon: float = 1e-5
    """RMSProp's epsilon, inside the root of the centred second moment; 1e-5 in the FQF authors' code."""
    noisy_sigma: float = 0.5
    """Noise of the weights at the start; 0.5 (Rainbow, table 1)."""


class NoisyDuelingStreams(nn.Module):
    """V [B, N] and A [B, A, N] at features that were asked at N fractions."""

    hidden: int
    num_actions: int
    sigma: float

    @nn.compact
    def __call__(
        self, asked: Float[Array, "B N D"], key: Key | None
    ) -> tuple[Float[Array, "B N"], Float[Array, "B A N"]]:
        keys = [None] * 4 if key is None else jax.random.split(key, 4)

        def stream(outputs, hidden_key, output_key):
            hidden = jax.nn.relu(NoisyDense(self.hidden, self.sigma)(asked, hidden_key))
            return NoisyDense(outputs, self.sigma)(hidden, output_key)

        return stream(1, keys[0], keys[1])[..., 0], jnp.swapaxes(stream(self.num_actions, keys[2], keys[3]), 1, 2)


def make_fqf_rainbow(setting: Setting, config: FQFRainbowConfig) -> Agent:
    num_fractions, spec = config.num_fractions, setting.spec
    torso = make_torso(setting.network, spec.observation_shape)
    size = num_features(torso, spec.observation_shape)
    embedding = CosineEmbedding(size, config.num_cosines)
    head = NoisyDuelingStreams(setting.network.hidden, spec.num_actions, config.noisy_sigma)
    source = make_fraction_source("proposed", num_fractions)

    def init(key):
        torso_key, embedding_key, head_key, proposal_key = jax.random.split(key, 4)
        return {
            "torso": torso.init(torso_key, jnp.zeros((1, *spec.observation_shape))),
            "embedding": embedding.init(embedding_key, jnp.zeros((1, 1))),
            "head": head.init(head_key, jnp.zeros((1, 1, size)), None),
        } | source.init(proposal_key, size)

    def quantile_function(params, observation, key):
        """The fractions of a state, and what its two streams say at any fractions, with one and the same noise."""
        psi = torso.apply(params["torso"], observation)

        def ask(taus):
            asked = modulate(psi, embedding.apply(params["embedding"], taus))
            return head.apply(params["head"], asked, None if key is None else jax.random.clone(key))

        return source.fractions(params, psi, None), ask

    def return_distribution(params, observation, key):
        fractions, ask = quantile_function(params, observation, key)
        value, advantages = ask(fractions.tau_hats)
        values = duel(value, advantages, advantages)
        return ReturnDistribution(jnp.broadcast_to(fractions.widths[:, None], values.shape), values)

    def distribution(params, observation):
        return return_distribution(params, observation, None)

    def q_values(params, observation, key):
        return mean(return_distribution(params, observation, key))

    def bellman_target(params, target_params, batch, current, online_key, target_key):
        """The target's F at the fractions of x, less its own baseline at those of x'."""
        chooser, key = (params, online_key) if setting.double else (target_params, target_key)
        greedy = jnp.argmax(q_values(chooser, batch.next_observation, key), axis=1)
        own, ask = quantile_function(target_params, batch.next_observation, target_key)
        value, advantages = ask(jnp.concatenate([current.tau_hats, own.tau_hats], axis=1))
        values = duel(value[:, :num_fractions], advantages[..., :num_fractions], advantages[..., num_fractions:])
        return bellman(batch, pick(values, greedy))

    def loss(params, target_params, batch, key):
        online_key, target_key = jax.random.split(key)
        fractions, ask = quantile_function(params, batch.observation, online_key)
        current = jax.lax.stop_gradient(fractions)  # the quantile loss does not move the fractions
        trained = jnp.concatenate([current.tau_hats, current.taus[:, 1:-1]], axis=1)
        value, advantages = ask(trained)
        values = pick(duel(value, advantages, advantages[..., :num_fractions]), batch.action)
        quantiles, edge_quantiles = values[:, :num_fractions], values[:, num_fractions:]
        targets = bellman_target(params, target_params, batch, current, online_key, target_key)
        targets = jax.lax.stop_gradient(targets)

        huber = jax.vmap(quantile_huber, in_axes=(0, 0, 0, 0, None))
        scale = num_fractions / trained.shape[1]
        quantile_loss = scale * huber(values, trained, targets, current.widths, config.huber_kappa)
        gradient = jax.vmap(w1_gradient)(edge_quantiles, quantiles)
        fraction_loss = jax.vmap(pull_back)(gradient, fractions.taus)
        metrics = {"quantile_loss": jnp.mean(quantile_loss), "fraction_loss": jnp.mean(fraction_loss)}
        metrics |= describe(current, quantiles, edge_quantiles)
        errors = jnp.mean(jnp.abs(targets[:, None, :] - values[:, :, None]), axis=(1, 2))
        return LossOutput(quantile_loss + fraction_loss, errors, metrics)

    rates = config.fraction_learning_rate, config.fraction_decay, config.fraction_epsilon
    return Agent(init, q_values, distribution, loss, make_optimizer(setting.optimization, *rates))


def duel(
    value: Float[Array, "B N"], advantages: Float[Array, "B A N"], at_midpoints: Float[Array, "B A M"]
) -> Float[Array, "B A N"]:
    """V + A - the mean of A over actions *and* quantiles: one number per state, so that no quantile overtakes another.

    The mean is that of the midpoints, whatever else is asked, so that F(tau) does not depend on its neighbours.
    """
    return value[:, None, :] + advantages - jnp.mean(at_midpoints, axis=(1, 2))[:, None, None]
