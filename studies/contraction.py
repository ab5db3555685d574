"""Does FQF's update contract while its fractions adjust themselves? Value iteration without networks and samples.

    .venv/bin/python studies/contraction.py

One-state MDPs whose return law is known (fqf.environments.toy). An iteration is what the algorithm would do if every
regression ended at its optimum (threshold 0) before the next one begins:

    target     the law of R + gamma Z, Z the staircase: its atoms weigh 1/N each (as printed), or their widths
    values     theta_i = the target's quantile at tau_hat_i
    edges      F(tau_i) = the target's quantile at tau_i (trained), or what a line from theta_{i-1} to theta_i has there
    fractions  a step of `rate` down dW1/dtau, through the softmax, with these values and edges

It writes docs/results/contraction.md, .json and .png.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import special, stats

from fqf.environments.toy import GAMMA
from fqf.laws import LAWS, compare
from fqf.paper.style import draw
from fqf.rundir import provenance


class Variant(NamedTuple):
    """What an iteration does; `rate` 0 leaves the fractions where they are."""

    weights: str
    edges: str
    rate: float


class Staircase(NamedTuple):
    logits: np.ndarray
    values: np.ndarray

    @property
    def taus(self) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(special.softmax(self.logits))[:-1], [1.0]])


def _mostly_zero(zero: float, cdf: Callable) -> Callable:
    return lambda x: zero * (x >= 0) + (1 - zero) * cdf(x)


REWARDS = {
    "toy/exponential": _mostly_zero(GAMMA, stats.expon.cdf),
    "toy/normal": special.ndtr,
    "toy/laplace": _mostly_zero(GAMMA**2, stats.laplace.cdf),
    "toy/uniform": lambda x: 0.5 * (x >= 0) + 0.5 * (x >= 1),
}
"""P(R <= x), by environment."""
VARIANTS = {
    "uniform fractions, fixed": Variant("equal", "trained", 0.0),
    "as printed": Variant("equal", "untrained", 0.1),
    "+ widths as weights": Variant("widths", "untrained", 0.1),
    "+ edges trained": Variant("equal", "trained", 0.1),
    "both (`fqf_consistent`)": Variant("widths", "trained", 0.1),
    "both, a hundredth of the rate": Variant("widths", "trained", 0.001),
    "both, ten times the rate": Variant("widths", "trained", 1.0),
}
CLOSE, ITERATIONS, PAIRS, SPREAD = 1e-6, 20_000, 20, 3.0


def quantiles(cdf: Callable, fractions: np.ndarray, low: float = -60.0, high: float = 60.0) -> np.ndarray:
    """The smallest z with cdf(z) >= fraction, by bisection to the last bits that matter."""
    lows, highs = np.full(fractions.shape, low), np.full(fractions.shape, high)
    for _ in range(60):
        middles = (lows + highs) / 2
        above = cdf(middles) >= fractions
        lows, highs = np.where(above, lows, middles), np.where(above, middles, highs)
    return highs


def iterate(stairs: Staircase, variant: Variant, reward: Callable) -> Staircase:
    taus, count = stairs.taus, len(stairs.values)
    widths, middles = np.diff(taus), (taus[1:] + taus[:-1]) / 2
    weights = widths if variant.weights == "widths" else np.full(count, 1 / count)

    def target(z: np.ndarray) -> np.ndarray:
        return reward(z[:, None] - GAMMA * stairs.values) @ weights

    values = quantiles(target, middles)
    if not variant.rate:
        return Staircase(stairs.logits, values)
    edges = quantiles(target, taus[1:-1]) if variant.edges == "trained" else np.interp(taus[1:-1], middles, values)
    return Staircase(stairs.logits - variant.rate * through_softmax(w1_gradient(values, edges), widths), values)


def w1_gradient(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """dW1/dtau_i, i = 1..N-1 (FQF proposition 1)."""
    return 2 * edges - values[1:] - values[:-1]


def through_softmax(gradient: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """From the inner edges back to the logits: tau_i is the sum of the widths before it."""
    by_width = np.append(np.cumsum(gradient[::-1])[::-1], 0.0)
    return widths * (by_width - widths @ by_width)


def start(count: int, generator: np.random.Generator | None = None) -> Staircase:
    """Uniform fractions and values 0, or both drawn."""
    if generator is None:
        return Staircase(np.zeros(count), np.zeros(count))
    return Staircase(generator.normal(size=count), np.sort(generator.normal(scale=SPREAD, size=count)))


def apart(one: Staircase, other: Staircase) -> float:
    """W-infinity: the largest distance of two staircases at any fraction."""
    cuts = np.union1d(one.taus, other.taus)
    middles = (cuts[1:] + cuts[:-1]) / 2
    heights = [each.values[np.searchsorted(each.taus, middles) - 1] for each in (one, other)]
    wide = np.diff(cuts) > 1e-9  # slivers are rounding
    return float(np.max(np.abs(heights[0] - heights[1])[wide]))


def settle(stairs: Staircase, variant: Variant, reward: Callable) -> tuple[Staircase, int | None]:
    """Where the iteration comes to rest, and after how many steps nothing moved by more than CLOSE any more."""
    for number in range(ITERATIONS):
        after = iterate(stairs, variant, reward)
        moved = max(np.max(np.abs(after.values - stairs.values)), np.max(np.abs(after.taus - stairs.taus)))
        stairs = after
        if moved < CLOSE * min(1.0, variant.rate or 1.0):
            return stairs, number + 1
    return stairs, None


class Meeting(NamedTuple):
    """What became of two starts."""

    distances: list[float]
    largest_ratio: float
    """Of the distances before and after a step, while they are above CLOSE."""


def meet(pair: tuple[Staircase, Staircase], variant: Variant, reward: Callable, steps: int) -> Meeting:
    one, other = pair
    distances = [apart(one, other)]
    for _ in range(steps):
        one, other = iterate(one, variant, reward), iterate(other, variant, reward)
        distances.append(apart(one, other))
        if distances[-1] < CLOSE:
            break
    ratios = [after / before for before, after in zip(distances, distances[1:], strict=False) if before > CLOSE]
    return Meeting(distances, max(ratios))


def measure(env: str, count: int, variant: Variant) -> dict:
    reward, law = REWARDS[env], LAWS[env][0]
    rest, steps = settle(start(count), variant, reward)
    generator = np.random.default_rng(0)
    starts = [(start(count, generator), start(count, generator)) for _ in range(PAIRS)]
    if not variant.rate:  # the fractions are not what differs
        starts = [tuple(Staircase(np.zeros(count), each.values) for each in pair) for pair in starts]
    meetings = [meet(pair, variant, reward, 400) for pair in starts]
    return {
        **compare(law.quantile, np.diff(rest.taus), rest.values)._asdict(),
        "steps": steps,
        "taus": rest.taus.tolist(),
        "largest_ratio": max(each.largest_ratio for each in meetings),
        "last_distance": max(each.distances[-1] for each in meetings),
        "distances": [each.distances for each in meetings],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    arguments = parser.parse_args()
    results: dict[str, dict[str, dict]] = {}
    for env in REWARDS:
        for name, variant in VARIANTS.items():
            print(f"{env}: {name}", flush=True)
            results.setdefault(env, {})[name] = measure(env, 8, variant)
    for env, rows in results.items():
        print(env)
        for name, row in rows.items():
            print("  ", name, {key: row[key] for key in row if key not in ("taus", "distances")})


if __name__ == "__main__":
    main()
