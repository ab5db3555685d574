"""Scores of a frozen policy."""

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fqf.agents.agent import Agent, mean
from fqf.drivers import no_timestep, seed_from
from fqf.environments.host import Tally
from fqf.exploration import epsilon_greedy
from fqf.replay.nstep import first_stack, push, view
from fqf.types import Environment, EnvironmentSpec, FinishedEpisode, HostEnvironment, Key, PyTree, ReturnDistribution


class Episodes(NamedTuple):
    returns: Float[Array | np.ndarray, "episodes"]
    lengths: Int[Array | np.ndarray, "episodes"]


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
            q_values = mean(agent.distribution(params, view(stack, frame_stack)))
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


class Share(NamedTuple):
    """What one lane contributes to an evaluation, known before it plays.

    By episodes, their number is fixed. By steps, a lane goes on until an episode ends at or after its share, and that
    episode counts: by Wald's equation the expected total is the expected number times the mean. (To stop all lanes at
    once and drop what is unfinished would favour short episodes. What remains is the bias of a ratio, of the order of
    one over the number of episodes, towards long ones, as in the authors' rule.)
    """

    episodes: int
    steps: int

    def is_done(self, episodes: int, steps: int) -> bool:
        return episodes >= self.episodes and steps >= self.steps


def shares(episodes: int, steps: int, num_lanes: int) -> list[Share]:
    """`steps` in all if not 0, else `episodes` in all, as evenly as may be."""
    if steps:
        return [Share(1, -(-steps // num_lanes))] * num_lanes
    lanes = min(num_lanes, episodes)
    return [Share(episodes // lanes + (lane < episodes % lanes), 0) for lane in range(lanes)]


class Player(NamedTuple):
    """How a frozen policy plays outside compiled programs."""

    start: jax.stages.Wrapped
    """timestep -> the stack that a lane's first observation stands on"""
    choose: jax.stages.Wrapped
    """params, stack, timestep, whether it is an episode's first, key -> stack, distribution, action"""

    def compile(self, params: PyTree, spec: EnvironmentSpec, num_lanes: int) -> None:
        """For parameters of such shapes, ahead of the first call."""
        timestep, key = no_timestep(spec, num_lanes), jax.random.key(0)
        self.start.lower(timestep).compile()
        stack = jax.eval_shape(self.start, timestep)
        self.choose.lower(params, stack, timestep, timestep.last, key).compile()


class Trace(NamedTuple):
    """A few moments of one episode, spread evenly over its beginning."""

    observations: np.ndarray
    """[moments, ...], or [moments, frames, ...] if they are stacked"""
    distribution: ReturnDistribution
    """[moments, A, N]"""


def make_player(agent: Agent, epsilon: float, frame_stack: int) -> Player:
    def choose(params, stack, timestep, first, key):
        stack = push(stack, timestep.observation, first, frame_stack)
        distribution = agent.distribution(params, view(stack, frame_stack))
        return stack, distribution, epsilon_greedy(key, mean(distribution), epsilon)

    return Player(jax.jit(lambda timestep: first_stack(timestep, frame_stack)), jax.jit(choose))


def make_host_evaluate(
    player: Player, environment: HostEnvironment, lanes: Sequence[Share]
) -> Callable[[PyTree, Key], Episodes]:
    """As `make_evaluate`, with a loop in Python over lanes that play their shares one episode after the other."""
    num_lanes = len(lanes)

    def evaluate(params, key):
        environment_key, act_key = jax.random.split(key)
        played: list[list[FinishedEpisode]] = [[] for _ in lanes]
        unfinished, tally = set(range(num_lanes)), Tally(num_lanes)
        with contextlib.closing(environment.make(num_lanes, False)) as games:
            timestep = games.init(seed_from(environment_key))
            stack, first = player.start(timestep), np.ones(num_lanes, bool)
            for time in itertools.count():
                stack, _, action = player.choose(params, stack, timestep, first, jax.random.fold_in(act_key, time))
                first = np.asarray(timestep.last)
                timestep = games.step(np.array(action))
                for lane, episode in tally.add(timestep):
                    if lane in unfinished:
                        played[lane].append(episode)
                        if lanes[lane].is_done(len(played[lane]), sum(each.length for each in played[lane])):
                            unfinished.remove(lane)
                if not unfinished:
                    break
        returns, lengths = zip(*itertools.chain(*played), strict=True)
        return Episodes(np.array(returns, np.float32), np.array(lengths))

    return evaluate


def make_host_trace(
    player: Player, environment: HostEnvironment, num_lanes: int, num_states: int = 3, horizon: int = 300
) -> Callable[[PyTree, Key], Trace]:
    """As `make_trace`, by the player and the number of lanes of an evaluation, whose program it so can use."""

    def trace(params: PyTree, key: Key) -> Trace:
        environment_key, act_key = jax.random.split(key)
        moments: list[Trace] = []
        with contextlib.closing(environment.make(num_lanes, False)) as game:
            timestep = game.init(seed_from(environment_key))
            stack, first = player.start(timestep), np.ones(num_lanes, bool)
            while len(moments) < horizon and not timestep.last[0]:
                act = jax.random.fold_in(act_key, len(moments))
                stack, distribution, action = player.choose(params, stack, timestep, first, act)
                moments.append(jax.tree.map(lambda leaf: np.asarray(leaf)[0].copy(), Trace(stack, distribution)))
                first, timestep = np.asarray(timestep.last), game.step(np.array(action))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(moments[i] for i in spread(len(moments), num_states)))

    return trace


def spread(length: int, count: int) -> np.ndarray:
    return np.unique(np.arange(count) * length // count)


def make_trace(
    agent: Agent, environment: Environment, frame_stack: int, num_states: int = 3, horizon: int = 300
) -> Callable[[PyTree, Key], Trace]:
    """Of the first lane's first `horizon` steps, played greedily."""

    def play(params, key):
        state, timestep = environment.init(key)

        def step(carry, _):
            state, timestep, stack = carry
            distribution = agent.distribution(params, view(stack, frame_stack))
            state, arrival = environment.step(state, jnp.argmax(mean(distribution), axis=1))
            following = push(stack, arrival.observation, timestep.last, frame_stack)
            seen = jax.tree.map(lambda leaf: leaf[0], (Trace(stack, distribution), timestep.last))
            return (state, arrival, following), seen

        start = (state, timestep, first_stack(timestep, frame_stack))
        return jax.lax.scan(step, start, length=horizon)[1]

    compiled = jax.jit(play)

    def trace(params: PyTree, key: Key) -> Trace:
        seen, last = jax.tree.map(np.asarray, compiled(params, key))
        length = int(np.argmax(last)) if last.any() else horizon
        return jax.tree.map(lambda leaf: leaf[spread(length, num_states)], seen)

    return trace
