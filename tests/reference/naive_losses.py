"""The losses as their equations read: one pair at a time, in float64, nothing vectorised, nothing shared with fqf."""

import math
from collections.abc import Callable, Sequence

import numpy as np

Numbers = Sequence[float] | np.ndarray


def naive_huber(delta: float, kappa: float) -> float:
    if abs(delta) <= kappa:
        return delta * delta / 2
    return kappa * (abs(delta) - kappa / 2)


def naive_quantile_loss(quantiles: Numbers, fractions: Numbers, targets: Numbers, target_weights: Numbers) -> float:
    """Sum over quantiles, weighted mean over targets, of |tau - 1(delta < 0)| |delta|: no Huber."""
    total = 0.0
    for quantile, tau in zip(quantiles, fractions, strict=True):
        for target, weight in zip(targets, target_weights, strict=True):
            delta = float(target) - float(quantile)
            total += weight * (1 - tau if delta < 0 else tau) * abs(delta)
    return total


def naive_quantile_huber(
    quantiles: Numbers, fractions: Numbers, targets: Numbers, target_weights: Numbers, kappa: float
) -> float:
    """Sum over quantiles, weighted mean over targets, of |tau - 1(delta < 0)| huber(delta) / kappa."""
    total = 0.0
    for quantile, tau in zip(quantiles, fractions, strict=True):
        for target, weight in zip(targets, target_weights, strict=True):
            delta = float(target) - float(quantile)
            total += weight * (1 - tau if delta < 0 else tau) * naive_huber(delta, kappa) / kappa
    return total


def naive_qr_dqn_loss(quantiles: Numbers, targets: Numbers) -> float:
    """QR-DQN's own loss (Dabney et al. 2018, eq. 10 and algorithm 1, kappa = 1): tau_hat_i = (2i + 1) / 2N."""
    num_quantiles, num_targets = len(quantiles), len(targets)
    total = 0.0
    for i in range(num_quantiles):
        tau_hat = (2 * i + 1) / (2 * num_quantiles)
        expectation = 0.0
        for j in range(num_targets):
            delta = float(targets[j]) - float(quantiles[i])
            expectation += abs(tau_hat - (1.0 if delta < 0 else 0.0)) * naive_huber(delta, 1.0) / num_targets
        total += expectation
    return total


def naive_categorical_projection(values: Numbers, probabilities: Numbers, support: Numbers) -> np.ndarray:
    """Algorithm 1 of C51: each atom is clipped to the grid, then split between floor and ceiling."""
    spacing = support[1] - support[0]
    projected = np.zeros(len(support))
    for value, probability in zip(values, probabilities, strict=True):
        position = (min(max(float(value), support[0]), support[-1]) - support[0]) / spacing
        nearest = round(position)
        if abs(position - nearest) < 1e-9:
            projected[nearest] += probability
            continue
        lower = math.floor(position)
        projected[lower] += probability * (lower + 1 - position)
        projected[lower + 1] += probability * (position - lower)
    return projected


def naive_entropy(widths: Numbers) -> float:
    return -sum(float(width) * math.log(width) for width in widths if width > 0)


def central_differences(function: Callable[[np.ndarray], float], point: Numbers, step: float) -> np.ndarray:
    """(f(x + h e_i) - f(x - h e_i)) / 2h for each i."""
    point = np.asarray(point, np.float64)
    gradient = np.zeros_like(point)
    for i in range(len(point)):
        shift = np.zeros_like(point)
        shift[i] = step
        gradient[i] = (function(point + shift) - function(point - shift)) / (2 * step)
    return gradient
