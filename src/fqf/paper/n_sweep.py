"""The appendix's table over N: scores of FQF and IQN with different numbers of fractions."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fqf.errors import UserError
from fqf.paper.runs import (
    chosen,
    how_scored,
    lacking,
    only_finished,
    own_file,
    read_runs,
    refuse_protocols,
    seeds_in_words,
)
from fqf.paper.style import BLANK, COLUMN_INCHES, NAMES, by_agent, column_widths, draw_table, game_name, write_csv
from fqf.report.analysis import common_games, games_of, human_scale, left_out, score_groups, span_scale
from fqf.report.groups import Cells, family, variants
from fqf.report.plots import count
from fqf.report.records import RunRecord

NUMBERS = ("num_fractions", "num_quantiles", "num_target_quantiles", "num_action_quantiles")


@dataclass(frozen=True)
class Options:
    """The appendix's table over N: scores of FQF and IQN with different numbers of fractions, from runs."""

    out: Path = Path("paper")
    """Directory to write into."""
    runs: tuple[Path, ...] = ()
    """Runs, directories of them, or files of collected scores; if not given, results/n_sweep.csv, and of
    results/agents.csv the same games."""
    agents: str = "iqn,fqf"
    """Whose scores, with commas between them."""
    score: Literal["last", "best"] = "last"
    """Which of a run's scores; each cell is the mean over seeds."""


class Kind(NamedTuple):
    """An agent with some numbers of fractions: N at which it is trained and, of IQN, N' at which the target is asked,
    and K over which a value is averaged to act."""

    agent: str
    n: int
    n_target: int | None
    k: int | None

    @property
    def label(self) -> str:
        return label(self.agent, self.n)


def label(agent: str, n: int) -> str:
    return f"{agent} at N = {n}"


class Sweep(NamedTuple):
    """What the table says."""

    kinds: list[Kind]
    """In the order of agents, then of N."""
    cells: Cells
    """Runs by label, then by environment."""
    means: dict[str, dict[str, float]]
    """Of the seeds, by label, then by environment."""
    percents: dict[str, float]
    """Mean over the games that all kinds have, by label."""
    rule: str
    """What they are percents of; nothing where there is no such game."""
    left_out: list[str]
    """Games that they are not of, and why."""


def make(options: Options) -> str:
    found, passed_over, places = read_runs(options.runs, "n_sweep", "agents")
    if not options.runs:
        found = on_swept_games(found)
    picked, _, missing = chosen(found, options.agents)
    runs = only_finished(picked, passed_over)
    refuse_protocols(runs, "table")
    sweep = sum_up(runs, options.score)
    write_data(sweep, options.out)
    counts = seeds_in_words(len(seeds) for games in sweep.cells.values() for seeds in games.values())
    about = [words for agent in agents_of(sweep) if (words := about_quantiles(agent, sweep))]
    scored = f"{options.score} score of a run, mean over {counts}; {how_scored(runs)}"
    draw_sweep(sweep, "\n".join([scored, *([sweep.rule] if sweep.rule else []), *about]), options.out)
    said = [f"{places}: {options.score} scores of {count(len(runs), 'run')}, {counts}", *about, *sweep.left_out]
    said += [f"no runs of {name}" for name in (*missing, *(kind.label for kind in absent_kinds(sweep)))]
    said += lacking(sweep.means, games_of(sweep.cells))
    said += [f"left out: {each}" for each in passed_over]
    return "; ".join(said)


def on_swept_games(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The comparison of all agents, which has one of the N, may have more games than the sweep over N."""
    swept = {run.env for run in runs if run.path.is_relative_to(own_file("n_sweep"))}
    return [run for run in runs if run.env in swept]


def sum_up(runs: Sequence[RunRecord], score: str) -> Sweep:
    refuse_other_options(runs)
    order = by_agent({run.config["agent"] for run in runs})
    kinds = sorted({kind_of(run) for run in runs}, key=lambda kind: (order.index(kind.agent), *kind[1:]))
    for one, other in itertools.pairwise(kinds):
        if one.label == other.label:
            numbers = " and ".join(f"N' = {kind.n_target}, K = {kind.k}" for kind in (one, other))
            raise UserError(f"{one.label} has runs with {numbers}: name runs of one kind")
    cells: Cells = {kind.label: {} for kind in kinds}
    for run in runs:
        cells[kind_of(run).label].setdefault(run.env, []).append(run)
    groups = score_groups(cells, score)
    atari = family(runs[0].env) == "atari"
    scale = human_scale(games_of(cells)) if atari else span_scale(cells, groups)
    games = common_games(groups, scale)
    means = {group.label: {env: float(each.mean()) for env, each in group.scores.items()} for group in groups}
    percents = {
        name: 100 * sum(scale.normalize(env, mine[env]) for env in games) / len(games)
        for name, mine in means.items()
        if games
    }
    ends = "random play, 100 the human" if atari else "the untrained policy, 100 the best score of a game here"
    of = ", ".join(map(game_name, games)) if len(games) < len(games_of(cells)) else count(len(games), "game")
    rule = f"mean %: over {of}; 0 is {ends}" if games else ""
    unused = [f"not in mean %: {words.rstrip('.')}" for words in left_out(groups, games, scale)]
    return Sweep(kinds, cells, means, percents, rule, unused)


def kind_of(run: RunRecord) -> Kind:
    fractions, quantiles, target, action = (run.config.get(name) for name in NUMBERS)
    n = quantiles if fractions is None else fractions
    if n is None:
        raise UserError(f"{run.config['agent']} has no number of fractions: leave it out of --agents")
    return Kind(run.config["agent"], n, target, action)


def refuse_other_options(runs: Sequence[RunRecord]) -> None:
    """A table over N must differ by N alone."""
    families = sorted({family(run.env) for run in runs})
    if len(families) > 1:
        raise UserError(f"one table takes one family of environments, but these are of {' and '.join(families)}")
    for (agent, _), options in variants(runs).items():
        if others := [option for option in options if option not in NUMBERS]:
            raise UserError(
                f"only N may differ, but runs of {agent} differ by {', '.join(others)}: name runs of one kind"
            )


def agents_of(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(kind.agent for kind in sweep.kinds))


def absent_kinds(sweep: Sweep) -> list[Kind]:
    """Those that an agent lacks of all N that any agent has."""
    there = {kind.label for kind in sweep.kinds}
    numbers = sorted({kind.n for kind in sweep.kinds})
    return [Kind(agent, n, None, None) for agent in agents_of(sweep) for n in numbers if label(agent, n) not in there]


def about_quantiles(agent: str, sweep: Sweep) -> str:
    """How N' and K of IQN were chosen, from the configs of its runs."""
    mine = [kind for kind in sweep.kinds if kind.agent == agent and kind.n_target is not None]
    if not mine:
        return ""
    name = NAMES.get(agent, agent)
    if all(kind.n == kind.n_target == kind.k for kind in mine):
        return (
            f"{name}: N' = K = N in the config of every run, so that it asks N times in training, in targets and to act"
        )
    numbers = ", ".join(f"{kind.n_target} and {kind.k} at N = {kind.n}" for kind in mine)
    return f"{name}: N' and K as in the runs' configs: {numbers}"


def write_data(sweep: Sweep, out: Path) -> None:
    """A row for every score, blank where there is none; those of all games are the percents."""
    rows: list[tuple[Any, ...]] = [
        (*kind, env, sweep.means.get(kind.label, {}).get(env), len(sweep.cells.get(kind.label, {}).get(env, [])))
        for kind in (*sweep.kinds, *absent_kinds(sweep))
        for env in games_of(sweep.cells)
    ]
    rows += [(*kind, "mean_percent", sweep.percents.get(kind.label), None) for kind in sweep.kinds]
    write_csv(out / "n-sweep.csv", (*Kind._fields, "env", "score", "seeds"), rows)


def draw_sweep(sweep: Sweep, caption: str, out: Path) -> None:
    """Agents below each other, N across, as in the paper; below its means the games that they are of."""
    numbers, agents = sorted({kind.n for kind in sweep.kinds}), agents_of(sweep)

    def row(title: str, agent: str, found: Mapping[str, float | int | None], digits: int) -> tuple[str, ...]:
        cells = [found.get(label(agent, n)) for n in numbers]
        return (title, NAMES.get(agent, agent), *(BLANK if each is None else f"{each:.{digits}f}" for each in cells))

    parts: dict[str, Mapping[str, float | int | None]] = {"mean %": {**sweep.percents}} if sweep.rule else {}
    for env in games_of(sweep.cells):
        parts[game_name(env)] = {name: games.get(env) for name, games in sweep.means.items()}
    lines = [
        row("" if index else title, agent, found, 1)
        for title, found in parts.items()
        for index, agent in enumerate(agents)
    ]
    for title, counts in (
        ("N'", {kind.label: kind.n_target for kind in sweep.kinds}),
        ("K", {kind.label: kind.k for kind in sweep.kinds}),
    ):
        owners = [agent for agent in agents if any(counts.get(label(agent, n)) is not None for n in numbers)]
        lines += [row(title, agent, counts, 0) for agent in owners]
    header = ("", "", *(f"N={n}" for n in numbers))
    widths = column_widths(header, lines)
    draw_table(header, lines, caption, widths, out, "n-sweep", (), max(COLUMN_INCHES, sum(widths)))
