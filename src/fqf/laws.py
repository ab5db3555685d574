"""Return laws that are known exactly, and the 1-Wasserstein distance of a staircase to them."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate, stats

QuantileFunction = Callable[[Any], Any]


class Law(NamedTuple):
    name: str
    quantile: QuantileFunction


UNIFORM = Law("Uniform[0, 2]", lambda tau: 2 * np.asarray(tau))
NORMAL = Law("Normal(0, 4/3)", stats.norm(scale=(4 / 3) ** 0.5).ppf)
EXPONENTIAL = Law("Exponential(1)", stats.expon.ppf)
LAPLACE = Law("Laplace(1)", stats.laplace.ppf)
GEOMETRIC = Law("2 (1 - 2^-T), T ~ Geometric(1/4)", lambda tau: 2 * (1 - 0.5 ** np.ceil(np.log1p(-tau) / np.log(0.75))))

LAWS = {
    "toy/uniform": (UNIFORM,),
    "toy/normal": (NORMAL,),
    "toy/exponential": (EXPONENTIAL,),
    "toy/laplace": (LAPLACE,),
    "toy/geometric": (GEOMETRIC,),
    "toy/bandit": (UNIFORM, EXPONENTIAL),
}
"""The law of each action's return."""


def w1_to_staircase(quantile: QuantileFunction, taus: np.ndarray, values: np.ndarray) -> float:
    """Integral of |F(w) - value_i| over each step of the staircase, by quadrature split where the sign may change."""
    total = 0.0
    taus = np.asarray(taus, np.float64)
    for left, right, value in zip(taus[:-1], taus[1:], values, strict=True):
        if right <= left:
            continue
        # The quantile function crosses the step at most once: find where, and integrate both sides on their own.
        crossing = _crossing(quantile, left, right, value)
        for a, b in ((left, crossing), (crossing, right)):
            if b > a:
                total += abs(_integrate(lambda w: float(quantile(w)) - value, a, b))  # noqa: B023
    return total


def w1_of_fractions(quantile: QuantileFunction, taus: np.ndarray) -> float:
    """The error that fractions allow at best, with every value at its midpoint's quantile (FQF lemma 1)."""
    taus = np.asarray(taus, np.float64)
    return w1_to_staircase(quantile, taus, quantile((taus[1:] + taus[:-1]) / 2))


class Comparison(NamedTuple):
    """How good a learned staircase is."""

    w1: float
    """Its distance to the law."""
    mean: float
    fractions: float
    """The distance that its fractions would allow with exact values."""


def compare(quantile: QuantileFunction, probabilities: np.ndarray, values: np.ndarray) -> Comparison:
    """Measure one action's return distribution against its law."""
    probabilities, values = np.asarray(probabilities, np.float64), np.asarray(values, np.float64)

    def edges(widths: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(widths[:-1]), [1.0]])

    order = np.argsort(values, kind="stable")  # quantiles that cross are still atoms of one distribution
    w1 = w1_to_staircase(quantile, edges(probabilities[order]), values[order])
    taus = edges(probabilities)
    return Comparison(w1, float(np.diff(taus) @ values), w1_of_fractions(quantile, taus))


def _integrate(function: Callable[[float], float], left: float, right: float) -> float:
    with warnings.catch_warnings():
        # Laws with atoms jump; the quadrature says that it noticed, and is still within 1e-5.
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        return integrate.quad(function, left, right, limit=200)[0]


def _crossing(quantile: QuantileFunction, left: float, right: float, value: float) -> float:
    low, high = left, right
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if quantile(middle) < value else (low, middle)
    return low
