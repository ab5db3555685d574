"""The tables of the study, from what studies/study.py has kept."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple, TypeVar

import numpy as np

from fqf.laws import LAWS, compare, w1_of_fractions
from fqf.paper.projection import optimal_fractions
from fqf.report.analysis import make_section
from fqf.report.groups import Cells, natural
from fqf.report.records import RunRecord
from fqf.report.statistics import Scores, estimate

Line = Mapping[str, float]
"""Of a run's log, by name of the metric."""
Learning = Mapping[str, Sequence[Line]]
"""By run, PLAN/VARIANT/AGENT/ENV/SEED, what was logged after every tenth of it."""


class Atom(NamedTuple):
    """Of a return."""

    probability: float
    value: float


Ends = Mapping[str, Sequence[Atom]]
"""By run, laws/AGENT/ENV/SEED, what it had learned of its law."""
Found = TypeVar("Found")
COLLAPSED = 0.5
"""A run's fractions have collapsed where their mean entropy falls below so much of that of uniform ones."""

Kinds = dict[str, list[RunRecord]]
"""Runs by what they are called in a table."""


def page(plans: Mapping[str, Sequence[RunRecord]], learning: Learning, ends: Ends) -> Iterable[str]:
    finished = {plan: sum(run.finished for run in runs) for plan, runs in plans.items()}
    yield "# The study's tables"
    yield ""
    yield "Printed by `.venv/bin/python studies/study.py` from `results/*.csv`; finished runs by plan: "
    yield ", ".join(f"{plan} {count}" for plan, count in finished.items()) + ". Only finished runs are in the tables,"
    yield "whose columns say how many seeds they are; what [they mean](study.md)."
    yield from ("", "## 1. All agents", "", *table_of_games(plans["agents"]), *aggregates(plans["agents"]))
    ours = {agent: on_breakout(plans["agents"], agent) for agent in ("fqf", "iqn", "fqf_consistent")}
    sizes: Kinds = {}
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
    yield from ("", collapses(learning))


def on_breakout(runs: Sequence[RunRecord], agent: str) -> list[RunRecord]:
    return [run for run in runs if run.config["agent"] == agent and run.env == "minatar/breakout" and run.finished]


def of_variant(runs: Sequence[RunRecord], variant: str, agent: str) -> list[RunRecord]:
    return [run for run in on_breakout(runs, agent) if variant in run.path.parts]


def last(run: RunRecord) -> float:
    return run.score("last")


def over_the_run(run: RunRecord) -> float:
    """The mean of a run's evaluations, which says how early it learned and jumps less than the last of them."""
    return mean(run.trained)


SCORES: Mapping[str, Callable[[RunRecord], float]] = {
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
            cells += [less(runs, kinds[least], score) if name != least else "" for score in SCORES.values()]
        yield f"| {name} | " + " | ".join(cells) + " |"


def table_of_advantages(sizes: Kinds) -> Iterable[str]:
    yield "| `fqf` less `iqn`, 95 % of a bootstrap over seeds | " + " | ".join(SCORES) + " |"
    yield "|---|" + "---|" * len(SCORES)
    for count in (4, 8, 32):
        fqf, iqn = (sizes[f"`{agent}` at N = {count}"] for agent in ("fqf", "iqn"))
        yield f"| N = {count} | " + " | ".join(less(fqf, iqn, score) for score in SCORES.values()) + " |"


def less(runs: Sequence[RunRecord], others: Sequence[RunRecord], score: Callable[[RunRecord], float]) -> str:
    """Mean score of runs less that of others, and its interval."""
    if not runs or not others:
        return "-"
    return interval(estimate(difference, [np.array([score(run) for run in each]) for each in (runs, others)], 0))


def difference(scores: Scores) -> np.ndarray:
    return scores[0].mean(axis=-1) - scores[1].mean(axis=-1)


def table_of_games(runs: Sequence[RunRecord]) -> Iterable[str]:
    cells = cells_of([run for run in runs if run.finished])
    if not cells:
        yield "No run has finished yet."
        return
    games = sorted({env for each in cells.values() for env in each})
    for name, score in SCORES.items():
        yield f"| {name}: mean (range), seeds | " + " | ".join(game.split("/")[1] for game in games) + " |"
        yield "|---|" + "---|" * len(games)
        for agent, found in cells.items():
            texts = [summed_up([score(run) for run in found.get(game, ())]) for game in games]
            yield f"| `{agent}` | " + " | ".join(texts) + " |"
        yield ""


def cells_of(runs: Sequence[RunRecord]) -> Cells:
    cells: Cells = {}
    for run in runs:
        cells.setdefault(run.config["agent"], {}).setdefault(run.env, []).append(run)
    return cells


def aggregates(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Over the games that all agents have, 0 being the untrained policy and 1 the best agent's mean."""
    section = make_section("minatar", cells_of([run for run in runs if run.finished]), False, 0, 2_000)
    if "last" not in section.aggregates:
        yield "No game has finished runs of all agents yet."
        return
    found = section.aggregates["last"]
    yield f"Over {', '.join(found.games)}; {section.scale.rule}. Intervals: stratified bootstrap, 95 %."
    yield from ("", "| | IQM | mean | optimality gap |", "|---|---|---|---|")
    for label, estimates in found.estimates.items():
        cells = [interval(estimates[name]) for name in ("iqm", "mean", "optimality_gap")]
        yield f"| `{label}` | " + " | ".join(cells) + " |"


def interval(estimate) -> str:
    ends = "" if estimate.low is None else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    return f"{estimate.value:.2f}{ends}"


def by_kind(runs: Mapping[str, Found]) -> dict[str, list[Found]]:
    """By what runs have in common but for their seed."""
    kinds: dict[str, list[Found]] = {}
    for name in sorted(runs, key=natural):
        kinds.setdefault(name.rpartition("/")[0], []).append(runs[name])
    return kinds


def table_of_fractions(learning: Learning) -> Iterable[str]:
    """Means over all runs of a kind, at the first and at the last step that was logged."""
    yield "| runs | seeds | steps | entropy (uniform: 1) | distance from uniform | crossing | W1 | its gradient |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, runs in by_kind(learning).items():
        first, last = ([lines[index] for lines in runs] for index in (0, -1))
        yield (
            f"| {name} | {len(runs)} | {over(first, last, 'step', 1, 0)} | "
            + " | ".join(
                over(first, last, key, math.log(size_of(name)) if key == "fraction_entropy" else 1, digits)
                for key, digits in (
                    ("fraction_entropy", 3),
                    ("fraction_shift", 3),
                    ("crossing_rate", 3),
                    ("w1_estimate", 3),
                    ("w1_gradient_norm", 1),
                )
            )
            + " |"
        )


def table_of_ends(ends: Ends) -> Iterable[str]:
    """Runs of one agent on one law: mean (range) over seeds, beside what eight atoms can do at best."""
    yield "| law, agent | seeds | W1 to the law | least at its fractions | least of all | furthest off the best |"
    yield "|---|---|---|---|---|---|"
    for kind, runs in by_kind(ends).items():
        _, agent, env = kind.split("/")
        (law,) = LAWS[env.replace(".", "/")]
        optimal = optimal_fractions(law.quantile, len(runs[0]))
        arrays = [np.array(atoms).T for atoms in runs]
        found = [compare(law.quantile, *each) for each in arrays]
        astray = [np.abs(np.cumsum(probabilities)[:-1] - optimal[1:-1]).max() for probabilities, _ in arrays]
        cells = [ranged([each.w1 for each in found]), ranged([each.fractions for each in found])]
        cells += [f"{w1_of_fractions(law.quantile, optimal):.3f}", ranged(astray)]
        yield f"| {law.name}, `{agent}` | {len(runs)} | " + " | ".join(cells) + " |"


def ranged(values: Sequence[float]) -> str:
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def over(first: Sequence[Mapping], last: Sequence[Mapping], key: str, unit: float, digits: int) -> str:
    return " to ".join(f"{mean(line[key] for line in lines) / unit:,.{digits}f}" for lines in (first, last))


def size_of(name: str) -> int:
    """N, from the plan's variant."""
    return 4 if "/n4/" in name else 32 if "/n32/" in name else 8


def collapses(learning: Learning) -> str:
    lowest = {
        name: min(line["fraction_entropy"] for line in lines) / math.log(size_of(name))
        for name, lines in learning.items()
    }
    count = sum(value < COLLAPSED for value in lowest.values())
    return (
        f"Collapsed fractions (entropy below {COLLAPSED:g} of that of uniform ones, at any line of "
        f"`results/learning.csv`): {count} of {len(lowest)} runs"
        + (f"; the lowest is {min(lowest.values()):.2f}." if lowest else ".")
    )
