"""The appendix's table of raw scores, from runs: games down, agents across, the best of every game bold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal

from fqf.paper.runs import cells_of, how_scored, lacking, only_finished, read_runs, refuse_protocols, seeds_in_words
from fqf.paper.style import AGENTS, BLANK, COLUMN_INCHES, agent_name, column_widths, draw_table, game_names, write_csv
from fqf.report.analysis import games_of
from fqf.report.plots import count
from fqf.report.scores import published

REFERENCES = ("random", "human")
"""Columns of Atari's table, from the paper's own."""


@dataclass(frozen=True)
class Options:
    """The appendix's table of raw scores, from runs: games down, agents across, the best of every game bold."""

    out: Path = Path("paper")
    """Directory to write into."""
    runs: tuple[Path, ...] = ()
    """Runs, directories of them, or files of collected scores; results/agents.csv if not given."""
    score: Literal["last", "best"] = "last"
    """Which of a run's scores; each cell is the mean over seeds."""


def make(options: Options) -> str:
    found, left_out, places = read_runs(options.runs, "agents")
    runs = only_finished(found, left_out)
    refuse_protocols(runs, "table")
    cells = cells_of(runs)
    labels, envs = list(cells), games_of(cells)
    means = {
        label: {env: mean(run.score(options.score) for run in seeds) for env, seeds in games.items()}
        for label, games in cells.items()
    }
    atari = any(env.startswith("atari/") for env in envs)
    known = REFERENCES if atari else ()
    absent = [env for env in (f"atari/{game}" for game in published()) if atari and env not in envs]
    table = {env: numbers_of(env, known, means) for env in (*envs, *absent)}
    rows = [(env, *numbers) for env, numbers in table.items()]
    write_csv(options.out / "scores.csv", ("game", *known, *labels), rows)
    lines = [(name, *map(shown, table[env])) for env, name in game_names(envs).items()]
    counts = seeds_in_words(len(seeds) for games in cells.values() for seeds in games.values())
    caption = f"{options.score} score of a run, mean over {counts}; {how_scored(runs)}"
    caption += f"\nbold: the best agent of a game; {BLANK} no finished run{', or nobody has played' if known else ''}"
    names = [agent_name(label).replace("_", "_ ").replace(" ", "\n") for label in labels]
    header = ("", *(each.capitalize() for each in known), *names)
    bold = [(line, 1 + len(known) + index) for line, row in enumerate(lines) for index in best(row[1 + len(known) :])]
    draw_scores(header, lines, caption, bold, options.out)
    there = {label.split()[0] for label in labels}
    kinds = f" in {len(labels)} kinds" if len(labels) > len(there) else ""
    sizes = f"{count(len(there), 'agent')}{kinds} on {count(len(envs), 'game')}"
    said = [f"{places}: {options.score} scores of {count(len(runs), 'run')}, {counts} of {sizes}"]
    said += lacking(means, envs)
    if agents := [agent for agent in AGENTS if agent not in there]:
        said.append(f"no runs of {', '.join(agents)}")
    if absent:
        said.append(f"{len(absent)} games of the paper's table have no run: blank in scores.csv")
    return "; ".join([*said, *(f"left out: {each}" for each in left_out)])


def numbers_of(env: str, known: Sequence[str], means: Mapping[str, Mapping[str, float]]) -> tuple[float | None, ...]:
    """A game's published scores, and those of all agents; None where there is none."""
    family, _, game = env.partition("/")
    references = published().get(game, {}) if family == "atari" else {}
    return (*(references.get(each) for each in known), *(games.get(env) for games in means.values()))


def shown(score: float | None) -> str:
    """To one digit, as in the paper."""
    return BLANK if score is None else f"{score:.1f}"


def best(cells: Sequence[str]) -> list[int]:
    """The highest as they are shown, ties too; none where no agent is above another."""
    scores = {index: float(text) for index, text in enumerate(cells) if text != BLANK}
    highest = max(scores.values(), default=0.0)
    if len(scores) > 1 and min(scores.values()) == highest:
        return []
    return [index for index, score in scores.items() if score == highest]


def draw_scores(
    header: Sequence[str],
    lines: Sequence[Sequence[str]],
    caption: str,
    bold: Sequence[tuple[int, int]],
    out: Path,
) -> None:
    """A column wide if it fits, else as wide as it has to be."""
    widths = column_widths(header, lines)
    draw_table(header, lines, caption, widths, out, "scores", bold, max(COLUMN_INCHES, sum(widths)))
