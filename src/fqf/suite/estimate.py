"""What a grid will cost, from speeds that were measured: in its own run directories, or in the package's small table.
Where neither knows, nobody does."""

import csv
import functools
import importlib.resources
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from fqf import environments, learner
from fqf.agents import make_agent
from fqf.checkpoint import KEPT
from fqf.config import RunConfig, override
from fqf.parts import make_replay
from fqf.presets import preset
from fqf.resources import SHARED_ROWS, tree_bytes
from fqf.rundir import is_finished
from fqf.suite.orders import frame_skip
from fqf.suite.plan import Resources, SuiteRun
from fqf.suite.state import Status, last_timing


class Rate(NamedTuple):
    frames_per_second: float
    """Of runs that are there, over all of them; of the package's table, while they learn."""
    cpus: int
    """Cores that the run had."""
    source: str


class Cost(NamedTuple):
    """Of all runs that differ by their seed only."""

    runs: tuple[SuiteRun, ...]
    rate: Rate | None
    hours: float | None
    """What is left of all of them, one after the other."""
    checkpoint_bytes: int
    """On the disk while one of them runs."""
    kept_bytes: int | None
    """What one of them leaves, if one has finished."""


def groups(runs: Sequence[SuiteRun]) -> list[tuple[SuiteRun, ...]]:
    """Runs that differ by their seed only."""
    together: dict[SuiteRun, list[SuiteRun]] = {}
    for run in runs:
        together.setdefault(replace(run, seed=0), []).append(run)
    return [tuple(members) for members in together.values()]


def costs(
    configs: Mapping[SuiteRun, RunConfig[Any, Any]], statuses: Mapping[SuiteRun, Status], runs: Path, asked: Resources
) -> list[Cost]:
    """By runs that are there, which had what the plan asks for, or else by the package's table, which knows CPUs only.
    With fewer cores than the table's a run takes longer in proportion; that more would make it faster nobody knows."""
    found = []
    for members in groups(tuple(configs)):
        config = configs[members[0]]
        rate = measured(members[0], config, runs, asked.cpus)
        if rate is None and not asked.gpus and (rate := packaged(members[0], config)) and rate.cpus > asked.cpus:
            slower = rate.frames_per_second * asked.cpus / rate.cpus
            rate = Rate(slower, asked.cpus, f"in proportion to its {rate.cpus} cores: {rate.source}")
        left = sum(run.steps - statuses[run].step for run in members) * frame_skip(config)
        hours = 0.0 if not left else left / rate.frames_per_second / 3600 if rate else None
        kept = [_size(runs / run.id) for run in members if is_finished(runs / run.id)]
        found.append(
            Cost(members, rate, hours, checkpoint_bytes(config), int(statistics.median(kept)) if kept else None)
        )
    return found


def measured(run: SuiteRun, config: RunConfig[Any, Any], runs: Path, cpus: int) -> Rate | None:
    """By the runs of this agent, environment and variant that are there, whatever their seed."""
    timings = [last_timing(path) for path in sorted((runs / run.id).parent.glob("seed*"))]
    speeds = [step * frame_skip(config) / seconds for step, seconds in timings if step and seconds > 0]
    return Rate(statistics.median(speeds), cpus, f"{len(speeds)} of the runs in {runs}") if speeds else None


def packaged(run: SuiteRun, config: RunConfig[Any, Any]) -> Rate | None:
    """By the table of the package, where it has exactly these settings, but for the number of steps: on this
    environment, or else on another of its family, and then it says so."""
    rows = [row for row in _table() if row["agent"] == run.agent]
    rows = [row for row in rows if environments.family(row["env"]) == environments.family(run.env)]
    for row in sorted(rows, key=lambda row: row["env"] != run.env):
        options = tomllib.loads(row["options"].replace(";", "\n"))
        there = override(preset(run.agent, row["env"]), options)
        if override(config, {"steps": there.steps, "seed": there.seed, "env": there.env}) == there:
            elsewhere = "" if row["env"] == run.env else f"on {row['env']}; "
            source = f"{elsewhere}{row['command']} at {row['commit']}"
            return Rate(float(row["frames_per_second"]), int(row["cpus"]), source)
    return None


@functools.cache
def _table() -> list[dict[str, str]]:
    text = importlib.resources.files("fqf").joinpath("data/rates.csv").read_text()
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def checkpoint_bytes(config: RunConfig[Any, Any]) -> int:
    """As a run itself counts before it starts (resources.py), without what its logs may grow to."""
    environment = environments.make(config.env, config.environment)
    agent = make_agent(config, environment.spec)
    replay = tree_bytes(make_replay(config, environment.spec).init)
    learned = tree_bytes(lambda: learner.init(agent, jax.random.key(0)))
    return int(replay * SHARED_ROWS) + (KEPT + 1) * learned


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def seconds_left(statuses: Sequence[Status], rates: Mapping[SuiteRun, float], slots: int) -> float | None:
    """Of the whole grid, with so many runs at once. `rates` are steps per second by run without its seed; runs of which
    nobody knows the speed count as the average of the others; None if no speed is known."""
    if not rates or not slots:
        return None
    typical = len(rates) / sum(1 / rate for rate in rates.values())
    ongoing = [each for each in statuses if each.state in ("waiting", "running", "unfinished")]
    lasting = [(s.run.steps - s.step) / rates.get(replace(s.run, seed=0), typical) for s in ongoing]
    return max(sum(lasting) / slots, max(lasting, default=0.0))


def current_rates(statuses: Sequence[Status]) -> dict[SuiteRun, float]:
    """Steps per second by run without its seed, of those that have been running."""
    speeds: dict[SuiteRun, list[float]] = {}
    for status in statuses:
        if status.step and status.seconds > 0:
            speeds.setdefault(replace(status.run, seed=0), []).append(status.step / status.seconds)
    return {run: statistics.mean(values) for run, values in speeds.items()}


def totals(found: Sequence[Cost], resources: Resources) -> tuple[float, float, int]:
    """CPU hours and GPU hours of what is known, and how many runs are not."""
    known = [(cost.hours, cost.rate.cpus) for cost in found if cost.hours is not None and cost.rate is not None]
    unknown = sum(len(cost.runs) for cost in found if cost.hours is None)
    hours = sum((hours for hours, _ in known), 0.0)
    cpu_hours = sum((each * max(cpus, resources.cpus) for each, cpus in known), 0.0)
    return cpu_hours, hours * resources.gpus, unknown
