"""Which runs stand beside each other, by question, and what they are called there."""

from collections.abc import Mapping, Sequence

from fqf.report.records import RunRecord

Kinds = Mapping[str, Sequence[RunRecord]]
"""Runs by what they are called in a table."""
Plans = Mapping[str, Sequence[RunRecord]]
"""All runs by plan."""
SIZES = (4, 8, 32)
"""N, of question 2."""
IQN = "`iqn`, as above"


def late_or_not(plans: Plans) -> Kinds:
    """IQN, which is late on Asterix, and what might be why."""
    return {
        IQN: on_game(plans["agents"], "iqn", "minatar/asterix"),
        "`iqn`, K = 32, as published": on_game(plans["acting"], "iqn", "minatar/asterix"),
        "`fqf`, random fractions, widths as weights": on_game(plans["drawn"], "fqf", "minatar/asterix"),
        "`fqf`, as above": on_game(plans["agents"], "fqf", "minatar/asterix"),
    }


def by_size(plans: Plans, agent: str) -> dict[int, Sequence[RunRecord]]:
    """By N, one of SIZES: 8 are of question 1."""
    runs = on_game([*plans["agents"], *plans["n_sweep"]], agent)
    name = {"fqf": "num_fractions", "iqn": "num_quantiles"}[agent]
    return {size: [run for run in runs if run.config[name] == size] for size in SIZES}


def by_source(plans: Plans) -> Kinds:
    names = {
        "frozen": "frozen",
        "frozen_widths": "frozen, widths as weights",
        "uniform": "uniform",
        "random": "random",
        "random_widths": "random, widths as weights",
        "moving": "proposed, a hundred times the rate",
        "moving_widths": "proposed, a hundred times the rate, widths as weights",
    }
    return {
        "proposed (the paper's rate)": on_game(plans["agents"], "fqf"),
        **{name: of_variant(plans["fractions"], variant, "fqf") for variant, name in names.items()},
        "`fqf_consistent` (the paper's rate)": on_game(plans["agents"], "fqf_consistent"),
        "`fqf_consistent`, four hundred times the rate": of_variant(plans["moving"], "moving", "fqf_consistent"),
        "`fqf_consistent`, four thousand times the rate": of_variant(plans["moving"], "far", "fqf_consistent"),
    }


def by_target(plans: Plans) -> Kinds:
    return {
        "current, no bonus": of_variant(plans["fractions"], "moving", "fqf"),
        "next": of_variant(plans["targets"], "next", "fqf"),
        "a bonus of 1": of_variant(plans["targets"], "bonus", "fqf"),
    }


def on_game(runs: Sequence[RunRecord], agent: str, game: str = "minatar/breakout") -> list[RunRecord]:
    return [run for run in runs if run.config["agent"] == agent and run.env == game and run.finished]


def of_variant(runs: Sequence[RunRecord], variant: str, agent: str) -> list[RunRecord]:
    return [run for run in on_game(runs, agent) if variant in run.path.parts]
