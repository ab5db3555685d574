"""Atari scores beside the published ones: human-normalised, per game and in aggregate."""

import csv
import functools
import importlib.resources
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

TABLE = "Yang et al. 2019 (FQF), raw score table, 55 games, 30 no-op starts"
"""Where random, human and published scores come from; tables differ (VideoPinball's random score is 0 or 16,256.9)."""


@functools.cache
def published() -> dict[str, dict[str, float]]:
    """Scores by game (as in atari/<game>), then by player: random, human, dqn, prior_duel, qr_dqn, iqn, fqf."""
    text = importlib.resources.files("fqf").joinpath("data/atari_scores.csv").read_text()
    rows = csv.DictReader(text.splitlines())
    return {row.pop("game"): {player: float(score) for player, score in row.items()} for row in rows}


def human_normalized(game: str, score: float) -> float | None:
    """In percent: 0 is random play, 100 the human of the table; None for a game that is not in it."""
    return _percent(game, score) if game in published() else None


def _percent(game: str, score: float) -> float:
    row = published()[game]
    return 100 * (score - row["random"]) / (row["human"] - row["random"])


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
