"""`fqf suite`: a plan, by name, file or flags; run it, go on with it, look at it, or hand it to a job queue."""

import dataclasses
import shlex
import shutil
import signal
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from fqf.config import RunConfig
from fqf.errors import Incomplete, Interrupted, UserError
from fqf.files import Lock, write_whole
from fqf.options import parse
from fqf.rundir import is_finished
from fqf.signals import heeding_signals
from fqf.suite.cluster import cluster, make_order, ray_executor
from fqf.suite.estimate import costs, totals
from fqf.suite.orders import frame_skip, job_line, not_collected, refuse_other_runs, resolve, train_arguments
from fqf.suite.plan import Plan, SuiteRun, expand, find_plan, make_plan, ready_made
from fqf.suite.scheduler import Ended, Executor, schedule
from fqf.suite.screen import Screen, cost_table, size_text, summary_line, table
from fqf.suite.state import Journal, Status, examine, journal_path, position, read_journal

Configs = Mapping[SuiteRun, RunConfig[Any, Any]]


@dataclass(frozen=True)
class SuiteOptions:
    """Train a grid of agents, environments and seeds. Say it again after any stop: finished runs are skipped, others
    go on from their last checkpoint. `fqf suite status PLAN` shows where it is."""

    plan: tyro.conf.Positional[str] = ""
    """Plan that comes with fqf (atari55, atari6, fractions, minatar, smoke), or a TOML file; flags change it."""
    runs: Path = Path("runs")
    """Directory of all runs; on a cluster, one that all nodes see."""
    agents: str | None = None
    """Agents, with commas between them."""
    envs: str | None = None
    """Environments, with commas between them."""
    seeds: int | None = None
    """How many seeds, from 0 on."""
    steps: int | None = None
    """Agent steps of every run."""
    options: tuple[str, ...] = ()
    """Options of `fqf train` for all runs, such as num_fractions=8 learning_rate=1e-4."""
    track: str | None = None
    """Tracker of every run, as in `fqf train`."""
    cpus: int | None = None
    """Cores of every run."""
    memory_gb: float | None = None
    """Memory of every run."""
    gpus: float | None = None
    """GPUs of every run; half a one is 0.5."""
    retries: int | None = None
    """How often a run that failed is started again, from its last checkpoint."""
    collected: tuple[Path, ...] = ()
    """Files of collected scores, such as results/agents.csv; finished runs that they have are not run again."""
    address: str | None = None
    """Ray cluster to join, such as auto or 10.0.0.1:6379; if not given, Ray starts on this machine."""
    dry_run: bool = False
    """Print the runs, what they ask for and what they will cost; start nothing."""
    jobs: Path | None = None
    """Write one command per run into this file, for job queues such as SLURM's; start nothing."""
    quiet: bool = False
    """No table, only what goes wrong."""


@dataclass(frozen=True)
class StatusOptions:
    """Show where a grid is, from its run directories alone."""

    plan: tyro.conf.Positional[str] = ""
    """Plan, as `fqf suite` takes it, or the directory of runs; if not given, every plan that was started in RUNS."""
    runs: Path = Path("runs")
    """Directory of all runs."""


def suite(arguments: list[str]) -> None:
    if arguments[:1] == ["status"]:
        show_status(parse_options(StatusOptions, "fqf suite status", arguments[1:]))
        return
    options: SuiteOptions = parse_options(SuiteOptions, "fqf suite", arguments)
    plan = read_plan(options)
    configs = without_collected(resolve(expand(plan), f"plan {plan.name}"), options)
    if not configs:
        return
    runs = options.runs.absolute()
    refuse_other_runs(configs, runs)
    if options.dry_run:
        show_costs(plan, configs, runs)
    elif options.jobs is not None:
        write_jobs(options.jobs, tuple(configs), runs)
    else:
        run_suite(plan, configs, runs, options, shlex.join(["fqf", "suite", *arguments]))


def parse_options(kind: Any, prog: str, arguments: list[str]) -> Any:
    return parse(kind, prog, arguments, [item.name for item in dataclasses.fields(kind)])


def read_plan(options: SuiteOptions) -> Plan:
    """What the file says, and over it what the flags say."""
    name, said = find_plan(options.plan) if options.plan else ("grid", {})
    source = f"plan {options.plan}" if options.plan else "the command line"
    flags = ("agents", "envs", "seeds", "steps", "cpus", "memory_gb", "gpus", "retries")
    said |= {flag: value for flag in flags if (value := getattr(options, flag)) is not None}
    chosen = dict(map(read_option, options.options)) | ({"track": options.track} if options.track else {})
    if not chosen:
        return make_plan(name, said, source)
    plan = make_plan(name, said, source)
    refuse_hidden(plan, chosen, source)
    return make_plan(name, said | {"options": {**plan.options, **chosen}}, source)


def refuse_hidden(plan: Plan, chosen: Mapping[str, Any], source: str) -> None:
    """What a variant, an agent or an environment sets for itself goes before an option for all."""
    variants = {f"variants.{name}": options for name, options in plan.variants.items()}
    narrower = dict(variants)
    for where, layer in {"options": plan.options, **variants}.items():
        narrower |= {f"{where}.{key}": value for key, value in layer.items() if isinstance(value, Mapping)}
    for where, layer in narrower.items():
        for option in chosen:
            if option in layer:
                raise UserError(f"--options {option} would do nothing where {where} in {source} sets it: copy the plan")


def read_option(text: str) -> tuple[str, Any]:
    """name=value, the value as in TOML, or a word."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"option {text!r} must be name=value, such as num_fractions=8")
    try:
        return name.replace("-", "_"), tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name.replace("-", "_"), value


def without_collected(configs: Configs, options: SuiteOptions) -> Configs:
    left = not_collected(configs, options.collected)
    if there := len(configs) - len(left):
        which = f"{there:,} of the plan's runs are" if left else f"all {there:,} runs of the plan are"
        said = f"{which} in files of scores, and are not run again"
        Console(stderr=True, quiet=options.quiet, soft_wrap=True).print(said, highlight=False)
    return left


def frames_of(configs: Configs) -> Callable[[SuiteRun], int]:
    return lambda run: frame_skip(configs[run])


# Running


def run_suite(plan: Plan, configs: Configs, runs: Path, options: SuiteOptions, again: str) -> None:
    """`again` is the command that goes on with it."""
    todo = [run for run in configs if not is_finished(runs / run.id)]
    told = Console(stderr=True, quiet=options.quiet)
    told.print(f"{plan.name}: {len(configs):,} runs, {len(configs) - len(todo):,} of them finished", highlight=False)
    directory, received, finished, unfit = journal_path(runs, plan.name), 0, 0, ""
    if todo:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.callback(Lock(directory).release)
            ray = stack.enter_context(cluster(options.address))
            executor = ray_executor(
                ray,
                plan.resources,
                lambda run: make_order(
                    run, ["-m", "fqf.cli", *train_arguments(run, runs)], runs, directory, plan.resources
                ),
            )
            journal = Journal(directory, plan)
            stack.callback(journal.close)
            received, finished, unfit = follow(plan, configs, todo, runs, executor, journal, options.quiet)
    events = read_journal(directory)
    statuses = [examine(run, runs, events.get(run.id)) for run in configs]
    if not options.quiet:
        show(plan.name, statuses, frames_of(configs))
    if unfit:
        raise UserError(f"{unfit}; the runs of other nodes were saved and stopped; once it is mended, go on: {again}")
    if received and finished < len(configs):
        counted = f"{finished:,} of {len(configs):,} runs are finished"
        raise Interrupted(received, f"stopped by {signal.Signals(received).name}; {counted}; go on: {again}")
    wrong = [status for status in statuses if status.state != "finished"]
    if wrong:
        why = f": {wrong[0].message}" if wrong[0].message else ""
        first = f"{wrong[0].run.id} {wrong[0].state}{why}"
        raise Incomplete(f"{len(wrong):,} of {len(statuses):,} runs did not finish; the first: {first}")


def follow(
    plan: Plan,
    configs: Configs,
    todo: Sequence[SuiteRun],
    runs: Path,
    executor: Executor,
    journal: Journal,
    quiet: bool,
) -> tuple[int, int, str]:
    """Until all runs have ended, or somebody stops the suite: by which signal, how many runs are finished, and what is
    wrong with a node that can't run any."""
    statuses = {run: examine(run, runs, None) for run in configs}
    flying: set[SuiteRun] = set()
    finished, unfit = len(configs) - len(todo), ""

    def current() -> Sequence[Status]:
        """Only those that change are read again."""
        for run in flying:
            statuses[run] = examine(run, runs, None, flying=True)
        return list(statuses.values())

    def tell(ended: Ended) -> None:
        nonlocal finished, unfit
        finished += ended.verdict == "finished"
        unfit = ended.outcome.message if ended.outcome.unfit else unfit
        journal.tell(ended)
        event = {"verdict": ended.verdict, "message": ended.outcome.message}
        statuses[ended.run] = examine(ended.run, runs, event)
        screen.ended(ended, finished, len(configs))

    def end_early() -> None:
        screen.warn("stopping: every run saves and ends; once more to stop at once, without")

    def look(now: list[SuiteRun]) -> None:
        flying.clear()
        flying.update(now)
        screen.look()

    with (
        Screen(plan.name, frames_of(configs), current, executor.slots, quiet) as screen,
        heeding_signals(end_early) as received,
    ):
        schedule(
            todo,
            executor,
            plan.retries,
            lambda run: position(runs / run.id),
            tell,
            look,
            lambda: bool(received or unfit),
        )
    return received[0] if received else 0, finished, unfit


# Looking, planning, handing over


def show_status(options: StatusOptions) -> None:
    for plan, runs in plans_at(options):
        configs = resolve(expand(plan), f"plan {plan.name}")
        events = read_journal(journal_path(runs, plan.name))
        show(plan.name, [examine(run, runs, events.get(run.id)) for run in configs], frames_of(configs))


def plans_at(options: StatusOptions) -> list[tuple[Plan, Path]]:
    if options.plan in ready_made() or (options.plan and not Path(options.plan).is_dir()):
        name, said = find_plan(options.plan)
        return [(make_plan(name, said, f"plan {options.plan}"), options.runs.absolute())]
    runs = Path(options.plan or options.runs)
    found = sorted((runs / "suite").glob("*/plan.toml"))
    if not found:
        raise UserError(f"no suite was started in {runs}: name the plan, or the directory given as --runs")
    named = [(path.parent.name, find_plan(str(path))[1]) for path in found]
    return [(make_plan(name, said, f"plan {name}"), runs.absolute()) for name, said in named]


def show(name: str, statuses: Sequence[Status], frames: Callable[[SuiteRun], int]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    running = sum(status.state == "running" for status in statuses)
    console.print(table(statuses, frames))
    console.print(summary_line(name, statuses, running))


def show_costs(plan: Plan, configs: Configs, runs: Path) -> None:
    """What would be done, and what it costs as far as anybody has measured."""
    events = read_journal(journal_path(runs, plan.name))
    statuses = {run: examine(run, runs, events.get(run.id)) for run in configs}
    found = costs(configs, statuses, runs, plan.resources)
    console = Console(highlight=False, markup=False, soft_wrap=True, width=240)
    console.print(cost_table(found))
    finished = sum(status.state == "finished" for status in statuses.values())
    each, (cpu, gpu, unknown) = plan.resources, totals(found, plan.resources)
    console.print(f"\n{len(configs):,} runs, {finished:,} of them finished, in {runs}")
    console.print(f"each asks for {each.cpus} CPUs, {each.memory_gb:g} GB of memory, {each.gpus:g} GPUs")
    lacking = f", and {unknown:,} runs whose speed nobody has measured" if unknown else ""
    console.print(f"left: {cpu:,.2f} CPU hours, {gpu:,.2f} GPU hours{lacking}")
    largest = max(cost.checkpoint_bytes for cost in found)
    console.print(f"disk: up to {size_text(largest)} of checkpoints for every run in flight; they go when it finishes")
    kept = [cost.kept_bytes * len(cost.runs) for cost in found if cost.kept_bytes is not None]
    console.print(
        f"      what stays of all of them: {size_text(sum(kept))}, by those that have finished"
        if len(kept) == len(found)
        else "      what stays of a finished run is a few MB: logs, evaluations, a policy"
    )


def write_jobs(path: Path, todo: Sequence[SuiteRun], runs: Path) -> None:
    """Lines keep their numbers however much is finished, so that an array of jobs can be submitted again."""
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(f"can't write jobs into {path}: name a file in a directory that is there, such as jobs.txt")
    command = ["fqf"] if shutil.which("fqf") else [sys.executable, "-m", "fqf.cli"]
    write_whole(path, "".join(f"{job_line(run, runs, command)}\n" for run in todo).encode())
    print(
        f"{len(todo):,} commands in {path}; each can be given again after a stop, and does nothing once it has finished"
    )
