"""Figure 1: one quantile function and two staircases of N = 6 steps, with optimised and with random fractions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import integrate, optimize

from fqf.errors import UserError
from fqf.laws import LAWS, QuantileFunction, w1_of_fractions
from fqf.paper.style import LEARNED, TRUTH, draw, write_csv

CUT = 0.001
"""Of the fractions at an unbounded end, which no picture can show. Areas are of all of them."""
MANY = 32
"""Fractions up to which a descent from equal widths is safe: it was seen to overstep from 80 on."""
FLAT = 1e-5
"""The largest slope, in a logit, of what counts as an optimum: descent asks for 1e-8, and stops short of it where
quadrature is no finer."""


@dataclass(frozen=True)
class Options:
    """The paper's figure 1: two staircases of one quantile function; their shaded areas are W1."""

    out: Path = Path("paper")
    """Directory to write into."""
    law: Literal["exponential", "laplace", "normal", "uniform"] = "exponential"
    """Whose quantile function; the paper does not say which is drawn."""
    num_fractions: int = 6
    """Steps of each staircase; the paper: 6."""
    seed: int = 0
    """Of the random fractions."""


class Staircase(NamedTuple):
    """A projection Pi(theta, tau) of a quantile function (FQF section 3.1)."""

    taus: np.ndarray
    values: np.ndarray
    areas: np.ndarray
    """Between each step and the quantile function: their sum is W1."""


def project(quantile: QuantileFunction, taus: np.ndarray) -> Staircase:
    """With the values that are best at these fractions: those at their midpoints (lemma 1)."""
    areas = [w1_of_fractions(quantile, taus[index : index + 2]) for index in range(len(taus) - 1)]
    return Staircase(taus, quantile((taus[1:] + taus[:-1]) / 2), np.array(areas))


def slope_of(edge_values: np.ndarray, values: np.ndarray) -> np.ndarray:
    """dW1/dtau_i [..., N - 1], from F at the inner edges and at the midpoints [..., N] (proposition 1), in float64."""
    return 2 * edge_values - values[..., 1:] - values[..., :-1]


def w1_slope(quantile: QuantileFunction, taus: np.ndarray) -> np.ndarray:
    return slope_of(quantile(taus[1:-1]), quantile((taus[1:] + taus[:-1]) / 2))


def least_w1(quantile: QuantileFunction, taus: np.ndarray) -> float:
    """The sum of `project`'s areas in one call: above each midpoint F exceeds its value there, below it does not.
    (tanh-sinh copes with the infinite ends of a law.)"""
    middles = (taus[1:] + taus[:-1]) / 2
    above = integrate.tanhsinh(quantile, middles, taus[1:]).integral
    below = integrate.tanhsinh(quantile, taus[:-1], middles).integral
    return float(np.sum(above - below))


def through_softmax(slope: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """A gradient with respect to the inner edges [..., N - 1] as one with respect to the logits of the widths [..., N].
    Inner edge i lies above the widths 0..i-1; through the softmax, d width_k = width_k (d logit_k - mean)."""
    by_width = np.zeros_like(widths)
    by_width[..., :-1] = np.cumsum(slope[..., ::-1], axis=-1)[..., ::-1]
    return widths * (by_width - np.sum(widths * by_width, axis=-1, keepdims=True))


def optimal_fractions(quantile: QuantileFunction, count: int) -> np.ndarray:
    """Where W1 is least: by descent along proposition 1's gradient, in the logits of the widths, from equal widths.
    Many fractions start from the best of half as many: from equal ones the first steps would be too long."""

    def edges(logits: np.ndarray) -> np.ndarray:
        widths = np.exp(logits - logits.max())
        return np.concatenate([[0.0], np.cumsum(widths)[:-1] / widths.sum(), [1.0]])

    def error_and_slope(logits: np.ndarray) -> tuple[float, np.ndarray]:
        taus = edges(logits)
        return least_w1(quantile, taus), through_softmax(w1_slope(quantile, taus), np.diff(taus))

    start = np.zeros(count)
    if count > MANY:
        fewer = optimal_fractions(quantile, count // 2)
        places = np.linspace(0, len(fewer) - 1, count + 1)
        start = np.log(np.diff(np.interp(places, np.arange(len(fewer)), fewer)))
    found = optimize.minimize(error_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-8})
    if not (np.isfinite(found.fun) and np.abs(found.jac).max() < FLAT):
        raise UserError(f"the descent of W1 found no optimum for {count} fractions")
    return edges(found.x)


def random_fractions(count: int, seed: int) -> np.ndarray:
    return np.concatenate([[0.0], np.sort(np.random.default_rng(seed).uniform(size=count - 1)), [1.0]])


def make(options: Options) -> str:
    if options.num_fractions < 1:
        raise UserError(f"num_fractions is {options.num_fractions}, but must be at least 1")
    if options.seed < 0:
        raise UserError(f"seed is {options.seed}, but must be 0 or more")
    (law,) = LAWS[f"toy/{options.law}"]
    panels = {
        "optimised": project(law.quantile, optimal_fractions(law.quantile, options.num_fractions)),
        "random": project(law.quantile, random_fractions(options.num_fractions, options.seed)),
    }
    rows = [
        (name, index, *map(float, numbers))
        for name, (taus, values, areas) in panels.items()
        for index, numbers in enumerate(zip(taus[:-1], taus[1:], values, areas, strict=True))
    ]
    write_csv(options.out / "projection.csv", ("fractions", "step", "tau_left", "tau_right", "value", "area"), rows)

    def paint(figure: Figure) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        for axis, letter, (name, staircase) in zip(axes, "ab", panels.items(), strict=True):
            draw_projection(axis, law.quantile, staircase)
            axis.set_title(f"({letter}) {name}, $W_1$ = {staircase.areas.sum():.4f}")
        axes[0].set_ylabel("return")
        axes[0].legend(frameon=False, loc="upper left")

    draw(2.0, paint, options.out, "projection")
    least = panels["optimised"].areas.sum()
    return (
        f"{law.name}, N = {options.num_fractions}: fractions by descent of W1 ({least:.6f}), and random ones of seed "
        f"{options.seed} ({panels['random'].areas.sum():.6f}); every area by quadrature, nothing trained"
    )


def draw_projection(axis: Axes, quantile: QuantileFunction, staircase: Staircase) -> None:
    taus, values, _ = staircase
    ends = np.isfinite(quantile(np.array([0.0, 1.0])))
    low, high = (0.0 if ends[0] else CUT), (1.0 if ends[1] else 1 - CUT)
    for left, right, value in zip(taus[:-1], taus[1:], values, strict=True):
        part = np.linspace(max(left, low), min(right, high), 200)
        axis.fill_between(
            part,
            quantile(part),
            value,
            facecolor="#d9e6f2",
            edgecolor=LEARNED,
            hatch="////////",
            linewidth=0.0,
            label="area: $W_1$" if left == 0 else None,
        )
    grid = np.linspace(low, high, 1_000)
    axis.plot(grid, quantile(grid), color=TRUTH, linewidth=1, linestyle="--", label="$F^{-1}$")
    axis.stairs(values, taus, baseline=None, color=LEARNED, linewidth=1.3, label="staircase")
    axis.plot(taus, 0 * taus, "|", color="black", markersize=7, transform=axis.get_xaxis_transform())
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1])
    axis.set_xlabel(r"fraction $\tau$ (| edges)")
