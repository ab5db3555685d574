"""The appendix's case study: how the fractions that FQF proposes change from state to state of one episode."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator
from scipy.ndimage import median_filter

from fqf import environments
from fqf.config import flatten
from fqf.errors import UserError
from fqf.paper.style import COLUMN_INCHES, LEARNED, NAMES, USUAL, draw, looks, wrap, write_csv
from fqf.policy import Policy
from fqf.record import play
from fqf.report.scores import data
from fqf.report.video import as_picture
from fqf.trained import check_play, load

SPIKES = 4
"""Pictures above the curve."""
AROUND = 11
"""Steps among which a spike stands out."""
FEW = 10
"""Lines that can be told apart by their looks; with more of them colours follow their order."""
DIGITS = 7
"""Of a width; fractions are multiples of 2^-24."""


@dataclass(frozen=True)
class Options:
    """The appendix's case study: the widths of FQF's fractions at every step of an episode, and the game where they
    jump."""

    out: Path = Path("paper")
    """Directory to write into: the picture, and the data that it is drawn from."""
    run: Path | None = None
    """Finished run of FQF to play; if not given, the episode that comes with fqf is drawn."""
    epsilon: float | None = None
    """Share of random actions; the run's own evaluation epsilon if not given."""
    max_steps: int | None = None
    """Steps after which the episode is cut, if it has not ended; 1,000 if not given."""
    seed: int | None = None
    """Of the episode; 1 if not given."""


class Episode(NamedTuple):
    """What was seen of one episode."""

    facts: dict[str, Any]
    """Who played what."""
    widths: np.ndarray
    """tau_{i+1} - tau_i at every step, [T, N]."""
    pictures: dict[int, np.ndarray]
    """The game where the widths jump, by step, [H, W, 3] in bytes; none where it can't be drawn."""


class States(NamedTuple):
    """How much the inner fractions tau_1 .. tau_{N-1} differ between the states of an episode."""

    mean: np.ndarray
    deviation: np.ndarray
    """Standard deviation over states."""
    low: np.ndarray
    high: np.ndarray

    @property
    def distance(self) -> float:
        """The largest between two states: how far one and the same fraction moves at most."""
        return float(np.max(self.high - self.low, initial=0.0))


def make(options: Options) -> str:
    if options.run is not None:
        write_episode(play_run(options.run, options), options.out)
        episode = read_episode(lambda name: (options.out / name).read_bytes())
    else:
        for name in ("epsilon", "max_steps", "seed"):
            if getattr(options, name) is not None:
                raise UserError(f"--{name.replace('_', '-')} is for an episode that is played: name a run after --run")
        episode = read_episode(data)
        write_episode(episode, options.out)
    states = compare_states(episode.widths)
    columns = ("i", "uniform", *States._fields)
    size = episode.widths.shape[1]
    rows = [(i, i / size, *map(float, each)) for i, each in enumerate(zip(*states, strict=True), 1)]
    write_csv(options.out / "fractions_states.csv", columns, rows)
    draw_episode(episode, states, options.out)
    facts = episode.facts
    trained = f"seed {facts['seed']}, fraction learning rate {facts['fraction_learning_rate']:g}"
    return (
        f"{facts['agent']} on {facts['env']} after {facts['steps']:,} steps ({trained}, commit {facts['commit']}), "
        f"{len(episode.widths)} states of one episode, N = {size}; {difference_words(states)}"
    )


def difference_words(states: States) -> str:
    most = float(np.max(states.deviation, initial=0.0))
    return f"over states: deviation up to {most:.2g}, range of a fraction up to {states.distance:.2g}"


def compare_states(widths: np.ndarray) -> States:
    inner = np.cumsum(widths, axis=1)[:, :-1]
    return States(inner.mean(axis=0), inner.std(axis=0), inner.min(axis=0), inner.max(axis=0))


def find_spikes(widths: np.ndarray, count: int) -> list[int]:
    """Steps at which a width stands out most from its median over the steps around, which follows what drifts; no two
    of them close to each other."""
    sizes = np.max(np.abs(widths - median_filter(widths, size=(AROUND, 1), mode="nearest")), axis=1)
    apart = max(1, len(widths) // (2 * count))
    found: list[int] = []
    for step in np.argsort(-sizes, kind="stable"):
        if sizes[step] > 0 and len(found) < count and all(abs(step - other) >= apart for other in found):
            found.append(int(step))
    return sorted(found)


# From a run


def play_run(path: Path, options: Options) -> Episode:
    policy = load(path)
    refuse_without_fractions(policy, path)
    config = policy.config
    seed = 1 if options.seed is None else options.seed
    max_steps = 1_000 if options.max_steps is None else options.max_steps
    epsilon = check_play(config, None, options.epsilon, seed)
    if max_steps < 1:
        raise UserError(f"max_steps is {max_steps}, but must be at least 1")
    widths, pictures = [], []
    environment = environments.make(config.env, config.environment)
    for moment in play(policy, environment, epsilon, seed, max_steps):
        widths.append(moment.distribution.probabilities[0])  # all actions have the same fractions
        pictures.append(in_bytes(as_picture(moment.observation) if moment.picture is None else moment.picture))
    rounded = np.round(np.array(widths, np.float64), DIGITS)
    flat = flatten(config)
    facts = {name: flat[name] for name in ("agent", "env", "seed", "steps", "num_fractions", "fraction_learning_rate")}
    facts |= {"epsilon": epsilon, "episode_seed": seed, "commit": commit_of(path)}
    shown = {step: picture for step in find_spikes(rounded, SPIKES) if (picture := pictures[step]) is not None}
    return Episode(facts, rounded, shown)


def refuse_without_fractions(policy: Policy, path: Path) -> None:
    options = flatten(policy.config)
    if "num_fractions" not in options:
        raise UserError(f"{path} is a run of {policy.config.agent}, which proposes no fractions: name one of fqf")
    if (kind := options.get("fractions", "proposed")) not in ("proposed", "frozen"):
        raise UserError(f"{path} has {kind} fractions, which are the same in all states: name a run with proposed ones")


def in_bytes(picture: np.ndarray | None) -> np.ndarray | None:
    if picture is None or picture.dtype == np.uint8:
        return picture
    return np.round(255 * picture).astype(np.uint8)


def commit_of(path: Path) -> str | None:
    try:
        return json.loads((path / "summary.json").read_text()).get("commit")
    except (OSError, ValueError):
        return None


EPISODE = ("fractions.csv", "fractions.json", "fractions.npz")
"""Files of an episode: its widths, its facts, its pictures. Nothing in them can run."""


def write_episode(episode: Episode, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    names = [f"width_{i}" for i in range(episode.widths.shape[1])]
    write_csv(out / "fractions.csv", ("step", *names), [(t, *map(float, row)) for t, row in enumerate(episode.widths)])
    (out / "fractions.json").write_text(json.dumps(episode.facts, indent=1) + "\n")
    pictures = np.array(list(episode.pictures.values()), np.uint8)
    np.savez_compressed(out / "fractions.npz", steps=np.array(list(episode.pictures), np.int64), pictures=pictures)


def read_episode(read: Callable[[str], bytes]) -> Episode:
    """`read` gives the bytes of a file by its name."""
    rows = list(csv.reader(read("fractions.csv").decode().splitlines()))[1:]
    with np.load(io.BytesIO(read("fractions.npz")), allow_pickle=False) as file:
        pictures = dict(zip(file["steps"].tolist(), file["pictures"], strict=True))
    return Episode(json.loads(read("fractions.json")), np.array([row[1:] for row in rows], np.float64), pictures)


# The picture


def draw_episode(episode: Episode, states: States, out: Path) -> None:
    facts, size = episode.facts, episode.widths.shape[1]
    steps = list(episode.pictures) or find_spikes(episode.widths, SPIKES)

    def paint(figure: Figure) -> None:
        rows = figure.add_gridspec(3, 1, height_ratios=[1.1 if episode.pictures else 0.01, 1.6, 1])
        if episode.pictures:
            frames = rows[0].subgridspec(1, len(steps))
            for index, (step, picture) in enumerate(episode.pictures.items()):
                show_picture(figure.add_subplot(frames[index]), picture, f"({'abcdefgh'[index]}) step {step}")
        draw_widths(figure.add_subplot(rows[1]), episode.widths, steps)
        draw_states(figure.add_subplot(rows[2]), states)
        name = NAMES.get(facts["agent"], facts["agent"])
        title = f"{name} on {facts['env']}, N = {size}, after {facts['steps']:,} steps"
        figure.suptitle(wrap(title, 0.9 * COLUMN_INCHES), fontsize=USUAL)

    draw(4.4 if episode.pictures else 3.3, paint, out, "fractions")


def show_picture(axis: Axes, picture: np.ndarray, title: str) -> None:
    axis.imshow(picture, interpolation="nearest")
    axis.set_title(title)
    axis.set_xticks([])
    axis.set_yticks([])


def draw_widths(axis: Axes, widths: np.ndarray, spikes: list[int]) -> None:
    size = widths.shape[1]
    names = [rf"$\tau_{{{i + 1}}}-\tau_{{{i}}}$" for i in range(size)]
    if size <= FEW:
        every = max(1, len(widths) // 8)
        for index, (name, look) in enumerate(looks(names).items()):
            marked = (index * every // size, every)
            axis.plot(widths[:, index], **look._asdict(), linewidth=0.8, markersize=2.5, markevery=marked, label=name)
    else:
        shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.95, size))
        shown = {0, size // 3, 2 * size // 3, size - 1}
        for index, (name, shade) in enumerate(zip(names, shades, strict=True)):
            axis.plot(widths[:, index], color=shade, linewidth=0.8, label=name if index in shown else None)
    for letter, step in zip("abcdefgh", spikes, strict=False):
        axis.axvline(step, color="0.6", linewidth=0.6, zorder=0)
        axis.annotate(letter, (step, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=6.5)
    axis.set_xlim(0, max(1, len(widths) - 1))
    low, high = np.min(widths[widths > 0]), np.max(widths)
    if np.min(widths) == 0 or high > 5 * low:
        # One wide interval would press the others together; one of width 0 ends at the lower edge.
        axis.set_yscale("log", nonpositive="clip")
        axis.set_ylim(0.85 * low, 1.15 * high)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    axis.set_xlabel("step of the episode")
    axis.set_ylabel("width of the interval")
    legend_below(axis, 0.28, 4)


def draw_states(axis: Axes, states: States) -> None:
    """Where each fraction is in the mean, its deviation over states, and all that it does."""
    inner = np.arange(1, len(states.mean) + 1)
    uniform = inner / (len(inner) + 1)
    axis.axhline(0, color="0.6", linewidth=0.6)
    axis.vlines(inner, states.low - uniform, states.high - uniform, color=LEARNED, linewidth=0.8, label="range")
    around = (states.mean - states.deviation - uniform, states.mean + states.deviation - uniform)
    axis.vlines(inner, *around, color=LEARNED, linewidth=4, alpha=0.5, label="mean ± deviation")
    axis.plot(inner, states.mean - uniform, "o", color="black", markersize=2.5, label="mean over states")
    axis.xaxis.set_major_locator(MaxNLocator(FEW, integer=True) if len(inner) > FEW else FixedLocator(inner.tolist()))
    axis.set_xlabel("fraction $i$")
    axis.set_ylabel(r"$\tau_i-i/N$")
    axis.set_title(difference_words(states).replace(": ", ":\n"), fontsize=6.5)
    legend_below(axis, 0.42, 3)


def legend_below(axis: Axes, distance: float, columns: int) -> None:
    where = (0.45, -distance)
    axis.legend(loc="upper center", bbox_to_anchor=where, ncols=columns, frameon=False, columnspacing=1, fontsize=6)
