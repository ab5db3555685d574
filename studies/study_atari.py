"""Question 6: our training returns on Atari over those that Dopamine published, as a table and as a picture."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from study_figures import thin
from study_scores import summed_up

from fqf.paper.curves import average
from fqf.paper.style import agent_name, draw, game_name, looks
from fqf.report.analysis import games_of
from fqf.report.dopamine import PublishedCurve, dopamine_curves
from fqf.report.groups import Cells

TENTHS = range(1, 11)
PUBLISHED_COLOR = "#777777"
HOLLOW = {"markersize": 5, "markerfacecolor": "none"}
"""Our one point, through which those published at the same frames can be seen."""


class Tenth(NamedTuple):
    """Of a run: the episodes of training that ended in it, and the mean of what they returned."""

    tenth: int
    """From 1."""
    step: int
    """At its end."""
    mean: float
    episodes: int


def in_tenths(lines: Sequence[Mapping[str, Any]]) -> list[Tenth]:
    """From a run's log, whose lines say how many episodes have ended by then, and the mean return of those that ended
    since the line before. A tenth in which none ended is left out."""
    earlier = [0, *(line["episodes"] for line in lines)]
    ended = [(line, line["episodes"] - before) for line, before in zip(lines, earlier, strict=False)]
    found = []
    for tenth, group in groupby(ended, key=lambda each: -(-10 * each[0]["step"] // lines[-1]["step"])):
        counts = list(group)
        if episodes := sum(count for _, count in counts):
            total = sum(count * line["return"] for line, count in counts if count)
            found.append(Tenth(tenth, counts[-1][0]["step"], total / episodes, episodes))
    return found


ByRun = Mapping[str, Sequence[Tenth]]
"""PLAN/AGENT/ENV/SEED."""


def table_of_atari(cells: Cells, tenths: ByRun) -> Iterable[str]:
    """Training returns of whole runs beside those that Dopamine published at the same frames; and how they grew."""
    if not cells:
        yield "No run has finished yet."
        return
    games = games_of(cells)
    yield "| training return: mean (range), seeds | " + " | ".join(games) + " |"
    yield "|---|" + "---|" * len(games)
    for agent, found in cells.items():
        texts = [summed_up([run.score("last") for run in found.get(game, ())]) for game in games]
        yield f"| `{agent}`, ours | " + " | ".join(texts) + " |"
    frames = {game: last_frames(cells, game) for game in games}
    for name in sorted({curve.agent for game in games for curve in published_of(game)}):
        texts = [published_at(game, name, frames[game]) for game in games]
        yield f"| {name}, published | " + " | ".join(texts) + " |"
    yield from ("", "| training return in every tenth: mean, episodes | " + " | ".join(map(str, TENTHS)) + " |")
    yield "|---|" + "---|" * len(TENTHS)
    for name, run in tenths.items():
        texts = {each.tenth: f"{each.mean:.1f}, {each.episodes}" for each in run}
        yield f"| {name} | " + " | ".join(texts.get(tenth, "-") for tenth in TENTHS) + " |"


def draw_atari(cells: Cells, tenths: ByRun, out: Path, name: str) -> None:
    """Every game a panel: what Dopamine published, a little further than ours go, with its range over seeds; our mean
    over as many frames as a published point is of; and, thin, our means over tenths of these."""
    envs = games_of(cells)
    names = sorted({curve.agent for env in envs for curve in published_of(env)})
    published = {agent: look._replace(color=PUBLISHED_COLOR) for agent, look in looks(["ours", *names]).items()}
    style = looks(list(cells))

    def paint(figure: Figure) -> None:
        axes = figure.subplots(1, len(envs), squeeze=False)[0]
        for axis, env in zip(axes, envs, strict=True):
            upto = last_frames(cells, env) + 2
            for curve in published_of(env):
                here = sum(frames <= upto for frames in curve.frames)
                frames, mean, low, high = (np.array(each[:here]) for each in curve[2:])
                axis.plot(frames, mean, **thin(published[curve.agent]))
                axis.vlines(frames, low, high, color=PUBLISHED_COLOR, linewidth=0.5)
            for label, look in style.items():
                if runs := cells[label].get(env):
                    for run in tenths_of(tenths, label, env):
                        ends = [each.step * runs[0].frame_skip / 1e6 for each in run]
                        axis.plot(ends, [each.mean for each in run], color=look.color, linewidth=0.9)
                    ours = average(runs, 1)
                    axis.plot(ours.frames / 1e6, ours.mean, **{**thin(look), **HOLLOW}, zorder=9)
            axis.set_title(game_name(env))
            axis.set_xlim(left=0)
            axis.grid(alpha=0.25, linewidth=0.5)
        axes[0].set_ylabel("training return")
        figure.supxlabel("million frames", fontsize=7)
        lines = [Line2D([], [], **{**thin(look), **HOLLOW, "linestyle": ""}) for look in style.values()]
        lines += [Line2D([], [], color=look.color, linewidth=0.9) for look in style.values()]
        lines += [Line2D([], [], **thin(published[each])) for each in names]
        ours = [agent_name(label) for label in style]
        words = [f"{name}, ours{what}" for what in ("", ", by tenths") for name in ours]
        words += [f"{each}, published" for each in names]
        figure.legend(lines, words, frameon=False, loc="outside upper center", ncols=2)

    draw(2.6, paint, out, name)


def tenths_of(tenths: ByRun, agent: str, env: str) -> list[Sequence[Tenth]]:
    """Of all seeds."""
    return [run for name, run in tenths.items() if f"/{agent}/{env.replace('/', '.')}/" in name]


def last_frames(cells: Cells, game: str) -> float:
    """In millions."""
    (run, *_) = (run for found in cells.values() for run in found.get(game, ()))
    return run.curve.steps[-1] * run.frame_skip / 1e6


def published_of(game: str) -> list[PublishedCurve]:
    return dopamine_curves().get(game.partition("/")[2], [])


def published_at(game: str, agent: str, frames: float) -> str:
    """At just so many million frames, or nothing."""
    for curve in published_of(game):
        if curve.agent == agent and frames in curve.frames:
            at = curve.frames.index(frames)
            return f"{curve.mean[at]:.1f} ({curve.minimum[at]:.1f} to {curve.maximum[at]:.1f}), {curve.seeds}"
    return "-"
