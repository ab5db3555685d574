"""How pictures look, at the width of a column, and files that are equal byte for byte when what they show is."""

import csv
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from fqf.report.figure import COLORS
from fqf.report.scores import PLAYERS

COLUMN_INCHES = 3.3
"""Of a page with two columns; half a text width of one."""
USUAL, SMALL = 7.0, 6.5
"""Points of text, and of captions and legends."""
PAD_INCHES = 3 / 72
"""That matplotlib's constrained layout leaves around the axes."""
LEARNED, TRUTH = "#0072b2", "black"
BLANK = "-"
NAMES = {**PLAYERS, "prioritized": "Prior.", "c51": "C51", "rainbow": "Rainbow"}
"""As the paper calls them."""
AGENTS = ("dqn", "prioritized", "prior_duel", "c51", "rainbow", "qr_dqn", "iqn", "fqf")
"""The paper's order; Prior. Duel is in its raw table and not in table 1, three others the other way round."""
RULES: dict[Any, Any] = {
    "font.size": USUAL,
    "axes.titlesize": USUAL,
    "axes.labelsize": USUAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "fqf",  # else the names in an SVG file are random
}


def draw(height: float, paint: Callable[[Figure], None], out: Path, name: str, width: float = COLUMN_INCHES) -> None:
    """NAME.png and NAME.svg, with no date in them."""
    out.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **RULES}):
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure)
        figure.draw_without_rendering()  # places axes; their ticks may change by it, which the next layout takes in
        figure.savefig(out / f"{name}.png", dpi=300, metadata={"Software": None})
        figure.savefig(out / f"{name}.svg", metadata={"Date": None, "Creator": None})


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Numbers in full, so that the picture can be drawn again from them; None is a blank."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def draw_table(
    header: Sequence[str],
    lines: Sequence[Sequence[str]],
    caption: str,
    widths: Sequence[float],
    out: Path,
    name: str,
    bold: Collection[tuple[int, int]] = (),
    width: float = COLUMN_INCHES,
) -> None:
    """A picture of a table; `bold` are cells of its lines, by line and column."""
    words = "\n".join(wrap(line, 0.95 * width) for line in caption.split("\n"))
    above = 0.155 * (len(lines) + 1 + max(text.count("\n") for text in header)) + 0.12
    below = 0.06 + 0.12 * (1 + words.count("\n"))

    def paint(figure: Figure) -> None:
        share = below / (above + below)
        figure.set_layout_engine("constrained", rect=(0, share, 1, 1 - share))
        rule_table(figure.subplots(), header, lines, widths, bold)
        figure.text(PAD_INCHES / width, share, words, va="top", fontsize=SMALL)

    draw(above + below, paint, out, name, width)


def rule_table(
    axis: Axes,
    header: Sequence[str],
    lines: Sequence[Sequence[str]],
    widths: Sequence[float],
    bold: Collection[tuple[int, int]],
) -> None:
    """Ruled above, below the header and below; the first column to the left, the others to the right of their width."""
    edges = [sum(widths[: index + 1]) / sum(widths) for index in range(len(widths))]
    top = max(text.count("\n") for text in header)
    axis.set_axis_off()
    axis.set_xlim(0, 1)
    axis.set_ylim(len(lines) + 1, -top)
    for number, line in enumerate((header, *lines)):
        for index, text in enumerate(line):
            where = (0.0, "left") if index == 0 else (edges[index], "right")
            weight = "bold" if not number or (number - 1, index) in bold else None
            height = number + 0.5 if number else (1 - top) / 2
            axis.text(where[0], height, text, ha=where[1], va="center", fontweight=weight)
    for height, thickness in ((-top, 1.0), (1, 0.6), (len(lines) + 1, 1.0)):
        axis.plot([0, 1], [height, height], color="black", linewidth=thickness, clip_on=False)


def column_widths(header: Sequence[str], lines: Sequence[Sequence[str]], gap: float = 0.09) -> list[float]:
    """In inches, so that nothing in a column touches what is beside it."""
    columns = zip(header, *lines, strict=True)
    return [gap + max(inches(text, USUAL, "bold") for text in column) for column in columns]


def inches(text: str, size: float = SMALL, weight: str = "normal") -> float:
    """How wide the widest line of a text is."""
    font = FontProperties(family=["DejaVu Sans"], size=size, weight=weight)
    return max(text_to_path.get_text_width_height_descent(line, font, False)[0] / 72 for line in text.split("\n"))


def wrap(text: str, width: float) -> str:
    """In lines of so many inches, broken between words; a word that is longer stays whole."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if not lines[-1] or inches(longer) <= width else [*lines, word]
    return "\n".join(lines)


HANDLE_INCHES = 0.45
"""A legend's line, and what is around it and its name."""


class Legend(NamedTuple):
    """Names that fit beside each other, in so many columns, and how many lines of text they take."""

    names: list[str]
    columns: int
    lines: int


def fit_legend(names: Sequence[str], width: float) -> Legend:
    """At most three columns; a name that is too long for the whole width is broken."""
    fitting = [wrap(name, width - HANDLE_INCHES) for name in names]
    columns = max(1, min(3, len(names), int(width / (HANDLE_INCHES + max(map(inches, fitting))))))
    return Legend(fitting, columns, -(-len(names) // columns) * max(1 + name.count("\n") for name in fitting))


def by_agent(labels: Collection[str]) -> list[str]:
    """Labels of groups in the paper's order of agents, others after it; variants of one agent stay as they came."""
    known = {agent: number for number, agent in enumerate(AGENTS)}
    return sorted(labels, key=lambda label: (known.get(label.split()[0], len(known)), label.split()[0]))


class Look(NamedTuple):
    """Of a line: also without its colour it is like no other."""

    color: str
    linestyle: str
    marker: str


def looks(labels: Sequence[str]) -> dict[str, Look]:
    lines, markers = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v", "x", "P", "<", ">", "*")
    return {
        label: Look(COLORS[number % len(COLORS)], lines[number % len(lines)], markers[number % len(markers)])
        for number, label in enumerate(labels)
    }


def agent_name(label: str) -> str:
    """Of a group's label: the agent, and the options by which it differs."""
    agent, *options = label.split(" ")
    return " ".join([NAMES.get(agent, agent), *options])


def game_name(env: str) -> str:
    """As the paper writes games: BankHeist."""
    return "".join(part[:1].upper() + part[1:] for part in env.partition("/")[2].split("_"))


def game_names(envs: Sequence[str]) -> dict[str, str]:
    """Of all that stand in one picture: with their family where there are several, which may have games alike."""
    families = {env.partition("/")[0] for env in envs}
    return {env: game_name(env) if len(families) == 1 else f"{env.partition('/')[0]} {game_name(env)}" for env in envs}
