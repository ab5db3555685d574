"""Play a trained policy where it can be watched."""

import contextlib
from collections.abc import Iterator

import jax
import numpy as np

from fqf import environments
from fqf.agents import make_agent
from fqf.environments import AnyEnvironment
from fqf.evaluation import make_player
from fqf.policy import Policy
from fqf.report.video import Moment


def play(policy: Policy, environment: AnyEnvironment, epsilon: float, seed: int, max_steps: int) -> Iterator[Moment]:
    """One episode, moment by moment, to its end or for `max_steps`."""
    player = make_player(make_agent(policy.config, policy.spec), epsilon, policy.config.frame_stack)
    act_key, score = jax.random.key(seed), 0.0
    with contextlib.closing(environments.visible(environment)) as game:
        timestep = game.init(seed)
        stack, first = player.start(timestep), np.ones(1, bool)
        for step in range(max_steps):
            key = jax.random.fold_in(act_key, step)
            stack, distribution, action = player.choose(policy.params, stack, timestep, first, key)
            distribution = jax.tree.map(lambda leaf: np.array(leaf[0]), distribution)
            yield Moment(game.render(), np.array(timestep.observation[0]), distribution, int(action[0]), score)
            first, timestep = np.zeros(1, bool), game.step(np.array(action))
            score += float(timestep.reward[0])
            if timestep.last[0]:
                return
