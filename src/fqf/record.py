"""Play a trained policy where it can be watched."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from fqf import environments
from fqf.agents import make_agent
from fqf.agents.agent import mean
from fqf.environments import AnyEnvironment
from fqf.exploration import epsilon_greedy
from fqf.policy import Policy
from fqf.replay.nstep import first_stack, push
from fqf.report.video import Moment


def play(policy: Policy, environment: AnyEnvironment, epsilon: float, seed: int, max_steps: int) -> Iterator[Moment]:
    """One episode, moment by moment, to its end or for `max_steps`."""
    config = policy.config
    agent = make_agent(config, policy.spec)

    @jax.jit
    def choose(params, stack, observation, first, key):
        stack = push(stack, observation, first, config.frame_stack)
        distribution = agent.distribution(params, stack)
        return stack, distribution, epsilon_greedy(key, mean(distribution), epsilon)

    lanes, keys, score = environments.visible(environment), jax.random.key(seed), 0.0
    try:
        timestep = lanes.init(seed)
        stack, first = first_stack(timestep, config.frame_stack), jnp.ones(1, bool)
        for step in range(max_steps):
            key = jax.random.fold_in(keys, step)
            stack, distribution, action = choose(policy.params, stack, timestep.observation, first, key)
            distribution = jax.tree.map(lambda leaf: np.array(leaf[0]), distribution)
            observation = np.asarray(timestep.observation[0])
            yield Moment(lanes.render(), observation, distribution, int(action[0]), score)
            first, timestep = jnp.zeros(1, bool), lanes.step(np.array(action))
            score += float(timestep.reward[0])
            if timestep.last[0]:
                return
    finally:
        lanes.close()
