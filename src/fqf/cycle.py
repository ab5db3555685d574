"""The cycle of one run as pure functions: act, store, learn. Both drivers are made of them."""

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
from fqf.types import Actor, EpisodeStatistics, Key, LearnerState, PyTree, RunState, Timestep


@dataclass(frozen=True)
class Rhythm:
    """How often things happen, in agent steps, over all lanes."""

    update_period_steps: int
    target_period_steps: int
    frame_stack: int
    epsilon: Callable[[Int[Array, ""]], Float[Array, ""]]
    importance_exponent: Callable[[Int[Array, ""]], Float[Array, ""]]


class Cycle(NamedTuple):
    """Pure functions of one seed; `vector_step` counts the steps of all lanes."""

    init: Callable[["RunKeys", PyTree, Timestep], RunState]
    """keys, environment's state, its first timestep"""
    act: Callable[[PyTree, Actor, Timestep, Key, Int[Array, ""]], Actor]
    """params, actor, arrival, run's key, vector_step: see where the last action led, and choose the next one"""
    act_randomly: Callable[[PyTree, Actor, Timestep, Key, Int[Array, ""]], Actor]
    store: Callable[[PyTree, Timestep, Int[Array, "E"], Int[Array, ""]], PyTree]
    """replay, timestep, action, vector_step: keep the row that an action leaves"""
    learn: Callable[[LearnerState, PyTree, Key, Int[Array, ""]], tuple[LearnerState, PyTree, dict[str, Array]]]
    """learner, replay, run's key, vector_step: the updates that are due, and the sums of their metrics"""
    replay: Replay
    steps_per_period: int
    """Vector steps between two rounds of updates."""
    updates_per_period: int


def make_cycle(agent: Agent, num_actions: int, num_lanes: int, replay: Replay, rhythm: Rhythm) -> Cycle:
    steps_per_period, updates_per_period = periods(rhythm.update_period_steps, num_lanes)

    def init(keys, environment_state, timestep):
        actor = Actor(
            timestep=timestep,
            stack=first_stack(timestep, rhythm.frame_stack),
            action=jax.random.randint(keys.action, (num_lanes,), 0, num_actions),
            statistics=no_episodes(num_lanes),
        )
        return RunState(learner.init(agent, keys.learner), replay.init(), environment_state, actor, keys.run)

    def see(actor: Actor, arrival: Timestep) -> Actor:
        return actor._replace(
            timestep=arrival,
            stack=push(actor.stack, arrival.observation, actor.timestep.last, rhythm.frame_stack),
            statistics=count_episodes(actor.statistics, arrival),
        )

    def act(params, actor, arrival, key, vector_step):
        actor = see(actor, arrival)
        q_key, action_key = jax.random.split(act_key(key, vector_step))
        q_values = agent.q_values(params, actor.stack, q_key)
        epsilon = rhythm.epsilon((vector_step + 1) * num_lanes)
        return actor._replace(action=epsilon_greedy(action_key, q_values, epsilon))

    def act_randomly(params, actor, arrival, key, vector_step):
        action = jax.random.randint(act_key(key, vector_step), (num_lanes,), 0, num_actions)
        return see(actor, arrival)._replace(action=action)

    def learn(learned, experience, key, vector_step):
        exponent = rhythm.importance_exponent(vector_step * num_lanes)

        def update(carry, index):
            learned, experience = carry
            sample_key, loss_key = jax.random.split(update_key(key, vector_step, index))
            batch = replay.sample(experience, vector_step, sample_key, exponent)
            learned, errors, metrics = learner.update(agent, learned, batch.transition, batch.weights, loss_key)
            return (learned, replay.reprioritize(experience, batch.places, errors)), metrics

        (learned, experience), metrics = jax.lax.scan(update, (learned, experience), jnp.arange(updates_per_period))
        learned = sync_target(learned, vector_step)
        return learned, experience, jax.tree.map(lambda values: jnp.sum(values, axis=0), metrics)

    def sync_target(learned, vector_step):
        """Whenever the agent steps of this period reached a multiple of the target's period."""
        step, before = vector_step * num_lanes, (vector_step - steps_per_period) * num_lanes
        due = step // rhythm.target_period_steps > before // rhythm.target_period_steps
        return jax.lax.cond(due, learner.sync_target, lambda same: same, learned)

    return Cycle(init, act, act_randomly, replay.add, learn, replay, steps_per_period, updates_per_period)


class RunKeys(NamedTuple):
    learner: Key
    environment: Key
    action: Key
    run: Key


def run_keys(key: Key) -> RunKeys:
    """What is drawn once, and the key from which acting and learning draw."""
    return RunKeys(*jax.random.split(key, 4))


def act_key(key: Key, vector_step: Int[Array, ""]) -> Key:
    """Even numbers are for acting, odd ones for learning: no key of a run is made twice."""
    return jax.random.fold_in(key, 2 * vector_step)


def update_key(key: Key, vector_step: Int[Array, ""], index: Int[Array, ""]) -> Key:
    return jax.random.fold_in(jax.random.fold_in(key, 2 * vector_step + 1), index)


def no_episodes(num_lanes: int) -> EpisodeStatistics:
    count = jnp.zeros((), jnp.int32)
    return EpisodeStatistics(jnp.zeros(num_lanes), jnp.zeros(num_lanes, jnp.int32), jnp.zeros(()), count, count)


def forget_episodes(actor: Actor) -> Actor:
    """Start the sums of a new chunk; unfinished episodes go on."""
    zero = jax.tree.map(jnp.zeros_like, actor.statistics)
    running = {"running_return": actor.statistics.running_return, "running_length": actor.statistics.running_length}
    return actor._replace(statistics=zero._replace(**running))


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
