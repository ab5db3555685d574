"""From a config, or from what a killed run has left, to finished run directories."""

import contextlib
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fqf import environments
from fqf.checkpoint import KEPT, remove_all
from fqf.config import RunConfig, check, override, read_toml
from fqf.environments import AnyEnvironment
from fqf.errors import Interrupted, Stopped, UserError
from fqf.files import Lock
from fqf.parts import Parts, assemble
from fqf.policy import read_config
from fqf.progress import Progress
from fqf.resources import refuse_too_much_disk, refuse_too_much_memory, tidy_process
from fqf.results import Run
from fqf.rundir import RunDirectory, is_finished, is_run, provenance, refuse_existing, run_path
from fqf.schedule import schedule
from fqf.session import Pace, Session, Surroundings
from fqf.signals import heeding_signals
from fqf.tracking import refuse_missing, tracked
from fqf.types import HostEnvironment


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
    checkpoint_minutes: float = 10.0
    """Minutes between two checkpoints, from which `fqf resume` goes on; the run's results do not depend on it."""
    checkpoint_steps: int = 0
    """Agent steps between two checkpoints, if sooner, rounded up to a log line; 0: by the clock alone."""
    track: Literal["none", "wandb", "trackio"] = "none"
    """Also send metrics and evaluations to Weights & Biases or to trackio, one run of theirs per seed; needs fqf[wandb]
    or fqf[trackio]. Results do not depend on it."""
    overwrite: bool = False
    """Replace the run directory if it exists."""
    quiet: bool = False
    """No progress bar."""


class Group(NamedTuple):
    """Seeds that run in one program."""

    configs: list[RunConfig[Any, Any]]
    paths: list[Path]
    how: Launch


def launch(config: RunConfig[Any, Any], how: Launch, environment: AnyEnvironment | None = None) -> list[Run]:
    """Train every seed, each into its own directory."""
    tidy_process()
    check_launch(how)
    configs = [replace(config, seed=config.seed + index) for index in range(how.seeds)]
    for each in configs:
        check(each)
        refuse_existing(run_path(how.runs, each), how.overwrite)
    environment = environments.make(config.env, config.environment) if environment is None else environment
    if isinstance(environment, HostEnvironment) and how.seeds_together == "vmap" and how.seeds > 1:
        raise UserError(f"seeds_together is 'vmap', but {config.env} runs outside compiled programs: use threads")
    together = [configs] if how.seeds_together == "vmap" else [[each] for each in configs]
    groups = [Group(group, [run_path(how.runs, each) for each in group], how) for group in together]
    stop = threading.Event()
    parts = assemble(config, environment, stop)
    needs = (config.replay_capacity, parts.replay_bytes, parts.learner_bytes)
    refuse_too_much_memory(*needs, at_once(groups))
    refuse_too_much_disk(*needs, how.seeds, KEPT + 1, how.runs)
    with contextlib.ExitStack() as stack:
        directories = claim(groups, stack)
        for members in directories:
            for directory in members:  # again, now that nobody else can write there
                refuse_existing(directory.path, how.overwrite)
        for group, members in zip(groups, directories, strict=True):
            for directory in members:
                directory.create(launch_facts(group))
        return run_groups(groups, directories, [parts] * len(groups), stop, resumed=False)


def resume(
    paths: Sequence[Path], quiet: bool = False, environment: AnyEnvironment | None = None, track: str | None = None
) -> list[Run]:
    """Go on with unfinished runs, each from its last whole checkpoint, as if they had never stopped. `track` is the
    tracker from here on; if not given, the one with which a run was begun."""
    tidy_process()
    groups: list[Group] = []
    for path in (path.absolute() for path in paths):
        if not any(path in group.paths for group in groups):
            groups.append(read_group(path, {"quiet": quiet} | ({"track": track} if track else {})))
    unfinished = [group for group in groups if not all(is_finished(path) for path in group.paths)]
    tidy([path for group in groups if group not in unfinished for path in group.paths])
    if not unfinished:
        raise UserError(f"nothing to resume: {', '.join(str(path) for path in paths)} finished before")
    stop, made = threading.Event(), dict[Any, Parts]()
    for group in unfinished:
        config = replace(group.configs[0], seed=0)
        if config not in made:
            own = environment if environment is not None else known_environment(config)
            made[config] = assemble(config, own, stop)
        parts = made[config]
        refuse_too_much_memory(config.replay_capacity, parts.replay_bytes, parts.learner_bytes, at_once(unfinished))
    parts_of = [made[replace(group.configs[0], seed=0)] for group in unfinished]
    with contextlib.ExitStack() as stack:
        directories = claim(unfinished, stack)
        for group, members in zip(unfinished, directories, strict=True):
            if all(is_finished(path) for path in group.paths):
                raise UserError(f"nothing to resume: {group.paths[0]} has finished meanwhile")
            for directory in members:
                if not is_run(directory.path):  # killed while the seeds of one program were being given directories
                    refuse_existing(directory.path, overwrite=False)
                    directory.create(launch_facts(group))
        return run_groups(unfinished, directories, parts_of, stop, resumed=True)


def tidy(finished: Sequence[Path]) -> None:
    """What a process killed just after a summary was written has left undone; an extra, which stops nothing else."""
    for path in finished:
        with contextlib.suppress(OSError, UserError), contextlib.ExitStack() as stack:
            stack.callback(Lock(path).release)
            if is_finished(path):
                remove_all(path)
                if not (path / "figure.png").is_file():
                    draw_run(path)


def draw_run(path: Path) -> None:
    """matplotlib and SciPy come in only now: while the replay is in memory, there may be no room for them."""
    from fqf.report import figure

    figure.draw_run(path)


def claim(groups: Sequence[Group], stack: contextlib.ExitStack) -> list[list[RunDirectory]]:
    """All directories, before anything in them is changed."""
    return [
        [
            stack.enter_context(RunDirectory(path, config))
            for path, config in zip(group.paths, group.configs, strict=True)
        ]
        for group in groups
    ]


def launch_facts(group: Group) -> dict[str, Any]:
    """What `resume` must know beside the config."""
    return {
        "seeds_in_one_program": [each.seed for each in group.configs],
        "checkpoint_minutes": group.how.checkpoint_minutes,
        "checkpoint_steps": group.how.checkpoint_steps,
        "track": group.how.track,
    }


def check_launch(how: Launch) -> None:
    for name, holds, rule in (
        ("seeds", how.seeds >= 1, "at least 1"),
        ("checkpoint_minutes", how.checkpoint_minutes > 0, "greater than 0"),
        ("checkpoint_steps", how.checkpoint_steps >= 0, "0 or more"),
    ):
        if not holds:
            raise UserError(f"{name} is {getattr(how, name)}, but must be {rule}")
    refuse_missing(how.track)


def at_once(groups: Sequence[Group]) -> int:
    """Seeds in memory at the same time."""
    return workers(groups) * max(len(group.configs) for group in groups)


def workers(groups: Sequence[Group]) -> int:
    return min(len(groups), os.cpu_count() or 1)


def run_groups(
    groups: Sequence[Group],
    directories: Sequence[Sequence[RunDirectory]],
    parts: Sequence[Parts],
    stop: threading.Event,
    resumed: bool,
) -> list[Run]:
    """Each group on a thread of its own, as many at once as there are cores."""
    facts, first = provenance(), groups[0].configs[0]
    steps = [sum(chunk.steps for chunk in schedule(group.configs[0])) * len(group.configs) for group in groups]
    paths = [path for group in groups for path in group.paths]

    def work(group: Group, directories: Sequence[RunDirectory], parts: Parts) -> list[Run]:
        pace = Pace(group.how.checkpoint_minutes, group.how.checkpoint_steps)
        session = Session(group.configs, directories, pace, Surroundings(parts, facts, progress, stop))
        if resumed:
            session.resume()
        else:
            session.begin()
        return session.run()

    def end_early() -> None:
        stop.set()
        progress.warn("stopping at the next log line, with a checkpoint; once more to stop at once, without")

    with (
        Progress(f"{first.agent} on {first.env}", sum(steps), groups[0].how.quiet) as progress,
        heeding_signals(end_early) as received,
        contextlib.ExitStack() as trackers,
        ThreadPoolExecutor(workers(groups)) as pool,
    ):
        for tracker in {group.how.track for group in groups}:
            followed = [path for group in groups if group.how.track == tracker for path in group.paths]
            trackers.enter_context(tracked(tracker, followed, progress))
        futures = [pool.submit(work, *each) for each in zip(groups, directories, parts, strict=True)]
        wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.done() and future.exception() for future in futures):
            stop.set()  # the others save and end
            pool.shutdown(wait=True, cancel_futures=True)
        failures = [future.exception() for future in futures if not future.cancelled()]
        for failure in failures:
            if failure is not None and not isinstance(failure, Stopped):
                raise failure
        left = " ".join(str(path) for path in paths if not is_finished(path))
        if received and left:
            raise Interrupted(received[0], f"stopped by {signal.Signals(received[0]).name}; go on: fqf resume {left}")
    runs = [run for future in futures for run in future.result()]
    for run in runs:  # here and not in a thread: matplotlib is not made for threads
        try:
            draw_run(run.path)
        except OSError as error:
            (run.path / "figure.png").unlink(missing_ok=True)  # `fqf resume` draws it when there is room
            progress.warn(f"no picture of {run.path}: {error.strerror}")
    return runs


def read_group(path: Path, said: Mapping[str, Any]) -> Group:
    """The run in a directory, with those that share its program; what is said now goes before what was said then."""
    if not is_run(path):
        raise UserError(f"{path} holds no run: there is no {path / 'config.toml'}")
    facts, config = read_toml(path / "launch.toml"), read_config(path / "config.toml")
    seeds = facts.pop("seeds_in_one_program", [config.seed])
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        raise UserError(f"{path / 'launch.toml'}: seeds_in_one_program is {seeds!r}, but must be a list of seeds")
    paths = [path if len(seeds) == 1 else path.parent / f"seed{seed}" for seed in seeds]
    how = override(Launch(), {**facts, **said})
    check_launch(how)
    configs = [replace(config, seed=seed) for seed in seeds]
    for each, expected in zip(paths, configs, strict=True):
        if each == path or not is_run(each):
            continue
        launched = read_toml(each / "launch.toml").get("seeds_in_one_program")
        if (read_config(each / "config.toml"), launched) != (expected, seeds):
            raise UserError(f"{path} shared its program with {each}, which is another run now: it can't go on alone")
    return Group(configs, paths, how)


def known_environment(config: RunConfig[Any, Any]) -> AnyEnvironment:
    if not environments.is_known(config.env):
        raise UserError(f"{config.env} was an environment of your own: call fqf.resume(RUN, environment)")
    return environments.make(config.env, config.environment)
