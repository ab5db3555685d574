"""From a config to run directories."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Sequence
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
from fqf.drivers import Metrics, finished_episodes
from fqf.environments import AnyEnvironment, EnvironmentLike
from fqf.environments.host import Stopped, stoppable
from fqf.errors import Diverged, UserError
from fqf.evaluation import Scores, evaluation_key, summarize
from fqf.parts import Parts, assemble, make_examiner
from fqf.policy import Policy, load_policy
from fqf.progress import Progress
from fqf.protocols import TrainingScores, atari_score
from fqf.report.figure import draw_run
from fqf.resources import refuse_if_too_large
from fqf.rundir import RunDirectory, provenance, refuse_existing, run_path
from fqf.types import HostEnvironment, RunState


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


def launch(config: RunConfig[Any, Any], how: Launch, environment: AnyEnvironment | None = None) -> list[Run]:
    """Train every seed, each into its own directory."""
    environment = environments.make(config.env, config.environment) if environment is None else environment
    if how.seeds < 1:
        raise UserError(f"seeds is {how.seeds}, but must be at least 1")
    configs = [replace(config, seed=config.seed + index) for index in range(how.seeds)]
    for each in configs:
        check(each)
        refuse_existing(run_path(how.runs, each), how.overwrite)
    facts, stop = provenance(), threading.Event()
    groups = [configs] if how.seeds_together == "vmap" else [[each] for each in configs]
    if isinstance(environment, HostEnvironment):
        if how.seeds_together == "vmap" and how.seeds > 1:
            raise UserError(f"seeds_together is 'vmap', but {config.env} runs outside compiled programs: use threads")
        environment = stoppable(environment, stop)
    parts, workers = assemble(config, environment), min(len(groups), os.cpu_count() or 1)
    at_once = workers * len(groups[0])
    refuse_if_too_large(config.replay_capacity, parts.replay_bytes, parts.learner_bytes, at_once, how.runs)
    steps = [chunk.steps for chunk in schedule(config)]
    with (
        Progress(f"{config.agent} on {config.env}", sum(steps) * len(configs), how.quiet) as progress,
        ThreadPoolExecutor(workers) as pool,
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


def schedule(config: RunConfig[Any, Any]) -> list[Chunk]:
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
    configs: Sequence[RunConfig[Any, Any]],
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


def _train_group(
    configs: Sequence[RunConfig[Any, Any]],
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
        progress.say(
            f"evaluating at step {step:,} ..." if step else "compiling, and evaluating the untrained policy ..."
        )
        scores = []
        for index, directory in enumerate(directories):
            key = jax.random.fold_in(evaluation_keys[index], step)
            scores.append(summarize(parts.evaluate(driver.pick(state, index)[0].params, key)))
            directory.log_evaluation(step, scores[-1])
        return scores

    state = driver.init(run_keys)
    evaluations, training = [evaluate(state, 0)], TrainingScores(configs[0])
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
        training.add(finished_episodes(state))
        if chunk.evaluate:
            evaluations.append(evaluate(state, step))
            if (score := training.take(step)) is not None:
                directories[0].log_evaluation(step, score, source="training")

    finished = []
    for index, (config, directory) in enumerate(zip(configs, directories, strict=True)):
        learned, actor = driver.pick(state, index)
        policy = Policy(config, parts.spec, jax.tree.map(np.array, learned.params))
        scores = [each[index] for each in evaluations]
        observations = parts.trace(policy.params, jax.random.fold_in(evaluation_keys[index], step + 1))
        policy.save(directory.path / "policy")
        directory.write_json("distributions.json", _describe(policy, observations))
        resets = int(episodes[index] - np.sum(actor.timestep.last))
        counts = {
            "steps": step,
            "environment_steps": step - resets,
            "frames": (step - resets) * parts.frame_skip,
            "updates": updates,
            "episodes": int(episodes[index]),
        }
        summary = _summarize(config, counts, scores, directory.seconds())
        if environments.family(config.env) == "atari":
            summary["score"] = atari_score(config, scores, training.scores, parts.frame_skip)
        directory.write_json("summary.json", summary | facts)
        finished.append(Run(directory.path, policy, scores[0], scores[-1]))
    driver.close(state)
    return finished


def _summarize(
    config: RunConfig[Any, Any], counts: dict[str, int], scores: list[Scores], seconds: float
) -> dict[str, Any]:
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
    episodes: int | None = None,
    epsilon: float | None = None,
    seed: int = 1,
) -> Scores:
    """Scores of a frozen policy, by default where it was trained and as its run was evaluated."""
    config = policy.config
    if episodes is not None:
        config = replace(config, evaluation_episodes=episodes, evaluation_steps=0)
    epsilon = config.evaluation_epsilon if epsilon is None else epsilon
    for name, value, holds, rule in (
        ("episodes", episodes, config.evaluation_episodes >= 1, "at least 1"),
        ("epsilon", epsilon, 0 <= epsilon <= 1, "between 0 and 1"),
        ("seed", seed, 0 <= seed < 2**31, "between 0 and 2**31 - 1"),
    ):
        if not holds:
            raise UserError(f"{name} is {value}, but must be {rule}")
    if environment is None and not environments.is_known(config.env):
        raise UserError(f"{config.env} was an environment of your own: call fqf.evaluate(fqf.load(RUN), environment)")
    made = environments.make(environment or config.env, config.environment)
    play = make_examiner(config, make_agent(config, policy.spec), made, epsilon)
    return summarize(play(policy.params, evaluation_key(seed)))


def load(path: Path | str) -> Policy:
    """The policy of a finished run."""
    policy = Path(path) / "policy"
    if not policy.is_dir():
        raise UserError(f"{path} holds no finished run: there is no {policy}")
    return load_policy(policy)


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
    distribution, small = policy.distribution(observations), observations[0].size <= 1_000
    return {
        "states": [f"state {index + 1} of {len(observations)}" for index in range(len(observations))],
        "observations": observations.astype(float).reshape(len(observations), -1).tolist() if small else None,
        "probabilities": distribution.probabilities.tolist(),
        "values": distribution.values.tolist(),
    }
