"""The page of the study's tables, from what studies/study.py has kept."""

from collections.abc import Iterable, Mapping, Sequence

from study_fractions import Atom, ByKind, Logged, table_of_collapses, table_of_ends, table_of_fractions
from study_scores import (
    INTERVALS,
    aggregates,
    by_seed,
    table_of_advantages,
    table_of_atari,
    table_of_games,
    table_of_kinds,
)

from fqf.report.records import RunRecord


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
    acting = {
        "K = 8, as above": on_game(plans["agents"], "iqn", "minatar/asterix"),
        "K = 32, as published": on_game(plans["acting"], "iqn", "minatar/asterix"),
    }
    yield from ("", "### IQN's K, on Asterix", "", *table_of_kinds(acting, "K = 8, as above"))
    ours = {agent: on_game(plans["agents"], agent) for agent in ("fqf", "iqn", "fqf_consistent")}
    sizes: dict[str, Sequence[RunRecord]] = {}
    for agent in ("fqf", "iqn"):
        sizes[f"`{agent}` at N = 4"] = of_variant(plans["n_sweep"], "n4", agent)
        sizes[f"`{agent}` at N = 8"] = ours[agent]
        sizes[f"`{agent}` at N = 32"] = of_variant(plans["n_sweep"], "n32", agent)
    yield from ("", "## 2. N, on Breakout", "", *table_of_kinds(sizes), "", *table_of_advantages(sizes))
    sources = {"proposed (the paper's rate)": ours["fqf"]}
    sources |= {name: of_variant(plans["fractions"], name, "fqf") for name in ("frozen", "uniform", "random")}
    sources |= {
        "random, widths as weights": of_variant(plans["fractions"], "random_widths", "fqf"),
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


def on_game(runs: Sequence[RunRecord], agent: str, game: str = "minatar/breakout") -> list[RunRecord]:
    return [run for run in runs if run.config["agent"] == agent and run.env == game and run.finished]


def of_variant(runs: Sequence[RunRecord], variant: str, agent: str) -> list[RunRecord]:
    return [run for run in on_game(runs, agent) if variant in run.path.parts]
