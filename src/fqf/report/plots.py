"""The figures of a report. Groups differ by colour, marker and line; what was published is dashed and grey."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fqf.report.analysis import Aggregates, Group
from fqf.report.dopamine import PublishedCurve
from fqf.report.figure import COLORS
from fqf.report.records import RunRecord
from fqf.report.statistics import Estimate

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
GREYS = ("#222222", "#555555", "#777777", "#444444", "#888888")
DASHES = ((0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)), (0, (8, 3)), (0, (3, 1, 1, 1, 1, 1)))
NAMES = {"mean": "mean", "median": "median", "iqm": "IQM", "optimality_gap": "optimality gap"}


class Style(NamedTuple):
    color: str
    line: Any
    marker: str


def styles(labels: Sequence[str], published: Sequence[str] = ()) -> dict[str, Style]:
    own = {
        label: Style(COLORS[number % len(COLORS)], ("-", "-.")[number // len(COLORS) % 2], MARKERS[number % 10])
        for number, label in enumerate(labels)
    }
    others = {label: Style(GREYS[number % 5], DASHES[number % 5], "none") for number, label in enumerate(published)}
    return own | others


def render(figure: Figure) -> dict[str, bytes]:
    """The same bytes for the same figure: no date, and names of SVG elements that follow from their content."""
    files = {}
    for kind, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
        target = io.BytesIO()
        with mpl.rc_context({"svg.hashsalt": "fqf"}):
            figure.savefig(target, format=kind, dpi=150, metadata=metadata)
        files[kind] = target.getvalue()
    return files


def on_common_steps(runs: Sequence[RunRecord]) -> tuple[np.ndarray, np.ndarray]:
    """All runs at the steps that any of them has, between their own first and last: [steps], [runs, steps]."""
    steps = np.unique(np.concatenate([run.curve.steps for run in runs]))
    rows = [np.interp(steps, *run.curve, left=np.nan, right=np.nan) for run in runs]
    return steps, np.array(rows)


def draw_learning(
    env: str, groups: Mapping[str, Sequence[RunRecord]], style: Mapping[str, Style], published: Sequence[PublishedCurve]
) -> Figure:
    """Mean over seeds and their range; a cross where an unfinished run stops."""
    figure = Figure(figsize=(6.2, 4.4), layout="constrained")
    axis = figure.subplots()
    atari = env.startswith("atari/")
    end = 0.0
    for label, runs in groups.items():
        unit = runs[0].frame_skip / 1e6 if atari else 1
        steps, rows = on_common_steps(runs)
        color, line, marker = style[label]
        every = max(1, len(steps) // 12)
        unfinished = [run for run in runs if not run.finished]
        name = f"{label} ({count(len(runs), 'seed')}{f', {len(unfinished)} unfinished' if unfinished else ''})"
        middle = np.nanmean(rows, axis=0)
        axis.plot(
            steps * unit, middle, linestyle=line, color=color, marker=marker, markersize=4, markevery=every, label=name
        )
        if len(runs) > 1:
            low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
            axis.fill_between(steps * unit, low, high, color=color, alpha=0.15, linewidth=0)
        for run in unfinished:
            last = run.curve.steps[-1] * unit, run.curve.scores[-1]
            axis.plot(*last, "x", color=color, markersize=9, markeredgewidth=2)
        end = max(end, float(steps[-1]) * unit)
    if published:
        end = max(end, published[0].frames[2])  # a run of a few frames would leave no room for them
        for curve, grey, dashes in zip(published, GREYS, DASHES, strict=True):
            frames = np.append([point for point in curve.frames if point < end], end)
            scores = np.interp(frames, curve.frames, curve.mean)
            name = f"{curve.agent}, published ({count(curve.seeds, 'seed')})"
            axis.plot(frames, scores, linestyle=dashes, color=grey, linewidth=1.2, label=name)
    axis.set_xlim(0, end * 1.02)
    axis.set_title(env, fontsize=11)
    axis.set_xlabel("million frames" if atari else "agent steps")
    axis.set_ylabel("score" if atari else "return of an episode")
    axis.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def draw_estimates(aggregates: Aggregates, style: Mapping[str, Style]) -> Figure:
    """Every statistic of every group with its interval, best read down a panel."""
    groups = aggregates.groups[::-1]
    figure = Figure(figsize=(10, 1.3 + 0.36 * len(groups)), layout="constrained")
    axes = figure.subplots(1, len(NAMES), sharey=True)
    for axis, (name, title) in zip(axes, NAMES.items(), strict=True):
        for height, group in enumerate(groups):
            draw_interval(axis, height, aggregates.estimates[group.label][name], group, style[group.label])
        better = "less is better" if name == "optimality_gap" else "more is better"
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(f"% ({better})", fontsize=9)
        axis.grid(alpha=0.25, axis="x")
    axes[0].set_yticks(range(len(groups)), [group.label for group in groups], fontsize=9)
    axes[0].set_ylim(-0.6, len(groups) - 0.4)
    return figure


def draw_interval(axis: Axes, height: int, estimate: Estimate, group: Group, style: Style) -> None:
    """An open mark is a published score."""
    value, low, high = estimate
    if low is not None and high is not None:
        axis.plot([100 * low, 100 * high], [height, height], color=style.color, linewidth=5, alpha=0.35)
    marker, fill = ("o", "none") if group.is_published else (style.marker, style.color)
    axis.plot(100 * value, height, marker=marker, color=style.color, markerfacecolor=fill, markersize=6)


def draw_profiles(aggregates: Aggregates, style: Mapping[str, Style]) -> Figure:
    figure = Figure(figsize=(7.4, 4.6), layout="constrained")
    axis = figure.subplots()
    percent = 100 * aggregates.thresholds
    for group in aggregates.groups:
        shares, band = aggregates.profiles[group.label]
        color, line, marker = style[group.label]
        width = 1.2 if group.is_published else 1.8
        axis.plot(
            percent,
            shares,
            linestyle=line,
            color=color,
            linewidth=width,
            marker=marker,
            markersize=4,
            markevery=20,
            label=group.label,
        )
        if band is not None:
            axis.fill_between(percent, *band, color=color, alpha=0.15, linewidth=0)
    axis.set(xlim=(percent[0], percent[-1]), ylim=(-0.02, 1.02))
    axis.set_xlabel("normalised score, %")
    axis.set_ylabel("share of runs with more than that")
    axis.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def draw_improvements(
    pairs: Mapping[tuple[str, str], Estimate], groups: Sequence[Group], style: Mapping[str, Style]
) -> Figure:
    figure = Figure(figsize=(7.4, 1.2 + 0.3 * len(pairs)), layout="constrained")
    axis = figure.subplots()
    axis.axvline(50, color="#777777", linewidth=1)
    owners = {group.label: group for group in groups}
    rows = list(pairs.items())[::-1]
    for height, ((one, _), estimate) in enumerate(rows):
        draw_interval(axis, height, estimate, owners[one], style[one])
    axis.set_yticks(range(len(rows)), [f"{one}  over  {other}" for (one, other), _ in rows], fontsize=9)
    axis.set(xlim=(-3, 103), ylim=(-0.6, len(rows) - 0.4))
    axis.set_xlabel("chance that a run of the first scores more than one of the second, %")
    axis.grid(alpha=0.25, axis="x")
    return figure
