"""What moves a run forward, over the same functions: compiled into one loop, or called by a loop in Python.

One vector step: take the pending action, store the row that it left, choose the next action. Then, when one is due, an
update. In a trace this is act, learn, step, store:

    ... act(t) | step(t) store(t) act(t+1) | learn | step(t+1) store(t+1) act(t+2) ...
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fqf.cycle import Cycle, forget_episodes, run_keys
from fqf.types import Actor, Environment, FinishedEpisode, HostEnvironment, Key, LearnerState, RunState


class Metrics(NamedTuple):
    """What one chunk reports: means over its updates, and the episodes that ended in it."""

    update: dict[str, Float[Array, "seeds"]]
    sum_return: Float[Array, "seeds"]
    sum_length: Int[Array, "seeds"]
    num_episodes: Int[Array, "seeds"]


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
    steps_per_period: int
    """Vector steps between two rounds of updates."""
    updates_per_period: int


def make_device_driver(cycle: Cycle, environment: Environment) -> Driver:
    """The functions take a leading axis of seeds; the counter is outside it, so loops and write heads stay scalar."""

    def init(key):
        keys = run_keys(key)
        return cycle.init(keys, *environment.init(keys.environment))

    def interact(state: RunState, vector_step, act) -> RunState:
        environment_state, arrival = environment.step(state.environment, state.actor.action)
        return state._replace(
            environment=environment_state,
            replay=cycle.store(state.replay, state.actor.timestep, state.actor.action, vector_step),
            actor=act(state.learner.params, state.actor, arrival, state.key, vector_step),
        )

    def play(state: RunState, vector_step, num_steps, act) -> RunState:
        return jax.lax.fori_loop(0, num_steps, lambda i, state: interact(state, vector_step + i, act), state)

    def warm_up(state, vector_step, num_steps):
        state = state._replace(actor=forget_episodes(state.actor))
        state = play(state, vector_step, num_steps, cycle.act_randomly)
        return state, Metrics({}, *state.actor.statistics[2:])

    def advance(state, vector_step, num_periods):
        def learn(state: RunState, vector_step) -> tuple[RunState, dict[str, Array]]:
            learned, experience, metrics = cycle.learn(state.learner, state.replay, state.key, vector_step)
            return state._replace(learner=learned, replay=experience), metrics

        def period(i, carry):
            state, sums = carry
            begin = vector_step + i * cycle.steps_per_period
            state = play(state, begin, cycle.steps_per_period, cycle.act)
            state, metrics = learn(state, begin + cycle.steps_per_period)
            return state, jax.tree.map(jnp.add, sums, metrics)

        state = state._replace(actor=forget_episodes(state.actor))
        _, shapes = jax.eval_shape(learn, state, vector_step)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        state, sums = jax.lax.fori_loop(0, num_periods, period, (state, zeros))
        means = jax.tree.map(lambda total: total / (num_periods * cycle.updates_per_period), sums)
        return state, Metrics(means, *state.actor.statistics[2:])

    def over_seeds(function):
        return jax.jit(jax.vmap(function, in_axes=(0, None, None)), donate_argnums=0)

    return Driver(
        init=jax.jit(jax.vmap(init)),
        warm_up=over_seeds(warm_up),
        advance=over_seeds(advance),
        pick=lambda state, index: jax.tree.map(lambda leaf: leaf[index], (state.learner, state.actor)),
        close=lambda state: None,
        steps_per_period=cycle.steps_per_period,
        updates_per_period=cycle.updates_per_period,
    )


def make_host_driver(cycle: Cycle, environment: HostEnvironment, num_lanes: int) -> Driver:
    """One seed at a time; its lanes are part of its state. An update is under way while the environment steps.

    The replay is given away with every call and taken back, so that there is only ever one of it. The arrays of a
    `Timestep` go in as NumPy made them, and an action is copied out: a view would keep its buffer from being reused.
    """
    act = jax.jit(cycle.act, donate_argnums=1)
    act_randomly = jax.jit(cycle.act_randomly, donate_argnums=1)
    store = jax.jit(cycle.store, donate_argnums=0)
    forget = jax.jit(forget_episodes, donate_argnums=0)
    traced_learn = jax.jit(cycle.learn)  # never run: asked for its shapes, which it remembers

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def learn(learned, experience, sums, key, vector_step):
        learned, experience, metrics = cycle.learn(learned, experience, key, vector_step)
        return learned, experience, jax.tree.map(jnp.add, sums, metrics)

    def init(keys):
        keys = run_keys(keys[0])
        lanes = environment.make(num_lanes, False)
        timestep = lanes.init(seed_from(keys.environment))
        return jax.jit(cycle.init)(keys, (), timestep)._replace(environment=lanes)

    def play(state: RunState, begin: int, num_steps: int, act) -> RunState:
        experience, actor = state.replay, state.actor
        for vector_step in range(begin, begin + num_steps):
            arrival = state.environment.step(np.array(actor.action))
            experience = store(experience, actor.timestep, actor.action, vector_step)
            actor = act(state.learner.params, actor, arrival, state.key, vector_step)
        return state._replace(replay=experience, actor=actor)

    def warm_up(state, vector_step, num_steps):
        state = state._replace(actor=forget(state.actor))
        state = play(state, vector_step, num_steps, act_randomly)
        return state, report({}, state.actor)

    def advance(state, vector_step, num_periods):
        state = state._replace(actor=forget(state.actor))
        _, _, shapes = traced_learn.eval_shape(state.learner, state.replay, state.key, vector_step)
        sums = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        for begin in range(vector_step, vector_step + num_periods * cycle.steps_per_period, cycle.steps_per_period):
            state = play(state, begin, cycle.steps_per_period, act)
            end = begin + cycle.steps_per_period
            learned, experience, sums = learn(state.learner, state.replay, sums, state.key, end)
            state = state._replace(learner=learned, replay=experience)
        means = jax.tree.map(lambda total: total / (num_periods * cycle.updates_per_period), sums)
        return state, report(means, state.actor)

    def report(means: dict[str, Array], actor: Actor) -> Metrics:
        return jax.tree.map(lambda leaf: np.array(leaf)[None], Metrics(means, *actor.statistics[2:]))

    return Driver(
        init=init,
        warm_up=warm_up,
        advance=advance,
        pick=lambda state, index: (state.learner, state.actor),
        close=lambda state: state.environment.close(),
        steps_per_period=cycle.steps_per_period,
        updates_per_period=cycle.updates_per_period,
    )


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
    return averages | {name: float(value[index]) for name, value in metrics.update.items()}
