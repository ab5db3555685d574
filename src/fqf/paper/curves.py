"""Figure 2: learning curves of FQF and IQN, game by game, averaged over seeds and smoothed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fqf.errors import UserError
from fqf.paper.runs import cells_of, chosen, how_scored, read_runs, refuse_protocols, seeds_in_words
from fqf.paper.style import (
    COLUMN_INCHES,
    HANDLE_INCHES,
    Legend,
    Look,
    agent_name,
    draw,
    fit_legend,
    game_names,
    inches,
    looks,
    write_csv,
)
from fqf.report.analysis import games_of
from fqf.report.plots import count
from fqf.report.records import RunRecord

SMOOTH, EVALUATIONS = 10, 200
"""The paper's moving average; and of how many evaluations, which it does not say: one every million frames, as
Dopamine's iterations."""


@dataclass(frozen=True)
class Options:
    """The paper's figure 2: learning curves of FQF and IQN, game by game, averaged over seeds and smoothed."""

    out: Path = Path("paper")
    """Directory to write into."""
    runs: tuple[Path, ...] = ()
    """Runs, directories of them, or files of collected scores; results/agents.csv if not given."""
    agents: str = "fqf,iqn"
    """Whose curves, with commas between them, or all."""
    smooth: int | None = None
    """Evaluations in a moving average; the paper: 10. If not given, 10, or a twentieth of what there is."""


class Averaged(NamedTuple):
    """The curve of one agent on one game."""

    steps: np.ndarray
    frames: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """Range of the seeds."""
    seeds: int


def make(options: Options) -> str:
    found = read_runs(options.runs, "agents")
    runs, agents, missing = chosen(found.runs, options.agents)
    refuse_protocols(runs, "figure")
    if options.smooth is not None and options.smooth < 1:
        raise UserError(f"smooth is {options.smooth}, but must be at least 1")
    cells = cells_of(runs)
    envs = games_of(cells)
    labels = sorted(cells, key=lambda label: agents.index(label.split()[0]))
    smooth = {env: options.smooth or usual_smooth([run for run in runs if run.env == env]) for env in envs}
    curves = {
        env: {label: average(games[env], smooth[env]) for label, games in cells.items() if env in games} for env in envs
    }
    rows = [
        (env, label, *map(number, point), curve.seeds)
        for env, found_curves in curves.items()
        for label, curve in found_curves.items()
        for point in zip(*curve[:-1], strict=True)
    ]
    write_csv(options.out / "curves.csv", ("env", "agent", *Averaged._fields), rows)
    counts = seeds_in_words(len(seeds) for games in cells.values() for seeds in games.values())
    lines = counts if counts == "one seed" else f"mean and range of {counts}"
    words = smooth_words(list(smooth.values()))
    draw_curves(curves, labels, f"{lines}, {words}", options.out)
    said = [f"{found.places}: {how_scored(runs)} of {count(len(runs), 'run')}, {lines}"]
    said += [f"{words}, each with those before it" if max(smooth.values()) > 1 else words]
    said += [f"no runs of {agent}" for agent in missing]
    said += [f"no run of {label} on {env}" for label, games in cells.items() for env in envs if env not in games]
    said += [
        f"{run.path} is not finished: its agent's curve ends at {run.curve.steps[-1]:,} steps"
        for run in runs
        if not run.finished
    ]
    said += [words for games in cells.values() for seeds in games.values() for words in holes(seeds)]
    said += [f"left out: {each}" for each in found.left_out]
    return "; ".join(said)


def smooth_words(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    if most == 1:
        return "not smoothed"
    return f"moving average of {most if least == most else f'{least} to {most}'} evaluations"


def usual_smooth(runs: Sequence[RunRecord]) -> int:
    """The paper's share of a run: 10 where there are 200 evaluations or more, and none where there are a few."""
    most = max(len(run.curve.steps) for run in runs)
    return min(SMOOTH, max(1, most * SMOOTH // EVALUATIONS))


def smoothed(scores: np.ndarray, count: int) -> np.ndarray:
    """Moving average of every score and those before it; there are fewer of them at the start. [..., steps]"""
    sums = np.cumsum(np.pad(scores, [(0, 0)] * (scores.ndim - 1) + [(1, 0)]), axis=-1)
    ends = np.arange(1, scores.shape[-1] + 1)
    starts = np.maximum(0, ends - count)
    return (sums[..., ends] - sums[..., starts]) / (ends - starts)


def average(runs: Sequence[RunRecord], smooth: int) -> Averaged:
    """At the steps that all seeds have, so that every point is of the same runs, and none is made up."""
    scores = [dict(zip(*run.curve, strict=True)) for run in runs]
    steps = np.array(sorted(set.intersection(*map(set, scores))), int)
    if not len(steps):
        raise UserError(
            f"{runs[0].path} and the other seeds beside it have no step in common at which they were scored"
        )
    rows = smoothed(np.array([[each[step] for step in steps] for each in scores]), smooth)
    frames = steps * runs[0].frame_skip
    return Averaged(steps, frames, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0), len(runs))


def holes(runs: Sequence[RunRecord]) -> list[str]:
    """Where no episode of training ended between two reports, a run has no score that others have."""
    every = {step for run in runs for step in run.curve.steps}
    missing = {run.path: [step for step in every - {*run.curve.steps} if step < run.curve.steps[-1]] for run in runs}
    return [
        f"{path} has no score at {count(len(steps), 'step')} where other seeds have one: left out of the curve"
        for path, steps in missing.items()
        if steps
    ]


def number(value: np.generic) -> int | float:
    return value.item()


def draw_curves(curves: Mapping[str, Mapping[str, Averaged]], labels: Sequence[str], words: str, out: Path) -> None:
    """Two games beside each other in a column; more than six take the width of a page."""
    across = min(2, len(curves)) if len(curves) <= 6 else 3
    down = -(-len(curves) // across)
    style = looks(labels)
    atari = all(env.startswith("atari/") for env in curves)
    unit = "million frames" if atari else "thousand agent steps"
    width = COLUMN_INCHES if across <= 2 else 2 * COLUMN_INCHES
    titles, names = game_names(list(curves)), [agent_name(label) for label in labels]
    widest = HANDLE_INCHES + max(map(inches, names))
    among_games = len(curves) < across * down and len(names) <= 6 and widest < 0.8 * width / across
    legend = Legend(names, 1, 0) if among_games else fit_legend(names, width - 0.2)

    def paint(figure: Figure) -> None:
        axes = figure.subplots(down, across, squeeze=False)
        for axis, (env, found) in zip(axes.flat, curves.items(), strict=False):
            draw_game(axis, found, style, atari)
            axis.set_title(titles[env])
        for axis in axes.flat[len(curves) :]:
            axis.set_axis_off()
        for axis in axes[:, 0]:
            axis.set_ylabel("score")
        lines = [Line2D([], [], **look._asdict(), markersize=3, linewidth=1) for look in style.values()]
        where: dict[str, Any] = {"loc": "outside upper center"}
        if among_games:
            where = {"loc": "center", "bbox_to_anchor": (0.5, 0.5), "bbox_transform": axes.flat[-1].transAxes}
        figure.legend(lines, legend.names, ncols=legend.columns, frameon=False, **where)
        figure.supxlabel(f"{unit}\n{words}", fontsize=7)

    draw(1.15 * down + 0.6 + 0.15 * legend.lines, paint, out, "curves", width)


def draw_game(axis: Axes, found: Mapping[str, Averaged], style: Mapping[str, Look], atari: bool) -> None:
    for label, curve in found.items():
        where = curve.frames / 1e6 if atari else curve.steps / 1e3
        look, every = style[label], max(1, len(where) // 6)
        axis.fill_between(where, curve.low, curve.high, color=look.color, alpha=0.18, linewidth=0)
        axis.plot(where, curve.mean, **look._asdict(), linewidth=1, markersize=3, markevery=every)
    axis.set_xlim(left=0)
    axis.grid(alpha=0.25, linewidth=0.5)
