"""Atari scores beside the published ones: human-normalised, per game and in aggregate."""

import csv
import functools
import importlib.resources
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

TABLE = "Yang et al. 2019 (FQF), raw score table, 55 games, 30 no-op starts"
"""Where random, human and published scores come from; tables differ (VideoPinball's random score is 0 or 16,256.9)."""


PLAYERS = {"dqn": "DQN", "prior_duel": "Prior. Duel", "qr_dqn": "QR-DQN", "iqn": "IQN", "fqf": "FQF"}
"""The agents of the table, as they are called in it."""


def data(name: str) -> bytes:
    """A file that comes with the package."""
    return importlib.resources.files("fqf").joinpath("data", name).read_bytes()


@functools.cache
def published() -> dict[str, dict[str, float]]:
    """Scores by game (as in atari/<game>), then by player: random, human, dqn, prior_duel, qr_dqn, iqn, fqf."""
    rows = csv.DictReader(data("atari_scores.csv").decode().splitlines())
    return {row.pop("game"): {player: float(score) for player, score in row.items()} for row in rows}


def human_normalized(game: str, score: float) -> float | None:
    """In percent: 0 is random play, 100 the human of the table; None for a game that is not in it."""
    return _percent(game, score) if game in published() else None


def _percent(game: str, score: float) -> float:
    row = published()[game]
    return 100 * (score - row["random"]) / (row["human"] - row["random"])


def protocol_words(score: Mapping[str, Any]) -> str:
    """Of the score in a summary; scores are comparable where these are the same."""
    changed = ", ".join(f"{name} {value}" for name, value in score["changed"].items())
    return f"{score['protocol']}{', but ' + changed if changed else ''}"


class Aggregate(NamedTuple):
    mean: float
    median: float
    above_human: int
    """Games whose score exceeds the human's."""
    games: int


def aggregate(scores: Mapping[str, float]) -> Aggregate:
    """Over the games of the table among these, one score each."""
    known = {game: score for game, score in scores.items() if game in published()}
    values = [_percent(game, score) for game, score in known.items()]
    above = sum(score > published()[game]["human"] for game, score in known.items())
    return Aggregate(float(np.mean(values)), float(np.median(values)), above, len(known))


class PrintedRow(NamedTuple):
    """A row of the paper's Table 1; percentages are human-normalised."""

    mean_percent: float
    median_percent: float
    above_human: int
    above_dqn: int


@functools.cache
def table1() -> dict[str, PrintedRow]:
    """The paper's Table 1 as printed: 55 games, averages over 3 seeds."""
    rows = csv.DictReader(data("table1.csv").decode().splitlines())
    return {
        row["agent"]: PrintedRow(
            float(row["mean_percent"]), float(row["median_percent"]), int(row["above_human"]), int(row["above_dqn"])
        )
        for row in rows
    }


def recomputed(player: str) -> PrintedRow:
    """The same row from the paper's raw score table, which is of one seed. Ties are not above."""
    scores = {game: row[player] for game, row in published().items()}
    total = aggregate(scores)
    above_dqn = sum(score > published()[game]["dqn"] for game, score in scores.items())
    return PrintedRow(total.mean, total.median, total.above_human, above_dqn)
