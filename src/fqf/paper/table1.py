"""Table 1: human-normalised mean and median, games above human and above DQN; printed, recomputed, and of runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fqf.paper.runs import read_scores
from fqf.paper.style import AGENTS, BLANK, NAMES, draw_table, write_csv
from fqf.report.plots import count
from fqf.report.scores import PLAYERS, PrintedRow, aggregate, published, recomputed, table1

HEADER = ("", "mean %", "median %", "> human", "> DQN")


@dataclass(frozen=True)
class Options:
    """The paper's table 1, printed beside recomputed from the paper's raw scores; and the same from runs."""

    out: Path = Path("paper")
    """Directory to write into."""
    runs: tuple[Path, ...] = ()
    """Atari runs, directories of them, or files of collected scores, for a table of their own."""
    score: Literal["last", "best"] = "last"
    """Which of a run's scores; each game's is the mean over seeds."""


def make(options: Options) -> str:
    said = make_printed(options.out)
    if options.runs:
        said += "; " + make_from_runs(options)
    return said


def make_printed(out: Path) -> str:
    printed = table1()
    again = {agent: recomputed(agent) for agent in PLAYERS}
    lines, rows = [], []
    for agent in AGENTS:
        cells = []
        for name in PrintedRow._fields:
            there = getattr(printed[agent], name) if agent in printed else None
            here = getattr(again[agent], name) if agent in again else None
            agree = None if there is None or here is None else agrees(there, here)
            rows.append((agent, name, there, here, {None: None, True: "yes", False: "no"}[agree]))
            mark = "*" if agree is False else ""
            cells.append(f"{whole(there)} | {whole(here)}{mark}")
        lines.append((NAMES[agent], *cells))
    write_csv(out / "table1.csv", ("agent", "measure", "printed", "recomputed", "agree"), rows)
    compared = [row[4] for row in rows if row[4] is not None]
    caption = "printed | recomputed from the paper's raw scores\n* differs; - not in the paper"
    draw_table(HEADER, lines, caption, (1.05, 1.1, 1.0, 0.85, 0.85), out, "table1")
    return (
        "the paper's raw scores (55 games, one seed) beside its table 1 (averages over 3 seeds): "
        f"{compared.count('yes')} of {len(compared)} cells agree"
    )


def agrees(printed: float | int, recomputed: float | int) -> bool:
    """As far as it is printed: to whole numbers."""
    return abs(printed - recomputed) <= 0.5


def whole(number: float | int | None) -> str:
    return BLANK if number is None else f"{number:.0f}"


def make_from_runs(options: Options) -> str:
    scores = read_scores(options.runs, options.score)
    wanted = (*AGENTS, *sorted(set(scores.games) - set(AGENTS)))
    means = {
        agent: {game: float(np.mean(seeds)) for game, seeds in games.items()} for agent, games in scores.games.items()
    }
    rows, lines = [], []
    for agent in wanted:
        mine = means.get(agent, {})
        row = row_of(mine, means.get("dqn", {}))
        missing = [game for game in published() if game not in mine]
        seeds = sorted({len(each) for each in scores.games.get(agent, {}).values()})
        rows.append((agent, *row, len(mine), "-".join(map(str, seeds[:: max(1, len(seeds) - 1)])), " ".join(missing)))
        lines.append((NAMES.get(agent, agent), *map(whole, row), str(len(mine)) if mine else BLANK))
    columns = ("agent", *PrintedRow._fields, "games", "seeds", "games_missing")
    write_csv(options.out / "table1_runs.csv", columns, rows)
    absent = [agent for agent in wanted if agent not in means]
    few = [f"{agent} has {len(games)}" for agent, games in means.items() if len(games) < len(published())]
    caption = f"{options.score} scores, {scores.protocol}; each agent over the games that it has"
    caption += "\n- no runs of it, or of DQN on all of its games"
    draw_table((*HEADER, "games"), lines, caption, (1.3, 0.8, 1.03, 1.0, 0.82, 0.75), options.out, "table1_runs")
    number = sum(len(seeds) for games in scores.games.values() for seeds in games.values())
    places = ", ".join(map(str, options.runs))
    said = [f"table1_runs.png, .svg, .csv: {places}: {options.score} scores of {count(number, 'run')}"]
    said += [f"no runs of {', '.join(absent)}"] if absent else []
    said += [f"of {len(published())} games {', '.join(few)} (table1_runs.csv names those missing)"] if few else []
    said += [f"left out: {each}" for each in scores.left_out]
    if "dqn" not in means:
        said.append("> DQN is blank without runs of dqn")
    for agent, games in means.items():
        if "dqn" in means and (alone := [game for game in games if game not in means["dqn"]]):
            said.append(f"> DQN of {agent} is blank: no run of dqn on {', '.join(alone)}")
    return "; ".join(said)


def row_of(scores: Mapping[str, float], dqn: Mapping[str, float]) -> tuple[float | int | None, ...]:
    """A row of the table; blank where there is nothing to compute it from, never filled in from elsewhere."""
    if not scores:
        return (None,) * len(PrintedRow._fields)
    total = aggregate(scores)
    both = [game for game in scores if game in dqn]
    above_dqn = sum(scores[game] > dqn[game] for game in both) if len(both) == len(scores) else None
    return total.mean, total.median, total.above_human, above_dqn
