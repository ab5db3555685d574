"""The picture of one run: how it learned, and what it believes."""

import csv
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fqf.laws import LAWS, Law, compare

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999", "#8c510a")


def draw_run(path: Path) -> Path:
    """Write `figure.png`: the learning curve, and the quantile functions of all actions in a few states."""
    config = tomllib.loads((path / "config.toml").read_text())
    beliefs = json.loads((path / "distributions.json").read_text())
    num_states = len(beliefs["states"])
    figure = Figure(figsize=(4.6 + 3.1 * num_states, 3.8), layout="constrained")
    axes = figure.subplots(1, 1 + num_states, width_ratios=[1.5] + [1] * num_states, squeeze=False)[0]
    draw_learning_curve(axes[0], path)
    for index, name in enumerate(beliefs["states"]):
        axis = axes[1 + index]
        draw_quantiles(axis, beliefs["probabilities"][index], beliefs["values"][index])
        axis.set_title(name, fontsize=10)
        if config["env"] in LAWS:
            draw_laws(axis, config["env"], beliefs["probabilities"][index], beliefs["values"][index])
    limits = [axis.get_ylim() for axis in axes[1:]]
    for axis in axes[1:]:
        axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    axes[1].set_ylabel("return from here on, discounted")
    axes[1].legend(fontsize=8, frameon=False, loc="best")
    figure.suptitle(f"{config['agent']} on {config['env']}, seed {config['seed']}", fontsize=11)
    target = path / "figure.png"
    figure.savefig(target, dpi=130)
    return target


def draw_learning_curve(axis: Axes, path: Path) -> None:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    training = [(row["step"], row["return"]) for row in rows if row["return"] is not None]
    if training:
        axis.plot(*zip(*training, strict=True), color="#999999", linewidth=0.8, label="training")
    with (path / "evaluations.csv").open() as file:
        scores: list[dict[str, Any]] = [row for row in csv.DictReader(file) if row["source"] == "train"]
    steps = [int(row["step"]) for row in scores]
    mean, low, high = ([float(row[name]) for row in scores] for name in ("mean", "minimum", "maximum"))
    axis.fill_between(steps, low, high, color=COLORS[0], alpha=0.15, linewidth=0, label="evaluation, min to max")
    axis.plot(steps, mean, color=COLORS[0], marker="o", markersize=3, label="evaluation, mean")
    axis.set_xlabel("agent steps")
    axis.set_ylabel("return of an episode")
    axis.ticklabel_format(axis="x", style="sci", scilimits=(0, 4))
    axis.legend(fontsize=8, frameon=False)
    axis.grid(alpha=0.25)


def draw_curves(groups: Mapping[str, Sequence[Path]], target: Path) -> Path:
    """Evaluation curves of several groups of runs, such as agents: mean over a group's seeds, and their range."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axis = figure.subplots()
    for number, (name, paths) in enumerate(groups.items()):
        curves = [evaluation_curve(path) for path in paths]
        steps, means = curves[0][0], np.array([curve[1] for curve in curves])
        color, style = COLORS[number % len(COLORS)], ("-", "--")[number // len(COLORS) % 2]
        axis.plot(steps, means.mean(axis=0), style, color=color, label=f"{name} ({len(paths)})")
        axis.fill_between(steps, means.min(axis=0), means.max(axis=0), color=color, alpha=0.12, linewidth=0)
    config = tomllib.loads((next(iter(groups.values()))[0] / "config.toml").read_text())
    axis.set_title(f"{config['env']}: evaluation, mean and range over seeds", fontsize=11)
    axis.set_xlabel("agent steps")
    axis.set_ylabel("return of an episode")
    axis.legend(fontsize=8, frameon=False)
    axis.grid(alpha=0.25)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=130)
    return target


def evaluation_curve(path: Path) -> tuple[list[int], list[float]]:
    """Steps and mean scores of the evaluations that belong to a run's training."""
    with (path / "evaluations.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "train"]
    return [int(row["step"]) for row in rows], [float(row["mean"]) for row in rows]


def draw_quantiles(axis: Axes, probabilities: list[list[float]], values: list[list[float]]) -> None:
    """One staircase per action, for DQN a line. Where values are chosen at fractions, the edges are ticks along the
    bottom; where probabilities are chosen on a grid of values, as in C51, atoms are dots."""
    on_grid = is_grid(values)
    for action, (widths, heights) in enumerate(zip(probabilities, values, strict=True)):
        taus = np.concatenate([[0.0], np.cumsum(widths)])
        color = COLORS[action % len(COLORS)]
        seen = np.flatnonzero(np.asarray(widths) > min(0.002, max(widths) / 2))
        shown = slice(seen[0], seen[-1] + 1)  # a grid's empty ends would only stretch the axis
        edges = taus[shown.start : shown.stop + 1]
        axis.stairs(heights[shown], edges, baseline=None, color=color, linewidth=1.6, label=f"action {action}")
        mean = float(np.dot(widths, heights))
        axis.axhline(mean, color=color, linewidth=0.8, linestyle=":")
        if on_grid:
            middles = (taus[1:] + taus[:-1]) / 2
            axis.plot(middles[seen], np.asarray(heights)[seen], "o", color=color, markersize=3)
    if not on_grid and len(probabilities[0]) > 1:
        axis.plot(taus, np.zeros_like(taus), "|", color="black", markersize=9, transform=axis.get_xaxis_transform())
        axis.set_xlabel("fraction tau (| edges)")
    else:
        axis.set_xlabel("fraction tau")
    axis.set_xlim(0, 1)
    axis.grid(alpha=0.25)


def is_grid(values: Any) -> bool:
    """Whether all actions have the same atoms, at equal distances."""
    rows = np.asarray(values, np.float64)
    steps = np.diff(rows, axis=1)
    return rows.shape[1] > 2 and bool(np.ptp(rows, axis=0).max() == 0) and np.allclose(steps, steps[0, 0], rtol=1e-3)


def draw_laws(axis: Axes, env: str, probabilities: list[list[float]], values: list[list[float]]) -> None:
    """The known return law of each action, and how far the staircase is from it."""
    grid = np.linspace(0.002, 0.998, 500)
    distances = []
    for law, widths, heights in zip(LAWS[env], probabilities, values, strict=True):
        axis.plot(grid, law.quantile(grid), color="black", linewidth=1, label=f"truth: {law.name}")
        distances.append(compare(law.quantile, np.asarray(widths), np.asarray(heights)).w1)
    axis.set_title("W1 to the truth " + ", ".join(f"{distance:.4f}" for distance in distances), fontsize=10)


def draw_staircases(staircases: Mapping[str, tuple[np.ndarray, np.ndarray]], law: Law, target: Path) -> Path:
    """Learned distributions (probabilities and values) side by side, each against the quantile function of a law."""
    figure = Figure(figsize=(3.6 * len(staircases), 3.8), layout="constrained")
    grid = np.linspace(0, 0.995, 600)
    axes = figure.subplots(1, len(staircases), sharey=True, squeeze=False)[0]
    for axis, (name, (probabilities, values)) in zip(axes, staircases.items(), strict=True):
        taus = np.concatenate([[0.0], np.cumsum(probabilities, dtype=np.float64)])
        numbers = compare(law.quantile, probabilities, values)
        axis.plot(grid, law.quantile(grid), color="black", linewidth=1, label=f"truth: {law.name}")
        axis.stairs(values, taus, baseline=None, color=COLORS[1], linewidth=1.8, label="learned staircase")
        if is_grid([values]):
            axis.plot((taus[1:] + taus[:-1]) / 2, values, "o", color=COLORS[1], markersize=3)
        else:
            axis.plot(taus, 0 * taus, "|", color="black", markersize=10, transform=axis.get_xaxis_transform())
        axis.set_title(f"{name}\nW1 {numbers.w1:.3f}, mean {numbers.mean:.3f}", fontsize=10)
        axis.set_xlabel("fraction tau" if is_grid([values]) else "fraction tau (| edges)")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("return")
    axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(target, dpi=120)
    return target
