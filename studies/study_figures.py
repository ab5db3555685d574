"""The study's pictures, from the files that studies/study.py keeps: learning curves of all agents with what was
published of DQN, and what fractions do while values are learned."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from study_tables import Line

from fqf.paper.curves import average
from fqf.paper.style import agent_name, by_agent, draw, game_name, looks
from fqf.report.groups import Cells, natural

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
    """Every game a panel: mean of the seeds, without bands, which nine agents would fill the panel with."""
    envs = sorted({env for games in cells.values() for env in games})
    labels = by_agent(cells)
    style = looks(labels)

    def paint(figure: Figure) -> None:
        axes = figure.subplots(1, len(envs), squeeze=False)[0]
        for axis, env in zip(axes, envs, strict=True):
            for label in labels:
                if runs := cells[label].get(env):
                    curve = average(runs, 1)
                    axis.plot(curve.steps / 1e3, curve.mean, **style[label]._asdict(), linewidth=1, markersize=3)
            draw_published(axis, published.get(env, ()))
            axis.set_title(game_name(env))
            axis.set_xlim(left=0)
            axis.grid(alpha=0.25, linewidth=0.5)
        axes[0].set_ylabel("score")
        figure.supxlabel("thousand agent steps", fontsize=7)
        lines = [Line2D([], [], **look._asdict(), markersize=3, linewidth=1) for look in style.values()]
        lines.append(Line2D([], [], **PUBLISHED))
        names = [*(agent_name(label) for label in labels), "DQN, published, at so many frames"]
        figure.legend(lines, names, frameon=False, loc="outside upper center", ncols=5)

    draw(2.6, paint, out, name, 6.8)


def draw_published(axis: Axes, points: Sequence[Published]) -> None:
    """The frames stand beside the panel, where no curve is."""
    for frames, score in points:
        axis.axhline(score, **PUBLISHED)
        axis.annotate(
            f"{frames / 1e6:g}M", (1.01, score), xycoords=("axes fraction", "data"), va="center", fontsize=5.5
        )


PANELS = {
    "fraction_entropy": "entropy / log N",
    "fraction_shift": r"largest $|\tau_i - i/N|$",
    "w1_estimate": r"estimate of $W_1$",
    "crossing_rate": "share of crossings",
}


def draw_learning(
    kinds: Mapping[str, Sequence[Sequence[Line]]], sizes: Mapping[str, int], out: Path, name: str
) -> None:
    """Every metric a panel, every kind of runs a line: the mean over seeds at every tenth of a run."""
    style = looks(sorted(kinds, key=natural))

    def paint(figure: Figure) -> None:
        axes = figure.subplots(2, 2, squeeze=False).flat
        for axis, (metric, title) in zip(axes, PANELS.items(), strict=True):
            for kind, look in style.items():
                length = min(len(lines) for lines in kinds[kind])
                rows = np.array([[line[metric] for line in lines[:length]] for lines in kinds[kind]])
                unit = math.log(sizes[kind]) if metric == "fraction_entropy" else 1
                shares = np.arange(1, length + 1) / 10
                axis.plot(shares, rows.mean(axis=0) / unit, **look._asdict(), linewidth=1, markersize=3)
            axis.set_title(title)
            axis.grid(alpha=0.25, linewidth=0.5)
        figure.supxlabel("share of the run", fontsize=7)
        lines = [Line2D([], [], **look._asdict(), markersize=3, linewidth=1) for look in style.values()]
        figure.legend(lines, [kind_name(kind) for kind in style], frameon=False, loc="outside upper center", ncols=2)

    draw(4.4 + 0.08 * len(kinds), paint, out, name, 6.8)


def kind_name(kind: str) -> str:
    """PLAN/VARIANT/AGENT/ENV as a legend has it: the agent, then what sets these runs apart."""
    plan, *variant, agent, env = kind.split("/")
    return ", ".join([agent_name(agent), *([env.split(".")[1]] if plan == "laws" else variant)])
