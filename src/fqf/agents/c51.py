"""C51: the return's probabilities on a fixed grid of atoms (Bellemare, Dabney and Munos 2017)."""

from collections.abc import Callable
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from fqf.agents.agent import Agent, Setting, bellman, mean, pick
from fqf.losses.categorical import cross_entropy, divergence, project
from fqf.networks.heads import AtomHead
from fqf.networks.torsos import make_torso
from fqf.types import Key, LossOutput, PyTree, ReturnDistribution


@dataclass(frozen=True)
class C51Config:
    """What is C51's own."""

    num_atoms: int = 51
    """Atoms of the grid; 51 (C51 section 5)."""
    v_min: float = -10.0
    """Smallest return of the grid; -10 on Atari (C51 section 5)."""
    v_max: float = 10.0
    """Largest return of the grid; 10 on Atari (C51 section 5)."""


def make_c51(setting: Setting, config: C51Config) -> Agent:
    torso = make_torso(setting.network, setting.spec.observation_shape)
    head = AtomHead(setting.network.hidden, setting.spec.num_actions, config.num_atoms)
    network = nn.Sequential([torso, head])

    def init(key):
        return network.init(key, jnp.zeros((1, *setting.spec.observation_shape)))

    def logits(params, observation, key):
        return network.apply(params, observation)

    return make_categorical_agent(setting, make_support(config.v_min, config.v_max, config.num_atoms), init, logits)


def make_support(v_min: float, v_max: float, num_atoms: int) -> Float[Array, "N"]:
    return jnp.linspace(v_min, v_max, num_atoms)


def make_categorical_agent(
    setting: Setting,
    support: Float[Array, "N"],
    init: Callable[[Key], PyTree],
    logits: Callable[[PyTree, Shaped[Array, "B ..."], Key | None], Float[Array, "B A N"]],
) -> Agent:
    """The categorical algorithm for any network that gives logits; the key is for those that have noise."""

    def return_distribution(params, observation, key):
        probabilities = jax.nn.softmax(logits(params, observation, key))
        return ReturnDistribution(probabilities, jnp.broadcast_to(support, probabilities.shape))

    def distribution(params, observation):
        return return_distribution(params, observation, None)

    def q_values(params, observation, key):
        return mean(return_distribution(params, observation, key))

    def bellman_target(params, target_params, batch, online_key, target_key):
        """The target's distribution of its greedy action, moved by the reward and put back on the grid."""
        following = return_distribution(target_params, batch.next_observation, target_key)
        chooser = return_distribution(params, batch.next_observation, online_key) if setting.double else following
        greedy = jnp.argmax(mean(chooser), axis=1)
        atoms = bellman(batch, jnp.broadcast_to(support, (len(greedy), len(support))))
        # After a termination all atoms are the reward, and any probabilities will do: these can't be NaN.
        ended = batch.discount[:, None] == 0
        probabilities = jnp.where(ended, 1 / len(support), pick(following.probabilities, greedy))
        return jax.vmap(project, in_axes=(0, 0, None))(atoms, probabilities, support)

    def loss(params, target_params, batch, key):
        online_key, target_key = jax.random.split(key)
        targets = bellman_target(params, target_params, batch, jax.random.clone(online_key), target_key)
        targets = jax.lax.stop_gradient(targets)
        chosen = pick(logits(params, batch.observation, online_key), batch.action)
        losses = jax.vmap(cross_entropy)(targets, chosen)
        q = jax.nn.softmax(chosen) @ support
        metrics = {"categorical_loss": jnp.mean(losses), "q": jnp.mean(q)}
        return LossOutput(losses, jax.vmap(divergence)(targets, chosen), metrics)

    return Agent(init, q_values, distribution, loss, setting.optimization.values)
