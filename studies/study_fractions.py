"""The study's tables of fractions: what they do while values are learned, where they end, and whether they collapse."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fqf.laws import LAWS, QuantileFunction, compare, w1_of_fractions
from fqf.paper.projection import optimal_fractions
from fqf.report.groups import natural, show

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

COLLAPSED = 0.5
"""A run's fractions have collapsed where their mean entropy falls below so much of that of uniform ones."""


def by_kind(runs: Mapping[str, Found]) -> dict[str, list[Found]]:
    """By what runs have in common but for their seed."""
    kinds: dict[str, list[Found]] = {}
    for name in sorted(runs, key=natural):
        kinds.setdefault(name.rpartition("/")[0], []).append(runs[name])
    return kinds


def table_of_fractions(learning: ByKind[Logged]) -> Iterable[str]:
    """Means over all runs of a kind at the first and at the last step that was logged, and the last of its runs."""
    columns = {
        "entropy (uniform: 1)": ("fraction_entropy", 3),
        "largest distance from uniform": ("fraction_shift", 3),
        "crossings": ("crossing_rate", 3),
        "estimate of W1": ("w1_estimate", 3),
        "norm of its gradient": ("w1_gradient_norm", 1),
        "mean value": ("q", 1),
    }
    yield "From the first to the last line of `results/learning.csv`: means of all seeds, and the range of the last."
    yield "W1 is estimated between the outermost fractions, from values that are being learned: it is not the distance"
    yield "to any law."
    yield from ("", "| runs | seeds | steps | " + " | ".join(columns) + " |", "|---|---|---|" + "---|" * len(columns))
    for name, runs in learning.items():
        texts = [from_first_to_last(runs, key, digits) for key, digits in columns.values()]
        yield f"| {name} | {len(runs)} | {from_first_to_last(runs, 'step', 0)} | " + " | ".join(texts) + " |"


def from_first_to_last(runs: Sequence[Logged], key: str, digits: int) -> str:
    """Means; and the range of the last, where runs differ."""
    first, last = ([run.lines[index][key] for run in runs] for index in (0, -1))
    ends = [f"{end:,.{digits}f}" for end in (mean(first), mean(last), min(last), max(last))]
    spread = f" ({ends[2]} to {ends[3]})" if len(set(last)) > 1 else ""
    return f"{ends[0]} to {ends[1]}{spread}"


def table_of_ends(ends: ByKind[Sequence[Atom]]) -> Iterable[str]:
    """Runs of one agent on one law: mean (range) over seeds, beside what as many atoms can do at best."""
    columns = ("W1 to the law", "least at its fractions", "at equal ones", "of all", "furthest off the best")
    yield "| plan, law, agent | seeds | " + " | ".join(columns) + " |"
    yield "|---|---|" + "---|" * len(columns)
    for kind, runs in ends.items():
        plan, agent, env = kind.split("/")
        (law,) = LAWS[env.replace(".", "/")]
        optimal = best_fractions(law.quantile, len(runs[0]))
        arrays = [np.array(atoms).T for atoms in runs]
        found = [compare(law.quantile, *each) for each in arrays]
        astray = [np.abs(np.cumsum(probabilities)[:-1] - optimal[1:-1]).max() for probabilities, _ in arrays]
        texts = [ranged([each.w1 for each in found]), ranged([each.fractions for each in found])]
        texts += [f"{w1_of_fractions(law.quantile, each):.4f}" for each in (np.linspace(0, 1, len(optimal)), optimal)]
        texts.append(ranged(astray))
        yield f"| {plan}, {law.name}, `{agent}` | {len(runs)} | " + " | ".join(texts) + " |"


@functools.cache
def best_fractions(quantile: QuantileFunction, count: int) -> np.ndarray:
    """Once for all plans and agents."""
    return optimal_fractions(quantile, count)


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
