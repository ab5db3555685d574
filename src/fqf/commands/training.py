"""`fqf train | resume | fractions`: runs that are begun, gone on with, or compared."""

import dataclasses
import importlib.util
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rich.console import Console
from rich.prompt import Confirm
from rich.table import Table

from fqf import environments
from fqf.agents import AGENTS
from fqf.commands.playing import read_summary, score_line
from fqf.config import RunConfig, flatten, override, to_toml
from fqf.errors import UserError
from fqf.options import ResumeOptions, TrainOptions, parse, read_train_options
from fqf.results import Run
from fqf.rundir import Unfinished, is_finished, is_run, other_options, refuse_existing, run_path
from fqf.train import Launch, launch, tidy
from fqf.train import resume as go_on


def train(arguments: list[str]) -> None:
    options = read_train_options(arguments)
    if options.resume and (path := already_there(options)) is not None:
        if is_finished(path):
            tidy([path])
            print(f"{path} is finished")
            return
        runs = go_on([path], options.launch.quiet, track=options.launch.track)
    else:
        try:
            runs = launch(options.run, options.launch)
        except Unfinished as found:
            if options.launch.seeds > 1 or not offered(options.run, found.path):
                raise
            runs = go_on([found.path], options.launch.quiet)
    tell(options.run, options.launch.runs, runs)


def already_there(options: TrainOptions[Any, Any]) -> Path | None:
    """The directory of the very run that is asked for, if it was begun."""
    if options.launch.seeds > 1 or options.launch.overwrite:
        raise UserError("--resume is for one seed, and does not replace it: leave out --seeds and --overwrite")
    path = run_path(options.launch.runs, options.run)
    if not is_run(path):
        return None
    if difference := other_options(path, options.run):
        raise UserError(f"{path} holds a run with other options, so it can't be resumed: {difference}")
    return path


def offered(config: RunConfig[Any, Any], path: Path) -> bool:
    """Ask whether to go on with an unfinished run, if it is the very one that was asked for, and somebody is there."""
    if not sys.stdin.isatty() or (path / "config.toml").read_text() != to_toml(config):
        return False
    try:
        return Confirm.ask(f"{path} holds an unfinished run. Go on with it?")
    except EOFError:
        return False


def resume(arguments: list[str]) -> None:
    options = parse(ResumeOptions, "fqf resume", arguments, [item.name for item in dataclasses.fields(ResumeOptions)])
    if not options.runs:
        raise UserError("name at least one run directory, such as runs/fqf/classic.cartpole/seed0")
    runs = go_on(options.runs, options.quiet)
    tell(runs[0].policy.config, runs[0].path.parents[2], runs)


def fractions(arguments: list[str]) -> None:
    """The ablation that the paper leaves open: where do fractions have to come from?"""
    from fqf.report.figure import draw_curves  # late, as in train.py

    options = read_train_options(arguments, "fqf fractions")
    if any(re.match("--fractions(=|$)", argument) for argument in arguments):
        raise UserError("fqf fractions trains all kinds of fractions: leave --fractions out, or use fqf train")
    if options.resume:
        raise UserError("fqf fractions does not resume; `fqf suite fractions` trains the same comparison and does")
    if "fractions" not in flatten(options.run):
        owners = [agent for agent, entry in AGENTS.items() if "fractions" in flatten(entry.config)]
        raise UserError(f"{options.run.agent} has no fractions to choose; agents that have: {', '.join(owners)}")
    kinds = get_args(get_type_hints(type(options.run.algorithm))["fractions"])
    configs = {kind: override(options.run, {"fractions": kind}) for kind in kinds}
    launches = {kind: replace(options.launch, runs=options.launch.runs / "fractions" / kind) for kind in kinds}
    for kind, config in configs.items():  # all of them before the first hour is spent
        for seed in range(config.seed, config.seed + options.launch.seeds):
            refuse_existing(run_path(launches[kind].runs, replace(config, seed=seed)), options.launch.overwrite)
    runs = {kind: launch(config, launches[kind]) for kind, config in configs.items()}
    table = Table("fractions", "final return, mean over seeds", "smallest", "largest", box=None)
    for kind, group in runs.items():
        scores = [run.after.mean for run in group]
        table.add_row(kind, *(f"{value:.4g}" for value in (sum(scores) / len(scores), min(scores), max(scores))))
    Console(highlight=False).print(table)
    name = f"{options.run.agent}.{options.run.env.replace('/', '.')}.png"
    paths = {kind: [run.path for run in group] for kind, group in runs.items()}
    print(f"\npicture:   {draw_curves(paths, options.launch.runs / 'fractions' / name)}")


def tell(config: RunConfig[Any, Any], directory: Path, runs: list[Run]) -> None:
    """A plain summary: what was gained, where it is, what to try next."""
    command = _this_command()
    print(f"\n{config.agent} on {config.env}, {runs[0].after.episodes} evaluation episodes each:")
    for run in runs:
        after = f"{run.after.mean:.4g} (from {run.after.minimum:.4g} to {run.after.maximum:.4g})"
        print(f"  seed {run.policy.config.seed}: return before {run.before.mean:.4g}, after {after}, in {run.path}")
        if environments.family(config.env) == "atari":
            print(f"    {score_line(read_summary(run.path)['score'])}")
    print(f"\npicture:   {runs[0].path / 'figure.png'}")
    print(f"try next:  {command} evaluate {runs[0].path}")
    if importlib.util.find_spec("tensorboard"):
        print(f"           {command.removesuffix('fqf')}tensorboard --logdir {directory}")
    other = "minatar/asterix" if config.env == "minatar/breakout" else "minatar/breakout"
    elsewhere = "" if directory == Launch().runs else f" --runs {directory}"
    print(f"           {command} train --agent {config.agent} --env {other} --seeds 3{elsewhere}")


def _this_command() -> str:
    """How to call it again: by name if it is on the path, else by where it is."""
    if shutil.which("fqf") or Path(sys.argv[0]).name != "fqf":
        return "fqf"
    return os.path.relpath(sys.argv[0])
