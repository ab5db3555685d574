"""An episode as a moving picture: the game, and beside it the return distribution of every action."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fqf.report.figure import COLORS
from fqf.types import ReturnDistribution


class Moment(NamedTuple):
    """What is seen before one step."""

    picture: np.ndarray | None
    """The game, [H, W, 3]; without one the observation is drawn."""
    observation: np.ndarray
    distribution: ReturnDistribution
    action: int
    """The one that will be taken."""
    score: float
    """Raw rewards so far."""


def write_gif(moments: Iterable[Moment], title: str, target: Path, milliseconds: int) -> int:
    """Write the moments as they come; returns how many there were."""
    count = 0

    def draw() -> Iterator[Image.Image]:
        nonlocal count
        drawing: Drawing | None = None
        for moment in moments:
            drawing = drawing or Drawing(moment, title)
            count += 1
            yield Image.fromarray(drawing.draw(moment)).quantize(128, dither=Image.Dither.NONE)

    frames, partial = draw(), target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        next(frames).save(file, "GIF", save_all=True, append_images=frames, duration=milliseconds, loop=0)
    partial.replace(target)
    return count


class Drawing:
    """One figure whose lines are moved from frame to frame: drawing it anew would take ten times as long."""

    def __init__(self, moment: Moment, title: str) -> None:
        figure = Figure(figsize=(8, 4), dpi=80, layout="constrained")
        self._canvas = FigureCanvasAgg(figure)
        left, self._right = figure.subplots(1, 2, width_ratios=[1, 1.25])
        figure.suptitle(title, fontsize=10)
        self._left, self._game = left, _show_game(left, moment)
        self._low, self._high = np.inf, -np.inf
        self._stairs = [
            self._right.plot([], [], color=COLORS[action % len(COLORS)], label=f"action {action}")[0]
            for action in range(len(moment.distribution.values))
        ]
        self._means = [
            self._right.axhline(0, color=line.get_color(), linewidth=0.8, linestyle=":") for line in self._stairs
        ]
        self._right.set(xlim=(0, 1), xlabel="fraction tau", ylabel="return from here on, discounted")
        self._right.legend(fontsize=7, frameon=False, loc="upper left", ncols=2)
        self._right.grid(alpha=0.25)

    def draw(self, moment: Moment) -> np.ndarray:
        picture = moment.picture if moment.picture is not None else as_picture(moment.observation)
        if picture is not None:
            self._game.set_data(picture)
        else:
            for bar, value in zip(self._game, moment.observation.ravel(), strict=True):
                bar.set_width(value)
        self._left.set_title(f"return so far {moment.score:g}", fontsize=9)
        probabilities, values = moment.distribution
        for action, (line, mean) in enumerate(zip(self._stairs, self._means, strict=True)):
            edges = np.concatenate([[0.0], np.cumsum(probabilities[action])])
            line.set_data(np.repeat(edges, 2)[1:-1], np.repeat(values[action], 2))
            line.set_linewidth(2.4 if action == moment.action else 1.0)
            height = float(np.dot(probabilities[action], values[action]))
            mean.set_ydata([height, height])
        # The axis only ever grows, so that what moves is the belief and not the scale.
        likely = values[probabilities > 0.002] if np.any(probabilities > 0.002) else values
        self._low, self._high = min(self._low, float(likely.min())), max(self._high, float(likely.max()))
        margin = 0.05 * max(self._high - self._low, 1e-3)
        self._right.set_ylim(self._low - margin, self._high + margin)
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()


def _show_game(axis: Axes, moment: Moment) -> Any:
    picture = moment.picture if moment.picture is not None else as_picture(moment.observation)
    if picture is not None:
        axis.set_axis_off()
        return axis.imshow(picture, interpolation="nearest", vmin=0, vmax=1)
    axis.set(xlim=(-3, 3), ylabel="observation")
    values = moment.observation.ravel()
    axis.set_yticks(range(len(values)))
    return axis.barh(np.arange(len(values)), values, color="#999999")


def as_picture(observation: np.ndarray) -> np.ndarray | None:
    """An image as it is; cells with several channels, such as MinAtar's: a colour each, the later over the earlier."""
    if observation.dtype == np.uint8 and observation.ndim >= 2:
        flat = observation.reshape(*observation.shape[:2], -1)
        return np.repeat(flat[..., -1:], 3, axis=2) if flat.shape[2] != 3 else flat
    if observation.ndim != 3 or observation.dtype != bool:
        return None
    picture = np.full((*observation.shape[:2], 3), 0.08)
    for channel in range(observation.shape[2]):
        color = [int(COLORS[channel % len(COLORS)][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        picture[observation[..., channel]] = color
    return picture
