"""Question 6: our training returns on Atari over those that Dopamine published, as a table and as a picture."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from study_figures import thin
from study_scores import summed_up

from fqf.paper.style import agent_name, draw, game_name, looks
from fqf.report.analysis import games_of
from fqf.report.dopamine import PublishedCurve, dopamine_curves
from fqf.report.groups import Cells

ON_ATARI = {
    "atari": "## 6. Atari",
    "atari_epsilon": "### With an eighth of Adam's epsilon",
    "atari_longer": "### Two million frames",
}
"""The plans, and what the page calls them."""
TENTHS = range(1, 11)
PUBLISHED_COLOR = "#777777"


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
    """Every game a row: left what Dopamine published, a little further than ours go, and, without marks, our means over
    tenths; right what all have at the frames that ours end with, side by side, the published with their range."""
    envs = games_of(cells)
    names = sorted({curve.agent for env in envs for curve in published_of(env)})
    published = {agent: look._replace(color=PUBLISHED_COLOR) for agent, look in looks(["ours", *names]).items()}
    style = looks(list(cells))

    def paint(figure: Figure) -> None:
        panels = figure.subplots(len(envs), 2, squeeze=False, width_ratios=(1.6, 1))
        for (over, at), env in zip(panels, envs, strict=True):
            ends = last_frames(cells, env)
            for curve in published_of(env):
                shown = sum(frames <= ends + 2 for frames in curve.frames)
                over.plot(curve.frames[:shown], curve.mean[:shown], **thin(published[curve.agent]))
                if point := point_of(curve, ends):
                    place, mark = names.index(curve.agent), thin(published[curve.agent])
                    at.vlines(place, point.minimum, point.maximum, color=PUBLISHED_COLOR, linewidth=0.9)
                    at.plot([place], [point.mean], **mark | {"markersize": 4})
            for label, look in style.items():
                if runs := cells[label].get(env):
                    for run in tenths_of(tenths, label, env):
                        frames = [each.step * runs[0].frame_skip / 1e6 for each in run]
                        over.plot(frames, [each.mean for each in run], color=look.color, linewidth=0.9)
                    ours = mean([run.score("last") for run in runs])
                    at.axhline(ours, color=look.color, linewidth=0.9)
                    at.plot([len(names)], [ours], **thin(look) | {"markersize": 4})
            over.set(title=game_name(env), xlim=(0, None), ylabel="training return")
            at.set(title=f"{game_name(env)}, at {ends:g}M", xticks=[], xlim=(-0.7, len(names) + 0.7))
            for axis in (over, at):
                axis.grid(alpha=0.25, linewidth=0.5)
        panels[-1][0].set_xlabel("million frames")
        panels[-1][1].set_xlabel("agents")
        lines = [Line2D([], [], **thin(look)) for look in (*style.values(), *(published[each] for each in names))]
        words = [*(f"{agent_name(label)}, ours" for label in style), *(f"{each}, published" for each in names)]
        figure.legend(lines, words, frameon=False, loc="outside upper center", ncols=2)

    draw(0.7 + 1.7 * len(envs), paint, out, name)


def of_one_plan(tenths: ByRun, plan: str) -> ByRun:
    return {name: run for name, run in tenths.items() if name.startswith(f"{plan}/")}


def tenths_of(tenths: ByRun, agent: str, env: str) -> list[Sequence[Tenth]]:
    """Of all seeds."""
    return [run for name, run in tenths.items() if f"/{agent}/{env.replace('/', '.')}/" in name]


def last_frames(cells: Cells, game: str) -> float:
    """In millions."""
    (run, *_) = (run for found in cells.values() for run in found.get(game, ()))
    return run.curve.steps[-1] * run.frame_skip / 1e6


def published_of(game: str) -> list[PublishedCurve]:
    return dopamine_curves().get(game.partition("/")[2], [])


class Point(NamedTuple):
    """Of a published curve."""

    mean: float
    minimum: float
    maximum: float


def point_of(curve: PublishedCurve, frames: float) -> Point | None:
    """At just so many million frames, if there is one."""
    if frames not in curve.frames:
        return None
    at = curve.frames.index(frames)
    return Point(curve.mean[at], curve.minimum[at], curve.maximum[at])


def published_at(game: str, agent: str, frames: float) -> str:
    """In words, or nothing."""
    for curve in published_of(game):
        if curve.agent == agent and (point := point_of(curve, frames)):
            return f"{point.mean:.1f} ({point.minimum:.1f} to {point.maximum:.1f}), {curve.seeds}"
    return "-"
