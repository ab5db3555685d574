"""What a run of a grid is in full: its config, the arguments of `fqf train` for it, and a line for a job queue."""

import json
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fqf.agents import check_names
from fqf.config import RunConfig, check, flatten, override, to_toml
from fqf.errors import UserError
from fqf.options import refuse_without_effect
from fqf.presets import preset
from fqf.report.collected import read_collected
from fqf.rundir import is_run, other_options
from fqf.suite.plan import SuiteRun
from fqf.train import Launch, check_launch


def resolve(runs: Sequence[SuiteRun], source: str) -> dict[SuiteRun, RunConfig[Any, Any]]:
    """The config of every run, as `fqf train` will read it; refuses what it would refuse, before anything starts."""
    made: dict[SuiteRun, RunConfig[Any, Any]] = {}
    configs: dict[SuiteRun, RunConfig[Any, Any]] = {}
    for run in runs:
        alike = replace(run, seed=0)
        if alike not in made:
            made[alike] = _config(alike, source)
        configs[run] = replace(made[alike], seed=run.seed)
        check(configs[run])
    return configs


def _config(run: SuiteRun, source: str) -> RunConfig[Any, Any]:
    options = dict(run.options)
    config = preset(run.agent, run.env, options.get("protocol"))
    try:
        check_names(options, {**flatten(config), **flatten(Launch())}, source)
        config = override(config, options | {"steps": run.steps})
        check_launch(override(Launch(), options))
        check(config)
        refuse_without_effect(config, option_flags(options))
    except UserError as error:
        raise UserError(f"{run.agent} on {run.env}: {error}") from None
    return config


def refuse_other_runs(configs: Mapping[SuiteRun, RunConfig[Any, Any]], runs: Path) -> None:
    """A directory that holds something else than the plan says would be counted for what it is not."""
    for run, config in configs.items():
        path = runs / run.id
        if is_run(path) and (difference := other_options(path, config)):
            raise UserError(
                f"{path} holds a run with other options than the plan's: {difference}; choose another --runs"
            )


def not_collected(
    configs: Mapping[SuiteRun, RunConfig[Any, Any]], files: Iterable[Path]
) -> dict[SuiteRun, RunConfig[Any, Any]]:
    """What is left of a grid when the finished runs of some files of collected scores are taken out. A run is its
    config, so it does not matter where it was, or whether its directory is still there."""
    there = set()
    for file in files:
        records, unreadable = read_collected(file)
        there |= {canonical(record.config) for record in records if record.finished}
        for each in unreadable:
            raise UserError(f"{each.path}: {each.why}")
    if not there:
        return dict(configs)
    return {run: config for run, config in configs.items() if canonical(tomllib.loads(to_toml(config))) not in there}


def canonical(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def train_arguments(run: SuiteRun, runs: Path) -> list[str]:
    """Of a command that begins the run, goes on with it, or finds it finished."""
    chosen = ["--agent", run.agent, "--env", run.env, "--seed", str(run.seed), "--steps", str(run.steps)]
    where = ["--runs", str(runs / run.variant), "--resume", "--quiet"]
    return ["train", *chosen, *option_flags(dict(run.options)), *where]


def option_flags(options: Mapping[str, Any]) -> list[str]:
    """As `fqf train` takes them."""
    flags: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, tuple | list):
            flags += [f"--{flag}", *map(str, value)]
        else:
            flags.append(f"--{flag}={value}")
    return flags


def job_line(run: SuiteRun, runs: Path, command: Sequence[str]) -> str:
    """One shell command; run again after a stop of any kind, it goes on."""
    return shlex.join([*command, *train_arguments(run, runs)])


def frame_skip(config: RunConfig[Any, Any]) -> int:
    """Emulator frames per agent step."""
    return getattr(config.environment, "frame_skip", 1)
