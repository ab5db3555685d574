"""The study's pictures, from the files that studies/study.py keeps: learning curves of all agents with what was
published of DQN, FQF and IQN at every N, and what fractions do while values are learned."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from study_fractions import ByKind, Logged

from fqf.paper.curves import average
from fqf.paper.runs import seeds_in_words
from fqf.paper.style import Look, agent_name, draw, game_name, looks
from fqf.report.analysis import games_of
from fqf.report.groups import Cells, natural
from fqf.report.records import RunRecord

PUBLISHED: dict[str, Any] = {"color": "#777777", "linewidth": 0.8, "linestyle": (0, (2, 2))}


class Published(NamedTuple):
    frames: int
    score: float


def read_published(path: Path) -> dict[str, list[Published]]:
    """By game: scores of DQN in the MinAtar paper, which has plots only: they were read off them."""
    found: dict[str, list[Published]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["source"].startswith("Young and Tian"):
                found.setdefault(row["env"], []).append(Published(int(row["frames"]), float(row["score"])))
    return found


def draw_agents(cells: Cells, published: Mapping[str, Sequence[Published]], out: Path, name: str) -> None:
    """Every game a panel as wide as the column: mean of the seeds, without bands, which nine agents would fill it with.
    FQF comes first, so that its line is the plainest, and on top."""
    envs = games_of(cells)
    labels = sorted(cells, key=lambda label: not label.startswith("fqf"))
    style = looks(labels)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(len(envs), 1, squeeze=False, sharex=True).flat
        for axis, env in zip(panels, envs, strict=True):
            there = [label for label in labels if env in cells[label]]
            for number, label in enumerate(there):
                curve = average(cells[label][env], 1)
                axis.plot(curve.steps / 1e3, curve.mean, **thin(style[label]), zorder=9 - number / 9)
            draw_published(axis, published.get(env, ()))
            counts = seeds_in_words(len(cells[label][env]) for label in there)
            axis.set_title(f"{game_name(env)}, {counts}")
            axis.set_xlim(left=0)
            axis.grid(alpha=0.25, linewidth=0.5)
        figure.supxlabel("thousand agent steps", fontsize=7)
        figure.supylabel("score", fontsize=7)
        lines = [Line2D([], [], **thin(look)) for look in style.values()]
        lines.append(Line2D([], [], **PUBLISHED))
        names = [*(agent_name(label) for label in labels), "DQN, published, at so many frames"]
        figure.legend(lines, names, frameon=False, loc="outside upper center", ncols=2)

    draw(0.2 + 1.8 * len(envs) + 0.08 * len(labels), paint, out, name)


def thin(look: Look) -> dict[str, Any]:
    return {**look._asdict(), "linewidth": 0.9, "markersize": 2.5}


def draw_published(axis: Axes, points: Sequence[Published]) -> None:
    """The frames stand beside the panel, where no curve is."""
    for frames, score in points:
        axis.axhline(score, **PUBLISHED)
        axis.annotate(
            f"{frames / 1e6:g}M", (1.01, score), xycoords=("axes fraction", "data"), va="center", fontsize=5.5
        )


OF_FRACTIONS = {
    "fraction_entropy": "entropy / log N",
    "fraction_shift": r"largest $|\tau_i - i/N|$",
    "w1_estimate": r"estimate of $W_1$",
    "crossing_rate": "share of crossings",
}
"""Titles of panels by metric."""
LINEAR = 5
"""Mean values up to which their scale is linear."""
VALUES = (-5, 0, 2, 4, 10, 20, 40)
"""That are marked on it."""
OF_GAMES = {"score": "score", "q": "mean value"} | OF_FRACTIONS


def draw_learning(kinds: ByKind[Logged], panels: Mapping[str, str], out: Path, name: str) -> None:
    """Every metric a panel, every kind of runs a line: the mean over seeds at every tenth of a run, and a band from the
    lowest to the highest. The estimate of W1 is on a logarithmic scale where one line ends at more than ten times
    another."""
    style = looks(sorted(kinds, key=natural))
    down = len(panels) // 2

    def paint(figure: Figure) -> None:
        axes = figure.subplots(down, 2, squeeze=False).flat
        for axis, (metric, title) in zip(axes, panels.items(), strict=True):
            lines = [over_training(kinds[kind], metric) for kind in style]
            for (shares, rows), look in zip(lines, style.values(), strict=True):
                axis.fill_between(shares, rows.min(axis=0), rows.max(axis=0), color=look.color, alpha=0.12, linewidth=0)
                axis.plot(shares, rows.mean(axis=0), **thin(look))
            ends = [rows[:, -1].mean() for _, rows in lines]
            if metric == "w1_estimate" and 0 < 10 * min(ends) < max(ends):
                axis.set_yscale("log")
            if metric == "q":  # values that inflate, and may be negative, beside values that do not
                axis.set_yscale("symlog", linthresh=LINEAR)
                shown = axis.get_ylim()
                axis.set_yticks(VALUES, labels=map(str, VALUES))
                axis.set_ylim(shown)
                axis.minorticks_off()
            axis.set_title(title)
            axis.grid(alpha=0.25, linewidth=0.5)
        figure.supxlabel("share of the run", fontsize=7)
        handles = [Line2D([], [], **thin(look)) for look in style.values()]
        figure.legend(handles, [kind_name(kind) for kind in style], frameon=False, loc="outside upper center", ncols=2)

    draw(0.2 + 1.5 * down + 0.08 * len(kinds), paint, out, name)


def draw_sizes(sizes: Mapping[str, Mapping[int, Sequence[RunRecord]]], out: Path, name: str) -> None:
    """Every N a panel, every agent a line: the mean of its seeds, and a band from the lowest to the highest."""
    style = looks(list(sizes))

    def paint(figure: Figure) -> None:
        numbers = list(next(iter(sizes.values())))
        axes = figure.subplots(1, len(numbers), squeeze=False, sharex=True, sharey=True)[0]
        for axis, size in zip(axes, numbers, strict=True):
            for agent, look in style.items():
                if runs := sizes[agent][size]:
                    curve = average(runs, 1)
                    axis.plot(curve.steps / 1e3, curve.mean, **thin(look))
                    axis.fill_between(curve.steps / 1e3, curve.low, curve.high, color=look.color, alpha=0.15, lw=0)
            axis.set_title(f"N = {size}")
            axis.set_xlim(left=0)
            axis.grid(alpha=0.25, linewidth=0.5)
        axes[0].set_ylabel("score")
        figure.supxlabel("thousand agent steps", fontsize=7)
        handles = [Line2D([], [], **thin(look)) for look in style.values()]
        figure.legend(handles, [agent_name(each) for each in style], frameon=False, loc="outside upper center", ncols=2)

    draw(1.9, paint, out, name)


def over_training(runs: Sequence[Logged], metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the run, and a row for every seed, as far as all have lines."""
    length = min(len(run.lines) for run in runs)
    shares = [[line["step"] / run.config["steps"] for line in run.lines[:length]] for run in runs]
    return np.mean(shares, axis=0), np.array([[line[metric] for line in run.lines[:length]] for run in runs])


SAID = {
    "fractions/frozen_widths": "frozen, widths",
    "fractions/random_widths": "random, widths",
    "fractions/moving": "rate x 100",
    "fractions/moving_widths": "rate x 100, widths",
    "moving/moving": "rate x 400",
    "moving/far": "rate x 4,000",
    "targets/next": "rate x 100, next",
    "targets/bonus": "rate x 100, bonus",
}
"""What variants set, where their names in a plan do not tell it."""


def kind_name(kind: str) -> str:
    """PLAN/VARIANT/AGENT/ENV as a legend has it: the agent, then what sets these runs apart."""
    plan, *variant, agent, env = kind.split("/")
    apart = [env.split(".")[1]] if plan.startswith("laws") else [SAID.get(f"{plan}/{each}", each) for each in variant]
    return ", ".join([agent_name(agent), *apart])
