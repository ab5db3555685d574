"""The command line. A user's mistake ends in one line on standard error and exit code 2."""

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rich.console import Console
from rich.progress import track
from rich.prompt import Confirm
from rich.table import Table

from fqf import environments
from fqf.agents import AGENTS
from fqf.config import RunConfig, flatten, override, to_toml
from fqf.errors import Diverged, Interrupted, UserError, nearest
from fqf.evaluation import Scores
from fqf.options import EvaluateOptions, RecordOptions, ResumeOptions, ScoresOptions, parse, read_train_options
from fqf.report.scores import TABLE, aggregate, human_normalized
from fqf.results import Run
from fqf.rundir import Unfinished, append_evaluation, refuse_existing, run_path
from fqf.train import Launch, launch
from fqf.train import resume as go_on
from fqf.trained import check_play, load
from fqf.trained import evaluate as score

HELP = f"""\
usage: fqf COMMAND [options]

Fully Parameterized Quantile Function (FQF) for distributional reinforcement learning.

commands:
  train       train an agent:             fqf train --agent fqf --env classic/cartpole --seed 0
  resume      go on with a run that was stopped or killed:
                                          fqf resume runs/fqf/classic.cartpole/seed0
  evaluate    score a trained policy:     fqf evaluate runs/fqf/classic.cartpole/seed0
  record      watch it, as a moving GIF:  fqf record runs/fqf/classic.cartpole/seed0
  scores      Atari runs beside the published scores, human-normalised:
                                          fqf scores runs/fqf/atari.*/seed0
  environments
              list all of them
  fractions   compare FQF's fractions (proposed, frozen, uniform, random), everything else equal:
                                          fqf fractions --env minatar/breakout --seeds 3

agents:       {", ".join(AGENTS)}
environments: classic/cartpole, minatar/breakout, atari/pong, gym/LunarLander-v3, toy/exponential and more:
              fqf environments

`fqf COMMAND --help` lists every option of a command with its default.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, Callable[[list[str]], None]] = {
        "train": train,
        "resume": resume,
        "evaluate": evaluate,
        "record": record,
        "scores": scores,
        "environments": list_environments,
        "fractions": fractions,
    }
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    try:
        if arguments[0] not in commands:
            raise UserError(f"unknown command {arguments[0]!r}; {nearest(arguments[0], commands)}")
        commands[arguments[0]](arguments[1:])
    except UserError as error:
        print(f"fqf: {' '.join(str(error).split())}", file=sys.stderr)  # an environment's own words may be many lines
        return 2
    except Diverged as error:
        print(f"fqf: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"fqf: {error.strerror}: {error.filename}", file=sys.stderr)
        return 2
    except Interrupted as stop:
        print(f"fqf: {stop}", file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt:
        print("fqf: interrupted", file=sys.stderr)
        return 130
    return 0


def train(arguments: list[str]) -> None:
    options = read_train_options(arguments)
    try:
        runs = launch(options.run, options.launch)
    except Unfinished as found:
        if options.launch.seeds > 1 or not offered(options.run, found.path):
            raise
        runs = go_on([found.path], options.launch.quiet)
    report(options.run, options.launch.runs, runs)


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
    report(runs[0].policy.config, runs[0].path.parents[2], runs)


def fractions(arguments: list[str]) -> None:
    """The ablation that the paper leaves open: where do fractions have to come from?"""
    from fqf.report.figure import draw_curves  # late, as in train.py

    options = read_train_options(arguments, "fqf fractions")
    if any(re.match("--fractions(=|$)", argument) for argument in arguments):
        raise UserError("fqf fractions trains all kinds of fractions: leave --fractions out, or use fqf train")
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


def report(config: RunConfig[Any, Any], directory: Path, runs: list[Run]) -> None:
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


def score_line(score: dict[str, Any]) -> str:
    """An Atari run's score by its protocol, and beside which table."""

    def with_percent(name: str) -> str:
        value, percent = score[name], score["human_normalized_percent"][name]
        if value is None:
            return f"{name} -"
        return f"{name} {value:.4g}" + ("" if percent is None else f" ({percent:.4g} % human)")

    values = f"{with_percent('last')}, {with_percent('best')}"
    return f"protocol {protocol_words(score)}; {score['of']}: {values}; table: {score['table']}"


def protocol_words(score: dict[str, Any]) -> str:
    """Scores are comparable where these are the same."""
    changed = ", ".join(f"{name} {value}" for name, value in score["changed"].items())
    return f"{score['protocol']}{', but ' + changed if changed else ''}"


def _this_command() -> str:
    """How to call it again: by name if it is on the path, else by where it is."""
    if shutil.which("fqf") or Path(sys.argv[0]).name != "fqf":
        return "fqf"
    return os.path.relpath(sys.argv[0])


def evaluate(arguments: list[str]) -> None:
    names = [item.name for item in dataclasses.fields(EvaluateOptions)]
    options = parse(EvaluateOptions, "fqf evaluate", arguments, names)
    policy = load(options.run)
    config = policy.config
    epsilon = config.evaluation_epsilon if options.epsilon is None else options.epsilon
    amount = f"{options.episodes} episodes" if options.episodes else "as in training"
    with Console(stderr=True).status(f"playing {config.env}, {amount} ..."):
        scores = score(policy, None, options.episodes, epsilon, options.seed)
    labels = {"step": config.steps, "source": "evaluate", "seed": options.seed, "epsilon": epsilon}
    append_evaluation(options.run, labels, scores)
    show_scores(config, epsilon, scores)


def record(arguments: list[str]) -> None:
    from fqf.record import play  # late, as in train.py
    from fqf.report.video import write_gif

    options = parse(RecordOptions, "fqf record", arguments, [item.name for item in dataclasses.fields(RecordOptions)])
    policy = load(options.run)
    config = policy.config
    epsilon = check_play(config, None, options.epsilon, options.seed)
    if options.max_steps < 1:
        raise UserError(f"max_steps is {options.max_steps}, but must be at least 1")
    target = options.out or options.run / "episode.gif"
    if target.suffix.lower() != ".gif":
        raise UserError(f"{target} is to be a moving GIF: name it {target.with_suffix('.gif')}")
    environment = environments.make(config.env, config.environment)
    moments = play(policy, environment, epsilon, options.seed, options.max_steps)
    watched = track(moments, "recording", total=None, console=Console(stderr=True), transient=True)
    milliseconds = 67 if environments.family(config.env) == "atari" else 50  # 15 a second: four frames of sixty each
    count = write_gif(watched, f"{config.agent} on {config.env}, seed {config.seed}", target, milliseconds)
    print(f"{count} steps in {target}")


def scores(arguments: list[str]) -> None:
    options = parse(ScoresOptions, "fqf scores", arguments, ["runs"])
    if not options.runs:
        raise UserError("name at least one run directory, such as runs/fqf/atari.pong/seed0")
    table = Table("run", "protocol", "of", "last", "best", "last, % human", "best, % human", box=None)
    last: dict[str, dict[str, list[float]]] = {}
    for path in options.runs:
        summary = read_summary(path)
        score = summary.get("score")
        if score is None:
            raise UserError(f"{path} is not an Atari run: there is no published score to put beside it")
        percent = score["human_normalized_percent"]
        values = (score["last"], score["best"], percent["last"], percent["best"])
        table.add_row(
            str(path),
            protocol_words(score),
            score["of"],
            *("-" if value is None else f"{value:.4g}" for value in values),
        )
        if score["last"] is not None:
            alike = f"{summary['agent']}, {protocol_words(score)}"
            last.setdefault(alike, {}).setdefault(summary["env"].split("/")[1], []).append(score["last"])
    console = Console(highlight=False, width=240)  # paths are to be copied, so they are not cut
    console.print(table)
    for alike, games in last.items():
        total = aggregate({game: sum(values) / len(values) for game, values in games.items()})
        if total.games:
            console.print(
                f"{alike}: mean {total.mean:.4g} %, median {total.median:.4g} %, "
                f"above human in {total.above_human} of {total.games} games"
            )
    console.print(f"human and random scores: {TABLE}")


def read_summary(path: Path) -> dict[str, Any]:
    try:
        return json.loads((path / "summary.json").read_text())
    except (OSError, ValueError):
        raise UserError(f"{path} holds no finished run: there is no readable {path / 'summary.json'}") from None


def list_environments(arguments: list[str]) -> None:
    if arguments:
        raise UserError(f"fqf environments takes no options, but was given {' '.join(arguments)}")
    for family, names in environments.NAMES.items():
        print(f"{family} ({len(names)}):")
        for line in textwrap.wrap(", ".join(f"{family}/{name}" for name in names), 100, break_on_hyphens=False):
            print(f"  {line}")
    print("gym: gym/<id> for any Gymnasium environment with discrete actions, such as gym/LunarLander-v3;")
    print("  gym/my_module:MyEnv-v0 imports my_module first, which registers it")


def show_scores(config: RunConfig[Any, Any], epsilon: float, scores: Scores) -> None:
    table = Table("mean", "median", "minimum", "maximum", "mean length", "episodes", box=None)
    table.add_row(*(f"{value:.4g}" for value in scores))
    console = Console(highlight=False)
    console.print(f"{config.agent} on {config.env}, seed {config.seed}, epsilon {epsilon:g}:")
    console.print(table)
    family, _, game = config.env.partition("/")
    if family == "atari" and (percent := human_normalized(game, scores.mean)) is not None:
        console.print(f"mean, human-normalised: {percent:.4g} % ({TABLE})")


if __name__ == "__main__":
    sys.exit(main())
