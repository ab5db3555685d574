"""Scores of a frozen policy."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fqf.agents.agent import Agent, mean
from fqf.exploration import epsilon_greedy
from fqf.replay.nstep import first_stack, push
from fqf.types import Environment, Key, PyTree


class Episodes(NamedTuple):
    returns: Float[Array, "episodes"]
    lengths: Int[Array, "episodes"]


class Scores(NamedTuple):
    """A row of `evaluations.csv`."""

    mean: float
    median: float
    minimum: float
    maximum: float
    mean_length: float
    episodes: int


def evaluation_key(seed: int) -> Key:
    """Of an evaluation apart from any run. No training key is made this way, whatever the seeds."""
    return jax.random.fold_in(jax.random.key(seed), 0x5C0_0E5)


def summarize(episodes: Episodes) -> Scores:
    returns, lengths = np.asarray(episodes.returns, np.float64), np.asarray(episodes.lengths, np.float64)
    return Scores(
        float(returns.mean()),
        float(np.median(returns)),
        float(returns.min()),
        float(returns.max()),
        float(lengths.mean()),
        len(returns),
    )


def make_evaluate(
    agent: Agent, environment: Environment, epsilon: float, frame_stack: int
) -> Callable[[PyTree, Key], Episodes]:
    """One episode per lane, to its end: no lane plays a second one, so short episodes are not counted more often."""
    num_lanes = environment.num_lanes

    def evaluate(params, key):
        environment_key, act_key = jax.random.split(key)
        state, timestep = environment.init(environment_key)

        def unfinished(carry):
            return ~jnp.all(carry[-1])

        def step(carry):
            time, state, timestep, stack, episodes, finished = carry
            q_values = mean(agent.distribution(params, stack))
            action = epsilon_greedy(jax.random.fold_in(act_key, time), q_values, epsilon)
            state, arrival = environment.step(state, action)
            stack = push(stack, arrival.observation, timestep.last, frame_stack)
            returns = episodes.returns + jnp.where(finished, 0.0, arrival.reward)
            lengths = episodes.lengths + ~finished
            return time + 1, state, arrival, stack, Episodes(returns, lengths), finished | arrival.last

        nothing = Episodes(jnp.zeros(num_lanes), jnp.zeros(num_lanes, jnp.int32))
        start = (0, state, timestep, first_stack(timestep, frame_stack), nothing, jnp.zeros(num_lanes, bool))
        return jax.lax.while_loop(unfinished, step, start)[-2]

    return jax.jit(evaluate)


def make_trace(
    agent: Agent, environment: Environment, frame_stack: int, num_states: int = 3, horizon: int = 300
) -> Callable[[PyTree, Key], np.ndarray]:
    """A few observations of one greedy episode, spread evenly over its first `horizon` steps."""

    def play(params, key):
        state, timestep = environment.init(key)

        def step(carry, _):
            state, timestep, stack = carry
            action = jnp.argmax(mean(agent.distribution(params, stack)), axis=1)
            state, arrival = environment.step(state, action)
            following = push(stack, arrival.observation, timestep.last, frame_stack)
            return (state, arrival, following), (stack[0], timestep.last[0])

        start = (state, timestep, first_stack(timestep, frame_stack))
        return jax.lax.scan(step, start, length=horizon)[1]

    compiled = jax.jit(play)

    def trace(params: PyTree, key: Key) -> np.ndarray:
        observations, last = (np.asarray(leaf) for leaf in compiled(params, key))
        length = int(np.argmax(last)) if last.any() else horizon
        return observations[np.unique(np.arange(num_states) * length // num_states)]

    return trace
