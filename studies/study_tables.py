"""The tables of the study, from what studies/study.py has kept."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fqf.laws import LAWS, compare, w1_of_fractions
from fqf.paper.projection import optimal_fractions
from fqf.paper.style import by_agent
from fqf.report.analysis import games_of, make_section
from fqf.report.dopamine import PublishedCurve, dopamine_curves
from fqf.report.groups import Cells, natural, show
from fqf.report.records import RunRecord
from fqf.report.statistics import Estimate, Scores, estimate

Line = Mapping[str, float]
"""Of a run's log, by name of the metric; the entropy of fractions is a share of that of uniform ones."""


class Logged(NamedTuple):
    """What a run logged of its fractions."""

    config: Mapping[str, Any]
    lines: Sequence[Line]
    """After every tenth of it."""


class Atom(NamedTuple):
    """Of a return."""

    probability: float
    value: float


Found = TypeVar("Found")
ByKind = Mapping[str, Sequence[Found]]
"""Of all seeds, by what their runs have in common: PLAN/VARIANT/AGENT/ENV."""
Kinds = Mapping[str, Sequence[RunRecord]]
"""Runs by what they are called in a table."""

COLLAPSED = 0.5
"""A run's fractions have collapsed where their mean entropy falls below so much of that of uniform ones."""
INTERVALS = (
    "Intervals are the middle 95 % of a stratified bootstrap over seeds. With so few of them they are too narrow: they "
    "hold the truth about half of the time with two seeds of one game, 72 % with three ([simulated](../report.md))."
)


def page(
    plans: Mapping[str, Sequence[RunRecord]], learning: ByKind[Logged], ends: ByKind[Sequence[Atom]]
) -> Iterable[str]:
    finished = {plan: sum(run.finished for run in runs) for plan, runs in plans.items()}
    yield "# The study's tables"
    yield ""
    yield "Printed by `.venv/bin/python studies/study.py` from `results/*.csv`; finished runs by plan: "
    yield ", ".join(f"{plan} {count}" for plan, count in finished.items()) + ". Only finished runs are in the tables;"
    yield "what they mean is in [study.md](study.md)."
    yield from ("", INTERVALS)
    cells = by_seed(plans["agents"])
    yield from ("", "## 1. All agents", "", *table_of_games(cells), *aggregates(cells))
    ours = {agent: on_breakout(plans["agents"], agent) for agent in ("fqf", "iqn", "fqf_consistent")}
    sizes: dict[str, Sequence[RunRecord]] = {}
    for agent in ("fqf", "iqn"):
        sizes[f"`{agent}` at N = 4"] = of_variant(plans["n_sweep"], "n4", agent)
        sizes[f"`{agent}` at N = 8"] = ours[agent]
        sizes[f"`{agent}` at N = 32"] = of_variant(plans["n_sweep"], "n32", agent)
    yield from ("", "## 2. N, on Breakout", "", *table_of_kinds(sizes), "", *table_of_advantages(sizes))
    sources = {"proposed (the paper's rate)": ours["fqf"]}
    sources |= {name: of_variant(plans["fractions"], name, "fqf") for name in ("frozen", "uniform", "random")}
    sources |= {
        "proposed, a hundred times the rate": of_variant(plans["fractions"], "moving", "fqf"),
        "`fqf_consistent` (the paper's rate)": ours["fqf_consistent"],
        "`fqf_consistent`, four hundred times the rate": of_variant(plans["moving"], "moving", "fqf_consistent"),
    }
    yield from ("", "## 3. Where fractions come from, on Breakout", "", *table_of_kinds(sources, "uniform"))
    yield from ("", "## 4. Fractions while values are learned", "", *table_of_fractions(learning))
    yield from ("", "### Where they end, on known laws", "", *table_of_ends(ends))
    targets = {
        "current, no bonus": of_variant(plans["fractions"], "moving", "fqf"),
        "next": of_variant(plans["targets"], "next", "fqf"),
        "a bonus of 1": of_variant(plans["targets"], "bonus", "fqf"),
    }
    yield from ("", "## 5. Targets and bonus, on Breakout, at a hundred times the rate", "")
    yield from table_of_kinds(targets, "current, no bonus")
    yield from ("", "### Collapses", "", *table_of_collapses(learning))
    yield from ("", "## 6. Atari", "", *table_of_atari(by_seed(plans["atari"])))


def on_breakout(runs: Sequence[RunRecord], agent: str) -> list[RunRecord]:
    return [run for run in runs if run.config["agent"] == agent and run.env == "minatar/breakout" and run.finished]


def of_variant(runs: Sequence[RunRecord], variant: str, agent: str) -> list[RunRecord]:
    return [run for run in on_breakout(runs, agent) if variant in run.path.parts]


Score = Callable[[RunRecord], float]


def last(run: RunRecord) -> float:
    return run.score("last")


def over_the_run(run: RunRecord) -> float:
    """The mean of a run's evaluations, which says how early it learned and jumps less than the last of them."""
    return mean(run.trained)


SCORES: Mapping[str, Score] = {
    "last score": last,
    "mean over a run's evaluations": over_the_run,
}


def summed_up(scores: Sequence[float]) -> str:
    """Their mean, their range, and how many they are."""
    if not scores:
        return "-"
    spread = f" ({min(scores):.1f} to {max(scores):.1f})" if len(scores) > 1 else ""
    return f"{mean(scores):.1f}{spread}, {len(scores)}"


def table_of_kinds(kinds: Kinds, least: str | None = None) -> Iterable[str]:
    """Their scores and, where one is named to compare the others with, what they are ahead of it."""
    compared = [f"{name} less that of *{least}*" for name in SCORES] if least else []
    yield "| | " + " | ".join([*(f"{name}: mean (range), seeds" for name in SCORES), *compared]) + " |"
    yield "|---|" + "---|" * (len(SCORES) + len(compared))
    for name, runs in kinds.items():
        cells = [summed_up([score(run) for run in runs]) for score in SCORES.values()]
        if least:
            cells += [less([runs], [kinds[least]], score) if name != least else "" for score in SCORES.values()]
        yield f"| {name} | " + " | ".join(cells) + " |"


def table_of_advantages(sizes: Kinds) -> Iterable[str]:
    """And how much larger the advantage is at the smallest N than at the largest."""
    (fqf4, iqn4), at8, (fqf32, iqn32) = (
        [sizes[f"`{agent}` at N = {n}"] for agent in ("fqf", "iqn")] for n in (4, 8, 32)
    )
    rows = {
        "N = 4": ([fqf4], [iqn4]),
        "N = 8": (at8[:1], at8[1:]),
        "N = 32": ([fqf32], [iqn32]),
        "N = 4 less N = 32": ([fqf4, iqn32], [iqn4, fqf32]),
    }
    yield "| `fqf` less `iqn` | " + " | ".join(SCORES) + " |"
    yield "|---|" + "---|" * len(SCORES)
    for name, (plus, minus) in rows.items():
        yield f"| {name} | " + " | ".join(less(plus, minus, score) for score in SCORES.values()) + " |"


def less(plus: Sequence[Sequence[RunRecord]], minus: Sequence[Sequence[RunRecord]], score: Score) -> str:
    """Mean scores of kinds of runs, added up, less those of others; with an interval, each kind resampled by itself."""
    kinds = [*plus, *minus]
    if not all(kinds):
        return "-"
    signs = [1] * len(plus) + [-1] * len(minus)

    def statistic(scores: Scores) -> np.ndarray:
        return sum(sign * each.mean(axis=-1) for sign, each in zip(signs, scores, strict=True))

    return interval(estimate(statistic, [np.array([score(run) for run in runs]) for runs in kinds], 0))


def table_of_games(cells: Cells) -> Iterable[str]:
    if not cells:
        yield "No run has finished yet."
        return
    games = games_of(cells)
    for name, score in SCORES.items():
        yield f"| {name}: mean (range), seeds | " + " | ".join(game.split("/")[1] for game in games) + " |"
        yield "|---|" + "---|" * len(games)
        for agent, found in cells.items():
            texts = [summed_up([score(run) for run in found.get(game, ())]) for game in games]
            yield f"| `{agent}` | " + " | ".join(texts) + " |"
        yield ""


def by_seed(runs: Sequence[RunRecord]) -> Cells:
    """Finished runs by agent, in the paper's order, and environment."""
    cells: Cells = {}
    for run in sorted((run for run in runs if run.finished), key=lambda run: run.config["seed"]):
        cells.setdefault(run.config["agent"], {}).setdefault(run.env, []).append(run)
    return {agent: cells[agent] for agent in by_agent(cells)}


def of_common_seeds(cells: Cells) -> tuple[Cells, list[int]]:
    """The runs with seeds that all agents have on all games: with more seeds of one game, it would weigh more."""
    games = games_of(cells)
    there = [{run.config["seed"] for run in found.get(game, ())} for found in cells.values() for game in games]
    seeds = set.intersection(*there) if there else set()
    kept = {
        agent: {game: [run for run in runs if run.config["seed"] in seeds] for game, runs in found.items()}
        for agent, found in cells.items()
    }
    return kept, sorted(seeds)


def aggregates(cells: Cells) -> Iterable[str]:
    """Over all games, 0 being the untrained policy and 1 the best agent's mean."""
    cells, seeds = of_common_seeds(cells)
    if not seeds:
        yield "No seed has finished with all agents on all games yet."
        return
    section = make_section("minatar", cells, False, 0, 2_000)
    found = section.aggregates["last"]
    yield f"Last scores over {', '.join(found.games)}, seeds {', '.join(map(str, seeds))}, which all have;"
    yield f"{section.scale.rule}."
    yield from ("", "| | IQM | mean | optimality gap |", "|---|---|---|---|")
    for label, estimates in found.estimates.items():
        texts = [interval(estimates[name]) for name in ("iqm", "mean", "optimality_gap")]
        yield f"| `{label}` | " + " | ".join(texts) + " |"


def interval(estimate: Estimate) -> str:
    ends = "" if estimate.low is None else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    return f"{estimate.value:.2f}{ends}"


def by_kind(runs: Mapping[str, Found]) -> dict[str, list[Found]]:
    """By what runs have in common but for their seed."""
    kinds: dict[str, list[Found]] = {}
    for name in sorted(runs, key=natural):
        kinds.setdefault(name.rpartition("/")[0], []).append(runs[name])
    return kinds


def table_of_fractions(learning: ByKind[Logged]) -> Iterable[str]:
    """Means over all runs of a kind, at the first and at the last step that was logged."""
    columns = {
        "entropy (uniform: 1)": ("fraction_entropy", 3),
        "largest distance from uniform": ("fraction_shift", 3),
        "crossings": ("crossing_rate", 3),
        "estimate of W1": ("w1_estimate", 3),
        "norm of its gradient": ("w1_gradient_norm", 1),
    }
    yield "From the first to the last line of `results/learning.csv`. W1 is estimated between the outermost fractions, "
    yield "from values that are being learned: it is not the distance to any law."
    yield from ("", "| runs | seeds | steps | " + " | ".join(columns) + " |", "|---|---|---|" + "---|" * len(columns))
    for name, runs in learning.items():
        texts = [from_first_to_last(runs, key, digits) for key, digits in columns.values()]
        yield f"| {name} | {len(runs)} | {from_first_to_last(runs, 'step', 0)} | " + " | ".join(texts) + " |"


def from_first_to_last(runs: Sequence[Logged], key: str, digits: int) -> str:
    return " to ".join(f"{mean(run.lines[index][key] for run in runs):,.{digits}f}" for index in (0, -1))


def table_of_ends(ends: ByKind[Sequence[Atom]]) -> Iterable[str]:
    """Runs of one agent on one law: mean (range) over seeds, beside what as many atoms can do at best."""
    yield "| plan, law, agent | seeds | W1 to the law | least at its fractions | least of all | furthest off the best |"
    yield "|---|---|---|---|---|---|"
    for kind, runs in ends.items():
        plan, agent, env = kind.split("/")
        (law,) = LAWS[env.replace(".", "/")]
        optimal = optimal_fractions(law.quantile, len(runs[0]))
        arrays = [np.array(atoms).T for atoms in runs]
        found = [compare(law.quantile, *each) for each in arrays]
        astray = [np.abs(np.cumsum(probabilities)[:-1] - optimal[1:-1]).max() for probabilities, _ in arrays]
        texts = [ranged([each.w1 for each in found]), ranged([each.fractions for each in found])]
        texts += [f"{w1_of_fractions(law.quantile, optimal):.4f}", ranged(astray)]
        yield f"| {plan}, {law.name}, `{agent}` | {len(runs)} | " + " | ".join(texts) + " |"


def ranged(values: Sequence[float]) -> str:
    return f"{mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def table_of_collapses(learning: ByKind[Logged]) -> Iterable[str]:
    """Of runs whose fractions are learned, by how fast."""
    kinds: dict[tuple[str, str], list[float]] = {}
    for run in (run for runs in learning.values() for run in runs):
        if run.config["fractions"] == "proposed":
            key = (run.config["agent"], show(run.config["fraction_learning_rate"]))
            kinds.setdefault(key, []).append(min(line["fraction_entropy"] for line in run.lines))
    yield f"A run has collapsed where the entropy of its fractions is below {COLLAPSED:g} of that of uniform ones at"
    yield "any line of `results/learning.csv`. Only runs whose fractions are learned are counted."
    yield from ("", "| agent, rate of fractions | runs | collapsed | lowest entropy |", "|---|---|---|---|")
    for (agent, rate), lowest in sorted(kinds.items()):
        count = sum(value < COLLAPSED for value in lowest)
        yield f"| `{agent}`, {rate} | {len(lowest)} | {count} | {min(lowest):.2f} |"


def table_of_atari(cells: Cells) -> Iterable[str]:
    """Training returns at the end of the runs beside those that Dopamine published at the same frames."""
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
    names = {curve.agent for game in games for curve in published_of(game)}
    for name in sorted(names):
        texts = [published_at(game, name, frames[game]) for game in games]
        yield f"| {name}, published | " + " | ".join(texts) + " |"


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
