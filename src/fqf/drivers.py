"""What moves a run forward, over the same functions: compiled into one loop, or called by a loop in Python.

One vector step: take the pending action, store the row that it left, choose the next action. Then, when one is due, an
update. In a trace this is act, learn, step, store:

    ... act(t) | step(t) store(t) act(t+1) | learn | step(t+1) store(t+1) act(t+2) ...
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fqf.cycle import Cycle, run_keys
from fqf.resources import give_back_memory
from fqf.types import (
    Actor,
    Environment,
    EnvironmentSpec,
    FinishedEpisode,
    HostEnvironment,
    Key,
    LearnerState,
    PyTree,
    RunState,
    Timestep,
)

BLOCK = 256
"""Vector steps whose random numbers are drawn in one call."""


class Metrics(NamedTuple):
    """What one chunk reports: means over its updates, and the episodes that ended in it."""

    update: Mapping[str, Float[Array | np.ndarray, "seeds"]]
    sum_return: Float[Array | np.ndarray, "seeds"]
    sum_length: Int[Array | np.ndarray, "seeds"]
    num_episodes: Int[Array | np.ndarray, "seeds"]


class Driver(NamedTuple):
    """Functions over a batch of seeds; `vector_step` counts steps of all lanes and is shared by all seeds."""

    init: Callable[[Key], RunState]
    warm_up: Callable[[RunState, int, int], tuple[RunState, Metrics]]
    """state, vector_step, number of vector steps: fill the replay with random play"""
    advance: Callable[[RunState, int, int], tuple[RunState, Metrics]]
    """state, vector_step, number of periods: play and learn"""
    pick: Callable[[RunState, int], tuple[LearnerState, Actor]]
    """What one of the seeds has learned, and where it stands."""
    close: Callable[[RunState], None]
    compile: Callable[[], None]
    """What is needed for a run, ahead of it."""
    steps_per_period: int
    """Vector steps between two rounds of updates."""
    updates_per_period: int


class EpisodeStatistics(NamedTuple):
    """Running returns of the unfinished episodes, and sums over those that ended since the last log line."""

    running_return: Float[Array, "E"]
    running_length: Int[Array, "E"]
    sum_return: Float[Array, ""]
    sum_length: Int[Array, ""]
    num_episodes: Int[Array, ""]


class Counted(NamedTuple):
    """A compiled environment, and what was counted of its episodes. (Lanes on the host count for themselves.)"""

    state: PyTree
    statistics: EpisodeStatistics


def make_device_driver(cycle: Cycle, environment: Environment) -> Driver:
    """The functions take a leading axis of seeds; the counter is outside it, so loops and write heads stay scalar."""

    def init(key):
        keys = run_keys(key)
        environment_state, timestep = environment.init(keys.environment)
        return cycle.init(keys, Counted(environment_state, no_episodes(environment.num_lanes)), timestep)

    def interact(state: RunState, vector_step, choose) -> RunState:
        (timestep, stack, action), (environment_state, statistics) = state.actor, state.environment
        environment_state, arrival = environment.step(environment_state, action)
        experience = cycle.store(state.replay, timestep, action, vector_step)
        stack = cycle.see(stack, timestep.last, arrival.observation)
        action = choose(state.learner.params, stack, state.key, vector_step)
        return state._replace(
            environment=Counted(environment_state, count_episodes(statistics, arrival)),
            replay=experience,
            actor=Actor(arrival, stack, action),
        )

    def act(params, stack, key, vector_step):
        return cycle.act(params, stack, cycle.explore(key, vector_step), key, vector_step)

    def wander(params, stack, key, vector_step):
        return cycle.wander(key, vector_step)

    def play(state: RunState, vector_step, num_steps, choose) -> RunState:
        return jax.lax.fori_loop(0, num_steps, lambda i, state: interact(state, vector_step + i, choose), state)

    def warm_up(state, vector_step, num_steps):
        state = play(forget_episodes(state), vector_step, num_steps, wander)
        return state, Metrics({}, *state.environment.statistics[2:])

    def advance(state, vector_step, num_periods):
        def learn(state: RunState, vector_step) -> tuple[RunState, dict[str, Array]]:
            learned, experience, metrics = cycle.learn(state.learner, state.replay, state.key, vector_step)
            return state._replace(learner=learned, replay=experience), metrics

        def period(i, carry):
            state, sums = carry
            begin = vector_step + i * cycle.steps_per_period
            state = play(state, begin, cycle.steps_per_period, act)
            state, metrics = learn(state, begin + cycle.steps_per_period)
            return state, jax.tree.map(jnp.add, sums, metrics)

        state = forget_episodes(state)
        _, shapes = jax.eval_shape(learn, state, vector_step)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        state, sums = jax.lax.fori_loop(0, num_periods, period, (state, zeros))
        means = jax.tree.map(lambda total: total / (num_periods * cycle.updates_per_period), sums)
        return state, Metrics(means, *state.environment.statistics[2:])

    def over_seeds(function):
        return jax.jit(jax.vmap(function, in_axes=(0, None, None)), donate_argnums=0)

    return Driver(
        init=jax.jit(jax.vmap(init)),
        warm_up=over_seeds(warm_up),
        advance=over_seeds(advance),
        pick=lambda state, index: jax.tree.map(lambda leaf: leaf[index], (state.learner, state.actor)),
        close=lambda state: None,
        compile=lambda: None,
        steps_per_period=cycle.steps_per_period,
        updates_per_period=cycle.updates_per_period,
    )


def make_host_driver(cycle: Cycle, environment: HostEnvironment, num_lanes: int) -> Driver:
    """One seed at a time; its lanes are part of its state. An update is under way while the environment steps.

    The replay is given away with every call and taken back, so that there is only ever one of it. The arrays of a
    `Timestep` go in as NumPy made them, and an action is copied out: a view would keep its buffer from being reused.
    What is drawn at random without looking is drawn for many steps at once, because on a CPU the many small kernels of
    a random number cost more, called one by one, than all else here (`studies/host.py`).
    """

    @jax.jit
    def act(params, stack, ended, observation, explored, key, vector_step):
        stack = cycle.see(stack, ended, observation)
        return stack, cycle.act(params, stack, explored, key, vector_step)

    @jax.jit
    def wander(params, stack, ended, observation, chosen, key, vector_step):
        return cycle.see(stack, ended, observation), chosen

    begin, store = jax.jit(cycle.init), jax.jit(cycle.store, donate_argnums=0)

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def learn(learned, experience, sums, key, vector_step):
        learned, experience, metrics = cycle.learn(learned, experience, key, vector_step)
        return learned, experience, jax.tree.map(jnp.add, sums, metrics)

    @functools.cache
    def shapes() -> tuple[RunState, dict[str, Any]]:
        """Of the state, and of an update's metrics."""
        state = jax.eval_shape(cycle.init, run_keys(jax.random.key(0)), (), no_timestep(environment.spec, num_lanes))
        _, _, metrics = jax.eval_shape(cycle.learn, state.learner, state.replay, state.key, 0)
        return state, metrics

    def compile():
        state, sums = shapes()
        (timestep, stack, action), key = state.actor, state.key
        chosen = (state.learner.params, stack, timestep.last, timestep.observation, action, key, 0)
        for function, arguments in (
            (begin, (jax.eval_shape(run_keys, key), (), timestep)),
            (wander, chosen),
            (act, chosen),
            (store, (state.replay, timestep, action, 0)),
            (learn, (state.learner, state.replay, sums, key, 0)),
        ):
            function.lower(*arguments).compile()
        for choose in (cycle.wander, cycle.explore):
            draw_block.lower(choose, key, 0).compile()

    def init(keys):
        keys = run_keys(keys[0])
        lanes = environment.make(num_lanes, False)
        timestep = lanes.init(seed_from(keys.environment))
        give_back_memory()
        state = jax.block_until_ready(begin(keys, (), timestep))
        begin.clear_cache()  # type: ignore[attr-defined]  # it will not be called again
        give_back_memory()
        return state._replace(environment=lanes)

    def play(state: RunState, begin: int, drawn: np.ndarray, act) -> RunState:
        experience, (timestep, stack, action) = state.replay, state.actor
        for vector_step, choice in enumerate(drawn, begin):
            arrival = state.environment.step(np.array(action))
            experience = store(experience, timestep, action, vector_step)
            ended, observation = timestep.last, arrival.observation
            stack, action = act(state.learner.params, stack, ended, observation, choice, state.key, vector_step)
            timestep = arrival
        return state._replace(replay=experience, actor=Actor(timestep, stack, action))

    def warm_up(state, vector_step, num_steps):
        earlier = len(state.environment.episodes)
        state = play(state, vector_step, draw(cycle.wander, state.key, vector_step, num_steps), wander)
        return state, report({}, state.environment.episodes[earlier:])

    def advance(state, vector_step, num_periods):
        earlier, length = len(state.environment.episodes), cycle.steps_per_period
        _, metrics = shapes()
        sums = jax.device_put(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), metrics))
        explored = draw(cycle.explore, state.key, vector_step, num_periods * length)
        for start in range(0, num_periods * length, length):
            now, drawn = vector_step + start, explored[start : start + length]
            state = play(state, now, drawn, act)
            learned, experience, sums = learn(state.learner, state.replay, sums, state.key, now + length)
            state = state._replace(learner=learned, replay=experience)
        updates = num_periods * cycle.updates_per_period
        means = {name: np.asarray(total)[None] / updates for name, total in sums.items()}
        return state, report(means, state.environment.episodes[earlier:])

    def report(means: dict[str, np.ndarray], episodes: list[FinishedEpisode]) -> Metrics:
        """By NumPy: to compile anything here, however small, takes more memory than there may be beside a replay."""
        sums = (sum(each.total for each in episodes), sum(each.length for each in episodes), len(episodes))
        give_back_memory()
        return Metrics(means, *(np.array([each]) for each in sums))

    return Driver(
        init=init,
        warm_up=warm_up,
        advance=advance,
        pick=lambda state, index: (state.learner, state.actor),
        close=lambda state: state.environment.close(),
        compile=compile,
        steps_per_period=cycle.steps_per_period,
        updates_per_period=cycle.updates_per_period,
    )


@functools.partial(jax.jit, static_argnums=0)
def draw_block(choose: Callable[[Key, Array], Array], key: Key, vector_step: Int[Array, ""]) -> Int[Array, "block E"]:
    return jax.vmap(choose, (None, 0))(key, vector_step + jnp.arange(BLOCK))


def draw(choose: Callable[[Key, Array], Array], key: Key, vector_step: int, num_steps: int) -> np.ndarray:
    """What `choose` draws at each of the next steps, [num_steps, lanes]."""
    blocks = [draw_block(choose, key, vector_step + offset) for offset in range(0, num_steps, BLOCK)]
    return np.concatenate(blocks)[:num_steps]


def no_episodes(num_lanes: int) -> EpisodeStatistics:
    count = jnp.zeros((), jnp.int32)
    return EpisodeStatistics(jnp.zeros(num_lanes), jnp.zeros(num_lanes, jnp.int32), jnp.zeros(()), count, count)


def forget_episodes(state: RunState) -> RunState:
    """Start the sums of a new chunk; unfinished episodes go on."""
    statistics = state.environment.statistics
    zero = {name: jnp.zeros_like(getattr(statistics, name)) for name in ("sum_return", "sum_length", "num_episodes")}
    return state._replace(environment=state.environment._replace(statistics=statistics._replace(**zero)))


def count_episodes(statistics: EpisodeStatistics, timestep: Timestep) -> EpisodeStatistics:
    """Add an arrival; a first row adds reward 0 and is told apart by the length it follows."""
    total = statistics.running_return + timestep.reward
    length = statistics.running_length + 1
    ended = timestep.last
    return EpisodeStatistics(
        running_return=jnp.where(ended, 0.0, total),
        running_length=jnp.where(ended, -1, length),  # the reset row that follows is not a step
        sum_return=statistics.sum_return + jnp.sum(jnp.where(ended, total, 0.0)),
        sum_length=statistics.sum_length + jnp.sum(jnp.where(ended, length, 0)),
        num_episodes=statistics.num_episodes + jnp.sum(ended),
    )


def no_timestep(spec: EnvironmentSpec, num_lanes: int) -> Timestep:
    """For its shapes."""
    observation = jnp.zeros((num_lanes, *spec.observation_shape), spec.observation_dtype)
    return Timestep(observation, jnp.zeros(num_lanes), jnp.zeros(num_lanes), jnp.zeros(num_lanes, bool))


def seed_from(key: Key) -> int:
    """A seed for what does not draw from keys."""
    return int(jax.random.bits(key)) >> 1


def finished_episodes(state: RunState) -> list[FinishedEpisode]:
    """Take the episodes that have ended; the device driver keeps only their sums."""
    episodes = getattr(state.environment, "episodes", [])
    taken, episodes[:] = list(episodes), []
    return taken


def metrics_row(metrics: Metrics, index: int) -> dict[str, Any]:
    """One seed's numbers of a chunk; averages over no episode are null."""
    count = int(metrics.num_episodes[index])
    averages = {
        "return": float(metrics.sum_return[index]) / count if count else None,
        "length": float(metrics.sum_length[index]) / count if count else None,
    }
    return averages | {name: float(np.asarray(value)[index]) for name, value in metrics.update.items()}
