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
from fqf.paper.runs import cells_of, chosen, how_scored, read_runs, refuse_mixed, seeds_in_words
from fqf.paper.style import COLUMN_INCHES, Look, agent_name, draw, game_name, looks, write_csv
from fqf.report.analysis import games_of
from fqf.report.plots import count, on_common_steps
from fqf.report.records import RunRecord

SMOOTH, EVALUATIONS = 10, 200
"""The paper's moving average, and of how many evaluations: one every million frames."""


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
    """Evaluations in a moving average; the paper: 10, of 200. If not given, 10, or a twentieth of what there is."""


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
    found, left_out = read_runs(options.runs, "agents")
    runs, missing = chosen(found, options.agents)
    refuse_mixed(runs, "figure")
    smooth = options.smooth if options.smooth is not None else usual_smooth(runs)
    if smooth < 1:
        raise UserError(f"smooth is {smooth}, but must be at least 1")
    cells = cells_of(runs)
    envs = games_of(cells)
    order = options.agents.replace(" ", "").split(",")
    labels = sorted(cells, key=lambda label: order.index(label.split()[0]) if options.agents != "all" else 0)
    curves = {
        env: {label: average(games[env], smooth) for label, games in cells.items() if env in games} for env in envs
    }
    rows = [
        (env, label, *map(number, point), curve.seeds)
        for env, found_curves in curves.items()
        for label, curve in found_curves.items()
        for point in zip(*curve[:-1], strict=True)
    ]
    write_csv(options.out / "curves.csv", ("env", "agent", *Averaged._fields), rows)
    counts = seeds_in_words(len(seeds) for games in cells.values() for seeds in games.values())
    words = "not smoothed" if smooth == 1 else f"moving average of {smooth} evaluations"
    draw_curves(curves, labels, f"mean and range of {counts}, {words}", options.out)
    said = [f"{how_scored(runs)} of {count(len(runs), 'run')}, mean and range of {counts}"]
    said += [f"{words}, each with those before it" if smooth > 1 else words]
    said += [f"no runs of {agent}" for agent in missing]
    said += [f"no run of {label} on {env}" for label, games in cells.items() for env in envs if env not in games]
    said += [
        f"{run.path} is not finished: its agent's curve ends at {run.curve.steps[-1]:,} steps"
        for run in runs
        if not run.finished
    ]
    said += [f"left out: {each}" for each in left_out]
    return "; ".join(said)


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
    """As far as all seeds go, so that every point is of the same runs."""
    steps, scores = on_common_steps(runs)
    whole = np.isfinite(scores).all(axis=0)
    steps, rows = steps[whole], smoothed(scores[:, whole], smooth)
    frames = steps * runs[0].frame_skip
    return Averaged(steps, frames, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0), len(runs))


def number(value: np.generic) -> int | float:
    return value.item()


def draw_curves(curves: Mapping[str, Mapping[str, Averaged]], labels: Sequence[str], words: str, out: Path) -> None:
    """Two games beside each other in a column; more than six take the width of a page."""
    across = 2 if len(curves) <= 6 else 3
    down = -(-len(curves) // across)
    style = looks(labels)
    atari = all(env.startswith("atari/") for env in curves)
    unit = "million frames" if atari else "thousand agent steps"
    among_games = len(curves) < across * down and len(labels) <= 6  # is there room for the legend?

    def paint(figure: Figure) -> None:
        axes = figure.subplots(down, across, squeeze=False)
        for axis, (env, found) in zip(axes.flat, curves.items(), strict=False):
            draw_game(axis, found, style, atari)
            axis.set_title(game_name(env))
        for axis in axes.flat[len(curves) :]:
            axis.set_axis_off()
        for axis in axes[:, 0]:
            axis.set_ylabel("score")
        lines = [Line2D([], [], **look._asdict(), markersize=3, linewidth=1) for look in style.values()]
        where: dict[str, Any] = {"loc": "outside upper center", "ncols": 3}
        if among_games:
            where = {"loc": "center", "bbox_to_anchor": (0.5, 0.5), "bbox_transform": axes.flat[-1].transAxes}
        figure.legend(lines, [agent_name(label) for label in labels], frameon=False, **where)
        figure.supxlabel(f"{unit}\n{words}", fontsize=7)

    rows = 0 if among_games else -(-len(labels) // 3)
    height = 1.15 * down + 0.6 + 0.15 * rows
    draw(height, paint, out, "curves", COLUMN_INCHES if across == 2 else 2 * COLUMN_INCHES)


def draw_game(axis: Axes, found: Mapping[str, Averaged], style: Mapping[str, Look], atari: bool) -> None:
    for label, curve in found.items():
        where = curve.frames / 1e6 if atari else curve.steps / 1e3
        look, every = style[label], max(1, len(where) // 6)
        axis.fill_between(where, curve.low, curve.high, color=look.color, alpha=0.18, linewidth=0)
        axis.plot(where, curve.mean, **look._asdict(), linewidth=1, markersize=3, markevery=every)
    axis.set_xlim(left=0)
    axis.grid(alpha=0.25, linewidth=0.5)
