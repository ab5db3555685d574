"""The page of the study's tables, from what studies/study.py has kept."""

from collections.abc import Iterable, Sequence

from study_atari import ON_ATARI, ByRun, of_one_plan, table_of_atari
from study_fractions import Atom, ByKind, Logged, table_of_collapses, table_of_ends, table_of_fractions
from study_kinds import IQN, Plans, by_size, by_source, by_target, late_or_not
from study_scores import (
    INTERVALS,
    aggregates,
    by_seed,
    table_of_advantages,
    table_of_games,
    table_of_kinds,
)


def page(plans: Plans, learning: ByKind[Logged], ends: ByKind[Sequence[Atom]], tenths: ByRun) -> Iterable[str]:
    finished = {plan: sum(run.finished for run in runs) for plan, runs in plans.items()}
    yield "# The study's tables"
    yield ""
    yield "Printed by `.venv/bin/python studies/study.py` from `results/*.csv`; finished runs by plan: "
    yield ", ".join(f"{plan} {count}" for plan, count in finished.items()) + ". Only finished runs are in the tables;"
    yield "what they mean is in [study.md](study.md)."
    yield from ("", INTERVALS)
    cells = by_seed(plans["agents"])
    yield from ("", "## 1. All agents", "", *table_of_games(cells), *aggregates(cells))
    yield from ("", "### Why IQN is late on Asterix", "", *table_of_kinds(late_or_not(plans), IQN))
    ours, theirs = by_size(plans, "fqf"), by_size(plans, "iqn")
    sizes = {f"`{agent}` at N = {n}": runs[n] for agent, runs in (("fqf", ours), ("iqn", theirs)) for n in runs}
    yield from ("", "## 2. N, on Breakout", "", *table_of_kinds(sizes), "", *table_of_advantages(ours, theirs))
    yield from ("", "## 3. Where fractions come from, on Breakout", "", *table_of_kinds(by_source(plans), "uniform"))
    yield from ("", "## 4. Fractions while values are learned", "", *table_of_fractions(learning))
    yield from ("", "### Where they end, on known laws", "", *table_of_ends(ends))
    yield from ("", "## 5. Targets and bonus, on Breakout, at a hundred times the rate", "")
    yield from table_of_kinds(by_target(plans), "current, no bonus")
    yield from ("", "### Collapses", "", *table_of_collapses(learning))
    for plan, title in ON_ATARI.items():
        yield from ("", title, "", *table_of_atari(by_seed(plans[plan]), of_one_plan(tenths, plan)))
