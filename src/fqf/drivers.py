"""What moves a run forward. The device driver compiles the whole cycle into one loop.

One vector step: take the pending action, store the row that it left, choose the next action. Then, when one is due, an
update. In a trace this is act, learn, step, store:

    ... act(t) | step(t) store(t) act(t+1) | learn | step(t+1) store(t+1) act(t+2) ...
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fqf import learner
from fqf.agents.agent import Agent
from fqf.config import periods
from fqf.exploration import epsilon_greedy
from fqf.replay.memory import Replay
from fqf.replay.nstep import first_stack, push
from fqf.types import Environment, EpisodeStatistics, Key, RunState, Timestep


@dataclass(frozen=True)
class Cycle:
    """How often things happen, in agent steps, over all lanes."""

    update_period_steps: int
    target_period_steps: int
    frame_stack: int
    epsilon: Callable[[Int[Array, ""]], Float[Array, ""]]
    importance_exponent: Callable[[Int[Array, ""]], Float[Array, ""]]


class Metrics(NamedTuple):
    """What one chunk reports: means over its updates, and the episodes that ended in it."""

    update: dict[str, Float[Array, "seeds"]]
    sum_return: Float[Array, "seeds"]
    sum_length: Int[Array, "seeds"]
    num_episodes: Int[Array, "seeds"]


class DeviceDriver(NamedTuple):
    """Compiled functions over a batch of seeds; `vector_step` counts steps of all lanes and is shared by all seeds."""

    init: Callable[[Key], RunState]
    warm_up: Callable[[RunState, int, int], tuple[RunState, Metrics]]
    """state, vector_step, number of vector steps: fill the replay with random play"""
    advance: Callable[[RunState, int, int], tuple[RunState, Metrics]]
    """state, vector_step, number of periods: play and learn"""
    steps_per_period: int
    """Vector steps between two rounds of updates."""
    updates_per_period: int


def make_device_driver(agent: Agent, environment: Environment, replay: Replay, cycle: Cycle) -> DeviceDriver:
    """The functions take a leading axis of seeds; the counter is outside it, so loops and write heads stay scalar."""
    num_lanes, frame_stack = environment.num_lanes, cycle.frame_stack
    steps_per_period, updates_per_period = periods(cycle.update_period_steps, num_lanes)

    def init(key):
        learner_key, environment_key, action_key, run_key = jax.random.split(key, 4)
        environment_state, timestep = environment.init(environment_key)
        return RunState(
            learner=learner.init(agent, learner_key),
            replay=replay.init(),
            environment=environment_state,
            timestep=timestep,
            stack=first_stack(timestep, frame_stack),
            action=jax.random.randint(action_key, (num_lanes,), 0, environment.spec.num_actions),
            statistics=no_episodes(num_lanes),
            key=run_key,
        )

    def interact(state: RunState, vector_step, act) -> RunState:
        environment_state, timestep = environment.step(state.environment, state.action)
        experience = replay.add(state.replay, state.timestep, state.action, vector_step)
        stack = push(state.stack, timestep.observation, state.timestep.last, frame_stack)
        key = act_key(state.key, vector_step)
        return state._replace(
            environment=environment_state,
            replay=experience,
            timestep=timestep,
            stack=stack,
            action=act(state.learner.params, stack, key, (vector_step + 1) * num_lanes),
            statistics=count_episodes(state.statistics, timestep),
        )

    def random_action(params, stack, key, step):
        return jax.random.randint(key, (num_lanes,), 0, environment.spec.num_actions)

    def explore(params, stack, key, step):
        q_key, action_key = jax.random.split(key)
        return epsilon_greedy(action_key, agent.q_values(params, stack, q_key), cycle.epsilon(step))

    def learn(state: RunState, vector_step) -> tuple[RunState, dict[str, Array]]:
        """The updates that are due at this step, and the sums of their metrics."""

        exponent = cycle.importance_exponent(vector_step * num_lanes)

        def update(carry, index):
            learned, experience = carry
            sample_key, loss_key = jax.random.split(update_key(state.key, vector_step, index))
            batch = replay.sample(experience, vector_step, sample_key, exponent)
            learned, errors, metrics = learner.update(agent, learned, batch.transition, batch.weights, loss_key)
            return (learned, replay.reprioritize(experience, batch.places, errors)), metrics

        carry, metrics = jax.lax.scan(update, (state.learner, state.replay), jnp.arange(updates_per_period))
        state = state._replace(learner=carry[0], replay=carry[1])
        return state, jax.tree.map(lambda values: jnp.sum(values, axis=0), metrics)

    def sync_target(state: RunState, vector_step) -> RunState:
        """Whenever the agent steps of this period reached a multiple of the target's period."""
        step, before = vector_step * num_lanes, (vector_step - steps_per_period) * num_lanes
        due = step // cycle.target_period_steps > before // cycle.target_period_steps
        return state._replace(learner=jax.lax.cond(due, learner.sync_target, lambda same: same, state.learner))

    def play(state: RunState, vector_step, num_steps, act) -> RunState:
        return jax.lax.fori_loop(0, num_steps, lambda i, state: interact(state, vector_step + i, act), state)

    def warm_up(state, vector_step, num_steps):
        state = play(forget_episodes(state), vector_step, num_steps, random_action)
        return state, Metrics({}, *state.statistics[2:])

    def advance(state, vector_step, num_periods):
        def period(i, carry):
            state, sums = carry
            begin = vector_step + i * steps_per_period
            end = begin + steps_per_period
            state = play(state, begin, steps_per_period, explore)
            state, metrics = learn(state, end)
            state = sync_target(state, end)
            return state, jax.tree.map(jnp.add, sums, metrics)

        _, shapes = jax.eval_shape(learn, state, vector_step)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        state, sums = jax.lax.fori_loop(0, num_periods, period, (forget_episodes(state), zeros))
        means = jax.tree.map(lambda total: total / (num_periods * updates_per_period), sums)
        return state, Metrics(means, *state.statistics[2:])

    def over_seeds(function):
        return jax.jit(jax.vmap(function, in_axes=(0, None, None)), donate_argnums=0)

    return DeviceDriver(
        init=jax.jit(jax.vmap(init)),
        warm_up=over_seeds(warm_up),
        advance=over_seeds(advance),
        steps_per_period=steps_per_period,
        updates_per_period=updates_per_period,
    )


def act_key(key: Key, vector_step: Int[Array, ""]) -> Key:
    """Even numbers are for acting, odd ones for learning: no key of a run is made twice."""
    return jax.random.fold_in(key, 2 * vector_step)


def update_key(key: Key, vector_step: Int[Array, ""], index: Int[Array, ""]) -> Key:
    return jax.random.fold_in(jax.random.fold_in(key, 2 * vector_step + 1), index)


def no_episodes(num_lanes: int) -> EpisodeStatistics:
    count = jnp.zeros((), jnp.int32)
    return EpisodeStatistics(jnp.zeros(num_lanes), jnp.zeros(num_lanes, jnp.int32), jnp.zeros(()), count, count)


def forget_episodes(state: RunState) -> RunState:
    """Start the sums of a new chunk; unfinished episodes go on."""
    zero = jax.tree.map(jnp.zeros_like, state.statistics)
    running = {"running_return": state.statistics.running_return, "running_length": state.statistics.running_length}
    return state._replace(statistics=zero._replace(**running))


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
