"""Aggregate statistics over games and runs, by the definitions of Agarwal et al. 2021 (the `rliable` paper).

Scores are normalised and come as one array per game, [..., runs]: leading axes are resamples, and the number of runs
may differ from game to game. Everything random follows from a seed: same scores, same seed, same numbers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import trim_mean

Scores: TypeAlias = Sequence[np.ndarray]
Statistic: TypeAlias = Callable[[Scores], np.ndarray]

CONFIDENCE = 0.95
RESAMPLES = 2_000


class Estimate(NamedTuple):
    """A statistic and, where there is more than one run of every game, the ends of its interval."""

    value: float
    low: float | None
    high: float | None


def game_means(scores: Scores) -> np.ndarray:
    """[..., games]"""
    return np.stack([game.mean(axis=-1) for game in scores], axis=-1)


def mean(scores: Scores) -> np.ndarray:
    """Over games, of the mean over a game's runs."""
    return np.asarray(game_means(scores).mean(axis=-1))


def median(scores: Scores) -> np.ndarray:
    """Over games, of the mean over a game's runs."""
    return np.asarray(np.median(game_means(scores), axis=-1))


def iqm(scores: Scores) -> np.ndarray:
    """Interquartile mean: of all runs of all games, a quarter (rounded down) dropped at either end."""
    return np.asarray(trim_mean(np.concatenate(scores, axis=-1), 0.25, axis=-1))


def optimality_gap(scores: Scores) -> np.ndarray:
    """By how much runs miss a score of 1 on average; what lies above 1 makes up for nothing."""
    return mean([np.maximum(1.0 - game, 0.0) for game in scores])


STATISTICS: dict[str, Statistic] = {"mean": mean, "median": median, "iqm": iqm, "optimality_gap": optimality_gap}


def profile(scores: Scores, thresholds: np.ndarray) -> np.ndarray:
    """The share of runs that score more than each threshold, every game weighing the same: [..., thresholds]."""
    return np.mean([(game[..., None] > thresholds).mean(axis=-2) for game in scores], axis=0)


def wins(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Who is ahead, run by run, [runs, runs of the second]: 1, 0, or one half for a tie."""
    return np.heaviside(np.subtract.outer(first, second), 0.5)


def improvement(first: Scores, second: Scores) -> float:
    """The chance that a run of the first beats one of the second on a game drawn at random: the Mann-Whitney U of
    each game over its number of pairs, averaged over games."""
    return float(np.mean([wins(one, other).mean() for one, other in zip(first, second, strict=True)]))


def has_interval(scores: Scores) -> bool:
    """One run of a game says nothing about how far another would be from it."""
    return min(len(game) for game in scores) > 1


def resample(scores: Scores, seed: int, resamples: int = RESAMPLES) -> list[np.ndarray]:
    """Stratified bootstrap: the runs of each game drawn with replacement, independently of other games."""
    generator = np.random.default_rng(seed)
    return [game[generator.integers(len(game), size=(resamples, len(game)))] for game in scores]


def percentiles(values: np.ndarray) -> np.ndarray:
    """The ends of the interval that holds the middle of the resampled values: [2, ...]."""
    tail = 50 * (1 - CONFIDENCE)
    return np.percentile(values, [tail, 100 - tail], axis=0)


def estimate(statistic: Statistic, scores: Scores, seed: int, resamples: int = RESAMPLES) -> Estimate:
    value = float(statistic(scores))
    if not has_interval(scores):
        return Estimate(value, None, None)
    low, high = percentiles(statistic(resample(scores, seed, resamples)))
    return Estimate(value, float(low), float(high))


def profile_band(scores: Scores, thresholds: np.ndarray, seed: int, resamples: int = RESAMPLES) -> np.ndarray | None:
    """Pointwise intervals of the profile, [2, thresholds]; a threshold at a time, as resamples are many."""
    if not has_interval(scores):
        return None
    drawn = resample(scores, seed, resamples)
    return np.stack([percentiles(profile(drawn, threshold[None])[:, 0]) for threshold in thresholds], axis=-1)


def estimate_improvement(first: Scores, second: Scores, seed: int, resamples: int = RESAMPLES) -> Estimate:
    """Both sides are resampled, independently. How often a run was drawn is all that its resamples need."""
    value = improvement(first, second)
    if not has_interval(first) or not has_interval(second):
        return Estimate(value, None, None)
    generator = np.random.default_rng(seed)

    def shares(runs: int) -> np.ndarray:
        return generator.multinomial(runs, np.full(runs, 1 / runs), size=resamples) / runs

    games = zip(first, second, strict=True)
    drawn = [np.sum(shares(len(one)) @ wins(one, other) * shares(len(other)), axis=1) for one, other in games]
    low, high = percentiles(np.mean(drawn, axis=0))
    return Estimate(value, float(low), float(high))
