"""What a report says about how its scores came about: settings, code, machines, time."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fqf.report.groups import NO_OPTIONS, PROTOCOL_OPTIONS, Cells, family, show
from fqf.report.records import RunRecord


def all_runs(cells: Cells) -> list[RunRecord]:
    return [run for games in cells.values() for runs in games.values() for run in runs]


def values(pairs: Iterable[tuple[str, str]]) -> str:
    """One value if all agree; else each, and whose it is."""
    owners: dict[str, list[str]] = {}
    for owner, value in pairs:
        if owner not in owners.setdefault(value, []):
            owners[value].append(owner)
    if len(owners) == 1:
        return next(iter(owners))
    return "; ".join(f"{value} ({', '.join(whose)})" for value, whose in owners.items())


def settings(cells: Cells) -> Iterator[tuple[str, str]]:
    """The protocol's options, as they are in the configs."""
    named = [(label, run) for label, games in cells.items() for each in games.values() for run in each]
    runs = all_runs(cells)
    for option in PROTOCOL_OPTIONS:
        if option == "steps" or has_no_effect(option, runs):
            continue
        found = [(label, counted(run.config[option])) for label, run in named if option in run.config]
        if found:
            yield option, values(found)


def counted(value: Any) -> str:
    return f"{value:,}" if type(value) is int else show(value)


def has_no_effect(option: str, runs: Sequence[RunRecord]) -> bool:
    """Compiled environments are evaluated by episodes, each on its own; emulators by steps, if so many are named."""
    emulated = any(family(run.env) in ("atari", "gym") for run in runs)
    if option == "evaluation_episodes":
        return emulated and all(run.config.get("evaluation_steps") for run in runs)
    return option in ("evaluation_steps", "evaluation_lanes") and not emulated


def budgets(cells: Cells) -> Iterator[tuple[str, str]]:
    """Agent steps and the frames they are; resets count as steps, so finished runs also say what was played."""
    runs = all_runs(cells)

    def words(run: RunRecord) -> str:
        return (
            f"{run.config['steps']:,} agent steps x {run.frame_skip} = {run.config['steps'] * run.frame_skip:,} frames"
        )

    yield "budget of a run", values((run.env, words(run)) for run in runs)
    played = [run.summary["frames"] for run in runs if "frames" in run.summary]
    if played:
        smallest, largest = min(played), max(played)
        span = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        yield "frames played by finished runs, resets not counted", span


def provenance(cells: Cells) -> Iterator[tuple[str, str]]:
    """From the summaries of finished runs, and the clocks of all."""
    runs = all_runs(cells)
    finished = [run for run in runs if run.finished]
    for name in ("commit", "device", "machine", "threads"):
        found = list(dict.fromkeys(show(run.summary.get(name)) for run in finished))
        if found:
            yield name, ", ".join(found)
    versions: dict[str, list[str]] = {}
    for run in finished:
        for package, version in run.summary.get("versions", {}).items():
            if str(version) not in versions.setdefault(str(package), []):
                versions[str(package)].append(str(version))
    if versions:
        yield "versions", ", ".join(f"{package} {' and '.join(each)}" for package, each in versions.items())
    seconds = [run.seconds for run in runs if run.seconds is not None]
    if seconds:
        each = f"{duration(min(seconds))} to {duration(max(seconds))}" if len(seconds) > 1 else duration(seconds[0])
        yield "wall-clock", f"{duration(sum(seconds))} in all, {each} a run"
    speeds = [run.summary["steps_per_second"] * run.frame_skip for run in finished if "seconds" in run.summary]
    if speeds:
        yield "frames per second, median of finished runs", f"{statistics.median(speeds):,.0f}"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def options(cells: Cells) -> list[tuple[str, dict[str, str]]]:
    """Every other option, by group: what the agents are."""
    configs: Mapping[str, Sequence[dict[str, Any]]] = {
        label: [run.config for runs in games.values() for run in runs] for label, games in cells.items()
    }
    names = dict.fromkeys(name for each in configs.values() for config in each for name in config)
    rows = []
    for name in names:
        if name in PROTOCOL_OPTIONS or name in NO_OPTIONS:
            continue
        found = {
            label: " or ".join(dict.fromkeys(show(config[name]) for config in each if name in config)) or "-"
            for label, each in configs.items()
        }
        rows.append((name, found))
    return rows
