"""`fqf evaluate | record | scores | environments`: what a trained policy does, and where it can be trained."""

import dataclasses
import json
import textwrap
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from fqf import environments
from fqf.config import RunConfig
from fqf.errors import UserError
from fqf.evaluation import Scores
from fqf.options import EvaluateOptions, RecordOptions, ScoresOptions, parse
from fqf.report.scores import TABLE, aggregate, human_normalized, protocol_words
from fqf.rundir import append_evaluation
from fqf.trained import check_play, load
from fqf.trained import evaluate as score


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


def show_scores(config: RunConfig[Any, Any], epsilon: float, scores: Scores) -> None:
    table = Table("mean", "median", "minimum", "maximum", "mean length", "episodes", box=None)
    table.add_row(*(f"{value:.4g}" for value in scores))
    console = Console(highlight=False)
    console.print(f"{config.agent} on {config.env}, seed {config.seed}, epsilon {epsilon:g}:")
    console.print(table)
    family, _, game = config.env.partition("/")
    if family == "atari" and (percent := human_normalized(game, scores.mean)) is not None:
        console.print(f"mean, human-normalised: {percent:.4g} % ({TABLE})")


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


def score_line(score: dict[str, Any]) -> str:
    """An Atari run's score by its protocol, and beside which table."""

    def with_percent(name: str) -> str:
        value, percent = score[name], score["human_normalized_percent"][name]
        if value is None:
            return f"{name} -"
        return f"{name} {value:.4g}" + ("" if percent is None else f" ({percent:.4g} % human)")

    values = f"{with_percent('last')}, {with_percent('best')}"
    return f"protocol {protocol_words(score)}; {score['of']}: {values}; table: {score['table']}"


def list_environments(arguments: list[str]) -> None:
    if arguments:
        raise UserError(f"fqf environments takes no options, but was given {' '.join(arguments)}")
    for family, names in environments.NAMES.items():
        print(f"{family} ({len(names)}):")
        for line in textwrap.wrap(", ".join(f"{family}/{name}" for name in names), 100, break_on_hyphens=False):
            print(f"  {line}")
    print("gym: gym/<id> for any Gymnasium environment with discrete actions, such as gym/LunarLander-v3;")
    print("  gym/my_module:MyEnv-v0 imports my_module first, which registers it")
