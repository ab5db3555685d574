"""The cycle of one run as pure functions: explore, see, act, store, learn. Both drivers are made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from fqf import exploration, learner
from fqf.agents.agent import Agent
from fqf.config import periods
from fqf.replay.memory import Replay
from fqf.replay.nstep import first_stack, push, view
from fqf.types import Actor, Key, LearnerState, PyTree, RunState, Timestep


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
    wander: Callable[[Key, Int[Array, ""]], Int[Array, "E"]]
    """run's key, vector_step: actions while the replay fills"""
    explore: Callable[[Key, Int[Array, ""]], Int[Array, "E"]]
    """run's key, vector_step: a random action for the lanes that explore, -1 for the others"""
    see: Callable[[Shaped[Array, "E ..."], Bool[Array, "E"], Shaped[Array, "E ..."]], Shaped[Array, "E ..."]]
    """stack, whether its episode has ended, new observation: the stack with it"""
    act: Callable[[PyTree, Shaped[Array, "E ..."], Int[Array, "E"], Key, Int[Array, ""]], Int[Array, "E"]]
    """params, stack, what was explored, run's key, vector_step: the next action"""
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
        )
        return RunState(learner.init(agent, keys.learner), replay.init(), environment_state, actor, keys.run)

    def wander(key, vector_step):
        return jax.random.randint(act_key(key, vector_step), (num_lanes,), 0, num_actions)

    def explore(key, vector_step):
        _, action_key = jax.random.split(act_key(key, vector_step))
        return exploration.explore(action_key, num_lanes, num_actions, rhythm.epsilon((vector_step + 1) * num_lanes))

    def see(stack, ended, observation):
        return push(stack, observation, ended, rhythm.frame_stack)

    def act(params, stack, explored, key, vector_step):
        q_key, _ = jax.random.split(act_key(key, vector_step))
        return exploration.greedy_but(explored, agent.q_values(params, view(stack, rhythm.frame_stack), q_key))

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

    return Cycle(init, wander, explore, see, act, replay.add, learn, replay, steps_per_period, updates_per_period)


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
