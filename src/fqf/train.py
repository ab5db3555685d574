"""From a config to run directories."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fqf import environments
from fqf.agents import make_agent
from fqf.config import RunConfig, check, num_periods, periods, warm_up_steps
from fqf.drivers import Cycle, DeviceDriver, Metrics, make_device_driver
from fqf.environments import EnvironmentLike
from fqf.errors import Diverged, UserError
from fqf.evaluation import Episodes, Scores, evaluation_key, make_evaluate, make_trace, summarize
from fqf.exploration import linear_epsilon, linear_exponent
from fqf.policy import Policy, load_policy
from fqf.progress import Progress
from fqf.replay.memory import Replay, make_prioritized, make_uniform
from fqf.replay.ring import Sampling
from fqf.report.figure import draw_run
from fqf.rundir import RunDirectory, provenance, refuse_existing, run_path
from fqf.types import EnvironmentSpec, JittableEnvironment, PyTree, RunState


@dataclass(frozen=True)
class Launch:
    """Where and how to run."""

    runs: Path = Path("runs")
    """Directory of all runs; this one goes to RUNS/<agent>/<environment>/seed<k>."""
    seeds: int = 1
    """How many seeds to run at once: --seed, --seed + 1, and so on. Each gives what it gives alone."""
    seeds_together: Literal["threads", "vmap"] = "threads"
    """One program per seed, side by side on the cores (bit for bit as alone), or all seeds in one vmapped program
    (for accelerators; on a CPU it is slower, and sums round differently)."""
    overwrite: bool = False
    """Replace the run directory if it exists."""
    quiet: bool = False
    """No progress bar."""


class Run(NamedTuple):
    """A finished run: its directory, its policy and its scores before and after."""

    path: Path
    policy: Policy
    before: Scores
    after: Scores


class Parts(NamedTuple):
    """What all seeds of a launch share: compiled functions, no state."""

    spec: EnvironmentSpec
    driver: DeviceDriver
    evaluate: Callable[[PyTree, jax.Array], Episodes]
    trace: Callable[[PyTree, jax.Array], np.ndarray]
    epsilon: Callable[[Any], Any]


def launch(config: RunConfig[Any], how: Launch, environment: JittableEnvironment | None = None) -> list[Run]:
    """Train every seed, each into its own directory."""
    environment = environments.make(config.env) if environment is None else environment
    if how.seeds < 1:
        raise UserError(f"seeds is {how.seeds}, but must be at least 1")
    configs = [replace(config, seed=config.seed + index) for index in range(how.seeds)]
    for each in configs:
        check(each)
        refuse_existing(run_path(how.runs, each), how.overwrite)
    parts, facts, stop = assemble(config, environment), provenance(), threading.Event()
    groups = [configs] if how.seeds_together == "vmap" else [[each] for each in configs]
    steps = [chunk.steps for chunk in schedule(config)]
    with (
        Progress(f"{config.agent} on {config.env}", sum(steps) * len(configs), how.quiet) as progress,
        ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1)) as pool,
    ):
        futures = [pool.submit(train_group, group, how, parts, facts, progress, stop) for group in groups]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()  # raises what the first to fail has raised
        except BaseException:  # Ctrl-C too: the others must not play on to their end
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    runs = [run for future in futures for run in future.result()]
    for run in runs:  # here and not in a thread: matplotlib is not made for threads
        draw_run(run.path)
    return runs


def assemble(config: RunConfig[Any], environment: JittableEnvironment) -> Parts:
    agent = make_agent(config, environment.spec)
    epsilon = linear_epsilon(config.exploration_epsilon, warm_up_steps(config), config.exploration_decay_steps)
    cycle = Cycle(
        update_period_steps=config.update_period_steps,
        target_period_steps=config.target_period_steps,
        frame_stack=config.frame_stack,
        epsilon=epsilon,
        importance_exponent=linear_exponent(config.importance_exponent, config.steps),
    )
    lanes = environments.vectorize(environment, config.lanes)
    examiners = environments.vectorize(environment, config.evaluation_episodes)
    return Parts(
        spec=environment.spec,
        driver=make_device_driver(agent, lanes, make_replay(config, environment.spec), cycle),
        evaluate=make_evaluate(agent, examiners, config.evaluation_epsilon, config.frame_stack),
        trace=make_trace(agent, environments.vectorize(environment, 1), config.frame_stack),
        epsilon=epsilon,
    )


def make_replay(config: RunConfig[Any], spec: EnvironmentSpec) -> Replay:
    how = Sampling(config.batch_size, config.discount, config.n_step, config.frame_stack)
    if config.replay == "uniform":
        return make_uniform(spec, config.replay_capacity, config.lanes, how)
    exponent, epsilon = config.priority_exponent, config.priority_epsilon
    return make_prioritized(spec, config.replay_capacity, config.lanes, how, exponent, epsilon)


class Chunk(NamedTuple):
    """A stretch of the run during which Python sleeps."""

    warm_up: bool
    vector_step: int
    """Where it starts."""
    length: int
    """Vector steps of a warm-up, periods otherwise."""
    steps: int
    """Agent steps."""
    evaluate: bool
    """Whether the policy is evaluated after it."""


def schedule(config: RunConfig[Any]) -> list[Chunk]:
    """The whole run: the warm-up, then chunks that end where a log line or an evaluation is due."""
    lanes, warm_up = config.lanes, warm_up_steps(config)
    per_period = periods(config.update_period_steps, lanes)[0] * lanes

    def due(every: int) -> set[int]:
        ends = (-(-(step - warm_up) // per_period) for step in range(every, config.steps + 1, every))
        return {end for end in ends if 0 < end < total}

    total = num_periods(config)
    evaluations = due(config.evaluate_every_steps) | {total}
    chunks, begin = [Chunk(True, 0, warm_up // lanes, warm_up, False)], 0
    for end in sorted(due(config.log_every_steps) | evaluations):
        start = (warm_up + begin * per_period) // lanes
        chunks.append(Chunk(False, start, end - begin, (end - begin) * per_period, end in evaluations))
        begin = end
    return chunks


def train_group(
    configs: Sequence[RunConfig[Any]],
    how: Launch,
    parts: Parts,
    facts: dict[str, Any],
    progress: Progress,
    stop: threading.Event,
) -> list[Run]:
    """Train some seeds in one program, and write everything about them."""
    with contextlib.ExitStack() as stack:
        directories = [
            stack.enter_context(RunDirectory(run_path(how.runs, each), each, how.overwrite)) for each in configs
        ]
        return _train_group(configs, directories, parts, facts, progress, stop)


class Stopped(Exception):
    """Another seed of the same launch failed, or the user interrupted it."""


def _train_group(
    configs: Sequence[RunConfig[Any]],
    directories: Sequence[RunDirectory],
    parts: Parts,
    facts: dict[str, Any],
    progress: Progress,
    stop: threading.Event,
) -> list[Run]:
    driver = parts.driver
    seeds = jnp.array([config.seed for config in configs])
    run_keys, evaluation_keys = jnp.swapaxes(jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds), 0, 1)

    def evaluate(state: RunState, step: int) -> list[Scores]:
        scores = []
        for index, directory in enumerate(directories):
            key = jax.random.fold_in(evaluation_keys[index], step)
            scores.append(summarize(parts.evaluate(_pick(state.learner.params, index), key)))
            directory.log_evaluation(step, scores[-1])
        return scores

    state = driver.init(run_keys)
    evaluations = [evaluate(state, 0)]
    step = updates = 0
    episodes = np.zeros(len(configs), int)
    for chunk in schedule(configs[0]):
        if stop.is_set():
            raise Stopped
        started = time.monotonic()
        move = driver.warm_up if chunk.warm_up else driver.advance
        state, metrics = jax.block_until_ready(move(state, chunk.vector_step, chunk.length))
        seconds = time.monotonic() - started
        step += chunk.steps
        updates += 0 if chunk.warm_up else chunk.length * driver.updates_per_period
        episodes += np.asarray(metrics.num_episodes)
        for index, directory in enumerate(directories):
            counts = {"step": step, "updates": updates, "episodes": int(episodes[index])}
            row = counts | {"epsilon": float(parts.epsilon(step))} | _row(metrics, index)
            _refuse_nonfinite(row, directory.path)
            directory.log(row, seconds, chunk.steps)
            progress.advance(chunk.steps, row)
        if chunk.evaluate:
            evaluations.append(evaluate(state, step))

    finished = []
    for index, (config, directory) in enumerate(zip(configs, directories, strict=True)):
        policy = Policy(config, parts.spec, jax.tree.map(np.asarray, _pick(state.learner.params, index)))
        scores = [each[index] for each in evaluations]
        observations = parts.trace(policy.params, jax.random.fold_in(evaluation_keys[index], step + 1))
        policy.save(directory.path / "policy")
        directory.write_json("distributions.json", _describe(policy, observations))
        resets = int(episodes[index] - np.sum(state.timestep.last[index]))
        counts = {
            "steps": step,
            "environment_steps": step - resets,
            "frames": step - resets,  # one frame per step: no jittable environment skips any
            "updates": updates,
            "episodes": int(episodes[index]),
        }
        directory.write_json("summary.json", _summarize(config, counts, scores, directory.seconds()) | facts)
        finished.append(Run(directory.path, policy, scores[0], scores[-1]))
    return finished


def _summarize(config: RunConfig[Any], counts: dict[str, int], scores: list[Scores], seconds: float) -> dict[str, Any]:
    best = max(scores, key=lambda each: each.mean)
    named = {"before": scores[0], "after": scores[-1], "best": best}
    return (
        {"agent": config.agent, "env": config.env, "seed": config.seed}
        | counts
        | {name: each._asdict() for name, each in named.items()}
        | {"seconds": seconds, "steps_per_second": counts["steps"] / seconds}
    )


def evaluate(
    policy: Policy,
    environment: EnvironmentLike | None = None,
    episodes: int = 100,
    epsilon: float | None = None,
    seed: int = 1,
) -> Scores:
    """Scores of a frozen policy, by default where it was trained and at its run's own evaluation epsilon."""
    config = policy.config
    epsilon = config.evaluation_epsilon if epsilon is None else epsilon
    for name, value, holds, rule in (
        ("episodes", episodes, episodes >= 1, "at least 1"),
        ("epsilon", epsilon, 0 <= epsilon <= 1, "between 0 and 1"),
        ("seed", seed, 0 <= seed < 2**31, "between 0 and 2**31 - 1"),
    ):
        if not holds:
            raise UserError(f"{name} is {value}, but must be {rule}")
    if environment is None and config.env not in environments.IDS:
        raise UserError(f"{config.env} was an environment of your own: call fqf.evaluate(fqf.load(RUN), environment)")
    lanes = environments.vectorize(environments.make(environment or config.env), episodes)
    play = make_evaluate(make_agent(config, policy.spec), lanes, epsilon, config.frame_stack)
    return summarize(play(policy.params, evaluation_key(seed)))


def load(path: Path | str) -> Policy:
    """The policy of a finished run."""
    policy = Path(path) / "policy"
    if not policy.is_dir():
        raise UserError(f"{path} holds no finished run: there is no {policy}")
    return load_policy(policy)


def _pick(tree: PyTree, index: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _row(metrics: Metrics, index: int) -> dict[str, Any]:
    """One seed's numbers of a chunk; averages over no episode are null."""
    count = int(metrics.num_episodes[index])
    averages = {
        "return": float(metrics.sum_return[index]) / count if count else None,
        "length": float(metrics.sum_length[index]) / count if count else None,
    }
    return averages | {name: float(value[index]) for name, value in metrics.update.items()}


def _refuse_nonfinite(row: dict[str, Any], path: Path) -> None:
    """A loss that is not a number never becomes one again."""
    for name, value in row.items():
        if value is not None and not math.isfinite(value):
            raise Diverged(f"{name} is {value} at step {row['step']} of {path}: the run has diverged; lower its rates")


def _describe(policy: Policy, observations: np.ndarray) -> dict[str, Any]:
    """What the figure draws: the return distributions of all actions in a few states of one episode."""
    distribution = policy.distribution(observations)
    return {
        "states": [f"state {index + 1} of {len(observations)}" for index in range(len(observations))],
        "observations": np.asarray(observations, float).reshape(len(observations), -1).tolist(),
        "probabilities": distribution.probabilities.tolist(),
        "values": distribution.values.tolist(),
    }
