"""FQF: both axes of the return's quantile function are learned (Yang et al., NeurIPS 2019).

A fraction proposal network chooses where to ask (tau), by descending the 1-Wasserstein error; a quantile value network
learns what to answer (theta), by quantile regression. `docs/agents/fqf.md` lists the equations and the deviations.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from fqf.agents.agent import Agent, Setting, bellman, mean, pick
from fqf.agents.fractions import describe, make_optimizer
from fqf.losses.fraction import entropy, pull_back, w1_gradient
from fqf.losses.quantile import quantile_huber
from fqf.networks.fractions import make_fraction_source
from fqf.networks.quantile import make_quantile_network
from fqf.types import LossOutput, ReturnDistribution


@dataclass(frozen=True)
class FQFConfig:
    """What is FQF's own. Each line names the paper's value; the default shown is the preset's for --env."""

    num_fractions: int = 32
    """N, the number of quantile fractions; the paper: 32 (FQF section 4)."""
    num_cosines: int = 64
    """Size of the cosine embedding; 64 as in IQN (section 3.1)."""
    huber_kappa: float = 1.0
    """Huber threshold, by which the loss is divided (FQF section 3.3); 1 as in QR-DQN and Dopamine's IQN."""
    fraction_learning_rate: float = 2.5e-9
    """RMSProp's rate for the fraction proposal network; the paper: 2.5e-9 (FQF, hyper-parameter sheet)."""
    fraction_decay: float = 0.95
    """RMSProp's decay; 0.95 in the authors' code, the paper does not say."""
    fraction_epsilon: float = 1e-5
    """RMSProp's epsilon, inside the root of the centred second moment; 1e-5 in the authors' code."""
    entropy_coefficient: float = 0.0
    """Weight of the bonus H(q) that keeps fractions apart (FQF section 3.4); 0 in the published runs."""
    fractions: Literal["proposed", "uniform", "random", "frozen"] = "proposed"
    """Where fractions come from: learned; i/N; drawn anew each time; a proposal network that stays as initialised."""
    target_fractions: Literal["current", "next"] = "current"
    """Ask the target at the online fractions of x (the paper) or at its own of x' (the authors' code)."""
    target_weights: Literal["equal", "widths"] = "equal"
    """Weigh target atoms 1/N each (the paper) or by their probabilities (correction 1)."""
    value_fractions: Literal["midpoints", "midpoints_and_edges", "alternate"] = "midpoints"
    """Train F at the midpoints (the paper), also at the edges, or at either set by a coin (correction 2)."""


def make_fqf(setting: Setting, config: FQFConfig) -> Agent:
    num_fractions = config.num_fractions
    quantile_network = make_quantile_network(setting.spec, setting.network, config.num_cosines)
    source = make_fraction_source(config.fractions, num_fractions)

    def init(key):
        network_key, proposal_key = jax.random.split(key)
        return quantile_network.init(network_key) | source.init(proposal_key, quantile_network.num_features)

    def quantile_function(params, observation, key):
        """psi, the fractions that belong to it, and the distribution they give."""
        psi = quantile_network.features(params, observation)
        fractions = source.fractions(params, psi, key)
        values = quantile_network.values(params, psi, fractions.tau_hats)  # [B, A, N]
        return psi, fractions, ReturnDistribution(jnp.broadcast_to(fractions.widths[:, None], values.shape), values)

    def distribution(params, observation):
        return quantile_function(params, observation, None)[2]

    def q_values(params, observation, key):
        return mean(quantile_function(params, observation, key)[2])

    def bellman_target(params, target_params, batch, current, key):
        """Atoms of r + discount F'(x', a*) and their weights; a* is one action for all quantiles."""
        psi, own, distribution = quantile_function(target_params, batch.next_observation, key)
        if setting.double:  # random fractions are the same for both networks
            chooser = quantile_function(params, batch.next_observation, jax.random.clone(key))[2]
        else:
            chooser = distribution
        greedy = jnp.argmax(mean(chooser), axis=1)
        if config.target_fractions == "next":
            asked, values = own, distribution.values
        else:
            asked, values = current, quantile_network.values(target_params, psi, current.tau_hats)
        targets = bellman(batch, pick(values, greedy))
        equal = jnp.full_like(asked.widths, 1 / num_fractions)
        return targets, equal if config.target_weights == "equal" else asked.widths

    def ask(F, current, key):
        """F at the trained fractions, with gradient, and at midpoints and inner edges for dW1/dtau."""
        midpoints, edges = current.tau_hats, current.taus[:, 1:-1]
        if config.value_fractions == "midpoints":
            values = F(midpoints)
            return midpoints, values, values, jax.lax.stop_gradient(F(edges))
        if config.value_fractions == "midpoints_and_edges":
            trained = jnp.concatenate([midpoints, edges], axis=1)
            values = F(trained)
            return trained, values, values[:, :num_fractions], values[:, num_fractions:]
        others = jnp.concatenate([edges, midpoints[:, -1:]], axis=1)
        heads = jax.random.bernoulli(key)
        trained = jnp.where(heads, midpoints, others)
        values, rest = F(trained), jax.lax.stop_gradient(F(jnp.where(heads, others, midpoints)))
        return trained, values, jnp.where(heads, values, rest), jnp.where(heads, rest, values)[:, :-1]

    def loss(params, target_params, batch, key):
        fraction_key, target_key, coin_key = jax.random.split(key, 3)
        psi = quantile_network.features(params, batch.observation)
        fractions = source.fractions(params, psi, fraction_key)
        current = jax.lax.stop_gradient(fractions)  # the quantile loss does not move the fractions

        def F(taus):
            return pick(quantile_network.values(params, psi, taus), batch.action)

        trained, values, quantiles, edge_quantiles = ask(F, current, coin_key)
        targets, weights = jax.lax.stop_gradient(bellman_target(params, target_params, batch, current, target_key))
        scale = num_fractions / trained.shape[1]
        huber = jax.vmap(quantile_huber, in_axes=(0, 0, 0, 0, None))
        quantile_loss = scale * huber(values, trained, targets, weights, config.huber_kappa)

        gradient = jax.vmap(w1_gradient)(edge_quantiles, quantiles)
        fraction_loss = jax.vmap(pull_back)(gradient, fractions.taus)
        entropies = jax.vmap(entropy)(fractions.widths)

        metrics = {"quantile_loss": jnp.mean(quantile_loss), "fraction_loss": jnp.mean(fraction_loss)}
        metrics |= describe(current, quantiles, edge_quantiles)
        td_errors = jnp.mean(jnp.abs(targets[:, None, :] - values[:, :, None]), axis=(1, 2))
        return LossOutput(quantile_loss + fraction_loss - config.entropy_coefficient * entropies, td_errors, metrics)

    rates = config.fraction_learning_rate, config.fraction_decay, config.fraction_epsilon
    return Agent(init, q_values, distribution, loss, make_optimizer(setting.optimization, *rates))
