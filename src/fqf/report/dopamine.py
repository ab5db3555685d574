"""Dopamine's published learning curves, which come with the package."""

import csv
import functools
import gzip
from typing import NamedTuple

from fqf.report.scores import data

SOURCE = (
    "Dopamine's published Atari baselines (Castro et al. 2018; google/dopamine, baselines/atari, JAX agents with the "
    "DQN network): training returns over 1 million frames each, mean and range over 5 seeds"
)
PROTOCOL = (
    "sticky actions 0.25, no no-ops, a life lost ends nothing, training epsilon 0.01; its IQN, QR-DQN and Rainbow "
    "are 3-step, QR-DQN and Rainbow prioritized"
)
SET = "CNN_jax"
"""Of the two sets in the file; the other, `legacy`, is older, most of it of agents in TensorFlow."""


class PublishedCurve(NamedTuple):
    agent: str
    seeds: int
    frames: tuple[float, ...]
    """In millions."""
    mean: tuple[float, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]


@functools.cache
def dopamine_curves() -> dict[str, list[PublishedCurve]]:
    """By game, as in atari/<game>."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in csv.DictReader(gzip.decompress(data("dopamine_curves.csv.gz")).decode().splitlines()):
        if row["set"] == SET:
            rows.setdefault((row["game"], row["agent"]), []).append(row)
    curves: dict[str, list[PublishedCurve]] = {}
    for (game, agent), points in rows.items():
        columns = ("frames_millions", "mean", "minimum", "maximum")
        numbers = (tuple(float(point[name]) for point in points) for name in columns)
        seeds = min(int(point["seeds"]) for point in points)
        curves.setdefault(game, []).append(PublishedCurve(agent, seeds, *numbers))
    return curves
