"""The compiled functions that a config asks for: what all seeds of a launch share, without any state."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from fqf import environments, learner
from fqf.agents import make_agent
from fqf.agents.agent import Agent
from fqf.config import RunConfig, warm_up_steps
from fqf.cycle import Rhythm, make_cycle
from fqf.drivers import Driver, make_device_driver, make_host_driver
from fqf.environments import AnyEnvironment
from fqf.environments.host import stoppable
from fqf.evaluation import (
    Episodes,
    Share,
    Trace,
    make_evaluate,
    make_host_evaluate,
    make_host_trace,
    make_player,
    make_trace,
    shares,
)
from fqf.exploration import linear_epsilon, linear_exponent
from fqf.replay.memory import Replay, make_prioritized, make_uniform
from fqf.replay.ring import Sampling
from fqf.resources import give_back_memory, keep_freed_memory, kept_programs, tree_bytes
from fqf.snapshots import Snapshots, make_device_snapshots, make_host_snapshots
from fqf.types import EnvironmentSpec, HostEnvironment, Key, PyTree

LARGE = 1_000_000_000
"""Bytes of a replay beside which memory is saved where it costs time (docs/decisions/0009-memory.md): what is freed
goes back to the system at once, and programs that were just compiled are dropped and read back from the disk, because
so they are smaller. All others of the process have to be read again, too."""


class Parts(NamedTuple):
    spec: EnvironmentSpec
    compile: Callable[[], None]
    """Ahead of a run, while there is room: a replay may leave too little for a compiler."""
    driver: Driver
    snapshots: Snapshots
    evaluate: Callable[[PyTree, Key], Episodes]
    trace: Callable[[PyTree, Key], Trace]
    epsilon: Callable[[Any], Any]
    frame_skip: int
    replay_bytes: int
    learner_bytes: int


def assemble(config: RunConfig[Any, Any], environment: AnyEnvironment, stop: threading.Event | None = None) -> Parts:
    """When `stop` is set, evaluations end at once: a checkpoint knows that they are due."""
    spec, stack = environment.spec, config.frame_stack
    agent = make_agent(config, spec)
    epsilon = linear_epsilon(config.exploration_epsilon, warm_up_steps(config), config.exploration_decay_steps)
    rhythm = Rhythm(
        update_period_steps=config.update_period_steps,
        target_period_steps=config.target_period_steps,
        frame_stack=stack,
        epsilon=epsilon,
        importance_exponent=linear_exponent(config.importance_exponent, config.steps),
    )
    replay = make_replay(config, spec)
    replay_bytes = tree_bytes(replay.init)
    cycle = make_cycle(agent, spec.num_actions, config.lanes, replay, rhythm)
    if isinstance(environment, HostEnvironment):
        lanes, player = evaluation_shares(config), make_player(agent, config.evaluation_epsilon, stack)
        driver = make_host_driver(cycle, environment, config.lanes)
        snapshots = make_host_snapshots(cycle, environment, config.lanes)
        trace, frame_skip = make_host_trace(player, environment, len(lanes)), environment.frame_skip
        environment = stoppable(environment, stop) if stop is not None else environment
        examine, compiling = make_host_evaluate(player, environment, lanes), threading.Lock()

        def compile() -> None:
            if replay_bytes <= LARGE:
                keep_freed_memory()
            with compiling:  # seeds on threads share these programs: the first compiles them, the others find them
                before = kept_programs()
                make_programs()
                if kept_programs() > before and replay_bytes > LARGE:
                    jax.clear_caches()
                    make_programs()
                give_back_memory()

        def make_programs() -> None:
            driver.compile()
            snapshots.compile()
            player.compile(jax.eval_shape(agent.init, jax.random.key(0)), spec, len(lanes))
    else:
        driver = make_device_driver(cycle, environments.vectorize(environment, config.lanes))
        snapshots = make_device_snapshots(cycle, driver)
        trace, frame_skip = make_trace(agent, environments.vectorize(environment, 1), stack), 1
        examine = make_examiner(config, agent, environment, config.evaluation_epsilon)

        compile = keep_freed_memory

    learner_bytes = tree_bytes(lambda: learner.init(agent, jax.random.key(0)))
    return Parts(spec, compile, driver, snapshots, examine, trace, epsilon, frame_skip, replay_bytes, learner_bytes)


def make_examiner(
    config: RunConfig[Any, Any], agent: Agent, environment: AnyEnvironment, epsilon: float
) -> Callable[[PyTree, Key], Episodes]:
    if isinstance(environment, HostEnvironment):
        player = make_player(agent, epsilon, config.frame_stack)
        return make_host_evaluate(player, environment, evaluation_shares(config))
    lanes_at_once = environments.vectorize(environment, config.evaluation_episodes)
    return make_evaluate(agent, lanes_at_once, epsilon, config.frame_stack)


def evaluation_shares(config: RunConfig[Any, Any]) -> list[Share]:
    return shares(config.evaluation_episodes, config.evaluation_steps, config.evaluation_lanes)


def make_replay(config: RunConfig[Any, Any], spec: EnvironmentSpec) -> Replay:
    how = Sampling(config.batch_size, config.discount, config.n_step, config.frame_stack, config.clip_rewards)
    if config.replay == "uniform":
        return make_uniform(spec, config.replay_capacity, config.lanes, how)
    exponent, epsilon = config.priority_exponent, config.priority_epsilon
    return make_prioritized(spec, config.replay_capacity, config.lanes, how, exponent, epsilon)
