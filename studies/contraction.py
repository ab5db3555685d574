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
from scipy import special

from fqf.environments.toy import GAMMA
from fqf.laws import LAWS, NORMAL, compare, w1_of_fractions
from fqf.paper.projection import optimal_fractions, slope_of, through_softmax
from fqf.paper.style import LEARNED, draw, looks
from fqf.rundir import provenance


class Variant(NamedTuple):
    """What an iteration does; `rate` 0 leaves the fractions where they are."""

    weights: str
    edges: str
    rate: float


class Staircases(NamedTuple):
    """Any number of them, side by side."""

    logits: np.ndarray  # [S, N]
    values: np.ndarray  # [S, N]

    @property
    def taus(self) -> np.ndarray:  # [S, N + 1]
        inner = np.cumsum(special.softmax(self.logits, axis=1), axis=1)[:, :-1]
        return np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))


def mostly_zero(zero: float, cdf: Callable) -> Callable:
    return lambda x: zero * (x >= 0) + (1 - zero) * cdf(x)


def exponential_cdf(x: np.ndarray) -> np.ndarray:
    return -np.expm1(-np.maximum(x, 0))


def laplace_cdf(x: np.ndarray) -> np.ndarray:
    half = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, half, 1 - half)


REWARDS = {
    "toy/exponential": mostly_zero(GAMMA, exponential_cdf),
    "toy/normal": special.ndtr,
    "toy/laplace": mostly_zero(GAMMA**2, laplace_cdf),
    "toy/uniform": lambda x: 0.5 * (x >= 0) + 0.5 * (x >= 1),
}
"""P(R <= x), by environment."""
VARIANTS = {
    "uniform fractions, fixed": Variant("equal", "trained", 0.0),
    "as printed": Variant("equal", "untrained", 3.0),
    "+ widths as weights": Variant("widths", "untrained", 3.0),
    "+ edges trained": Variant("equal", "trained", 3.0),
    "both corrections": Variant("widths", "trained", 3.0),
    "both, a tenth of the rate": Variant("widths", "trained", 0.3),
}
COUNT, STEPS, PAIRS, SPREAD, CLOSE = 8, 2_000, 10, 3.0, 1e-6
TIE = 1e-10
"""Fractions that differ by less are the same."""
NEAR = 1e-4
"""How little a fraction moves to tell whether F is flat around it."""
EVEN = 1e-3
"""Fractions nearer than this to uniform ones have gone back to them; values nearer to each other are equal."""


def quantiles(cdf: Callable, fractions: np.ndarray) -> np.ndarray:
    """Where quantile regression comes to rest: at z with cdf(z) = fraction, or, if there is a whole interval of them,
    as between two atoms, in its middle. By bisection to 1e-11, and fractions to TIE."""
    both = np.concatenate([fractions - TIE, fractions + TIE], axis=1)
    lows, highs = np.full(both.shape, -40.0), np.full(both.shape, 40.0)
    for _ in range(44):
        middles = (lows + highs) / 2
        above = cdf(middles) >= both
        lows, highs = np.where(above, lows, middles), np.where(above, middles, highs)
    return (highs[:, : fractions.shape[1]] + highs[:, fractions.shape[1] :]) / 2


def target_of(stairs: Staircases, variant: Variant, reward: Callable) -> Callable:
    widths = np.diff(stairs.taus, axis=1)
    weights = widths if variant.weights == "widths" else np.full_like(widths, 1 / widths.shape[1])

    def cdf(z: np.ndarray) -> np.ndarray:  # [S, K] to P(R + gamma Z <= z)
        return np.einsum("skn,sn->sk", reward(z[:, :, None] - GAMMA * stairs.values[:, None, :]), weights)

    return cdf


def iterate(stairs: Staircases, variant: Variant, reward: Callable) -> Staircases:
    taus, count, target = stairs.taus, stairs.values.shape[1], target_of(stairs, variant, reward)
    widths, middles = np.diff(taus, axis=1), (taus[:, 1:] + taus[:, :-1]) / 2
    trained = variant.edges == "trained" and variant.rate > 0
    asked = quantiles(target, np.concatenate([middles, taus[:, 1:-1]], axis=1) if trained else middles)
    values = asked[:, :count]
    if not variant.rate:
        return Staircases(stairs.logits, values)
    # The line from (tau_hat_{i-1}, theta_{i-1}) to (tau_hat_i, theta_i): tau_i lies widths[i-1] : widths[i] between.
    share = widths[:, :-1] / (widths[:, :-1] + widths[:, 1:])
    edges = asked[:, count:] if trained else values[:, :-1] + share * np.diff(values, axis=1)
    return Staircases(stairs.logits - variant.rate * through_softmax(slope_of(edges, values), widths), values)


def on_flat_pieces(stairs: Staircases, variant: Variant, reward: Callable) -> np.ndarray:
    """Of every staircase, how many of its values stay where they are if their tau_hat moves a little: the target has
    an atom there."""
    middles = (stairs.taus[:, 1:] + stairs.taus[:, :-1]) / 2
    asked = quantiles(target_of(stairs, variant, reward), np.concatenate([middles - NEAR, middles + NEAR], axis=1))
    low, high = np.split(asked, 2, axis=1)
    return np.sum(high - low < CLOSE, axis=1)


def starts(variant: Variant) -> Staircases:
    """The first has uniform fractions and values 0; the others are drawn, fractions only where they can move."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(2 * PAIRS, COUNT)) * (variant.rate > 0)
    values = np.sort(generator.normal(scale=SPREAD, size=(2 * PAIRS, COUNT)), axis=1)
    return Staircases(np.pad(logits, ((1, 0), (0, 0))), np.pad(values, ((1, 0), (0, 0))))


def apart(stairs: Staircases) -> np.ndarray:
    """The largest difference of two values plus that of two edges, of every drawn pair. With the same fractions it is
    W-infinity; with others that would be a step's height however little its edges differ."""
    found = [np.max(np.abs(each[1::2] - each[2::2]), axis=1) for each in (stairs.values, stairs.taus)]
    return found[0] + found[1]


def run(env: str, variant: Variant) -> dict:
    """Where the first start comes to rest, and whether the drawn pairs come together."""
    stairs, paths, edges = starts(variant), [], []
    for _ in range(STEPS):
        paths.append(apart(stairs))
        edges.append(stairs.taus[1])
        before, stairs = stairs, iterate(stairs, variant, REWARDS[env])
    distances = np.array(paths)  # [STEPS, PAIRS]
    ratios = distances[1:] / np.maximum(distances[:-1], CLOSE)
    ratios[distances[1:] < CLOSE] = 0.0
    parted = np.flatnonzero(np.any(distances >= CLOSE, axis=1))
    uniform = np.max(np.abs(stairs.taus - np.linspace(0, 1, COUNT + 1)), axis=1) < EVEN
    tied = np.min(np.diff(stairs.values, axis=1), axis=1) < EVEN
    return {
        **compare(LAWS[env][0].quantile, np.diff(stairs.taus[0]), stairs.values[0])._asdict(),
        "still_moves": float(np.max(np.abs(stairs.taus[0] - before.taus[0]))),
        "largest_ratio": float(ratios.max()),
        "together_after": int(parted[-1]) + 1 if parted[-1] + 1 < STEPS else None,
        "last_distance": float(distances[-1].max()),
        "drawn_uniform": int(np.sum(uniform[1:])),
        "drawn_tied": int(np.sum(tied[1:] & ~uniform[1:])),
        "on_flat_pieces": float(on_flat_pieces(stairs, variant, REWARDS[env])[1:].mean()),
        "farthest": distances.max(axis=1).tolist(),
        "edges": np.array(edges)[:, 1:-1].tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    arguments = parser.parse_args()
    facts = provenance()
    results: dict[str, dict[str, dict]] = {}
    for env in REWARDS:
        for name, variant in VARIANTS.items():
            row = results.setdefault(env, {})[name] = run(env, variant)
            print(env, name, {key: row[key] for key in row if not isinstance(row[key], list)}, flush=True)
    write(results, facts["commit"], arguments.out)
    check_words(results)
    draw(2.4, lambda figure: paint(figure, results), arguments.out, "contraction", 6.8)


def write(results: dict[str, dict[str, dict]], commit: str, out: Path) -> None:
    (out / "contraction.md").write_text(page(results, commit))
    kept = {env: {name: without_lists(row) for name, row in rows.items()} for env, rows in results.items()}
    (out / "contraction.json").write_text(json.dumps({"commit": commit, "results": kept}, indent=1) + "\n")


def page(results: dict[str, dict[str, dict]], commit: str) -> str:
    lines = HEADER.format(
        commit=commit, pairs=PAIRS, steps=STEPS, close=CLOSE, count=COUNT, drawn=2 * PAIRS, even=EVEN, near=NEAR
    ).splitlines()
    for env, rows in results.items():
        law = LAWS[env][0]
        edges = optimal_fractions(law.quantile, COUNT), np.linspace(0, 1, COUNT + 1)
        best, even = (w1_of_fractions(law.quantile, taus) for taus in edges)
        lines += ["", f"## {law.name}", "", f"Optimal fractions allow W1 {best:.4f}, uniform ones {even:.4f}.", ""]
        lines += [TITLES, "|---|---|---|---|---|---|---|---|---|"]
        for name, row in rows.items():
            after, moves = row["together_after"], row["still_moves"]
            meet = f"{after:,}" if after is not None else f"not in {STEPS:,} ({row['last_distance']:.2g} apart)"
            rest = "yes" if moves < CLOSE else f"no, {moves:.1g} a step"
            found = " | ".join(f"{row[key]:.4f}" for key in ("w1", "mean", "fractions"))
            ends = f"{row['drawn_uniform']}, {row['drawn_tied']} | {row['on_flat_pieces']:.1f}"
            lines.append(f"| {name} | {found} | {rest} | {meet} | {row['largest_ratio']:.2f} | {ends} |")
    return "\n".join([*lines, *FOOTER.splitlines()]) + "\n"


def without_lists(row: dict) -> dict:
    return {key: value for key, value in row.items() if not isinstance(value, list)}


def paint(figure: Figure, results: dict[str, dict[str, dict]]) -> None:
    far, near = figure.subplots(1, 2)
    for (name, row), look in zip(results["toy/normal"].items(), looks(list(VARIANTS)).values(), strict=True):
        marks = {"marker": look.marker, "markersize": 2.5, "markevery": 0.11}
        line = {"color": look.color, "linestyle": look.linestyle, "linewidth": 0.9}
        far.plot(np.maximum(row["farthest"], CLOSE), label=name, **line, **marks)
    far.set(xscale="symlog", yscale="log", xlabel="iteration", ylabel="distance of the farthest pair")
    far.legend(fontsize=5.5, loc="lower left", frameon=False)
    for number, tau in enumerate(optimal_fractions(LAWS["toy/exponential"][0].quantile, COUNT)[1:-1]):
        label = "" if number else "optimal for the law"
        near.axhline(tau, color="black", linewidth=0.6, linestyle=":", label=label)
    for name, style, color in (("as printed", "--", "#d55e00"), ("both corrections", "-", LEARNED)):
        lines = near.plot(np.array(results["toy/exponential"][name]["edges"]), style, color=color, linewidth=1)
        lines[0].set_label(name)
    near.set(xscale="symlog", xlabel="iteration", ylabel="edges", ylim=(0, 1))
    near.legend(fontsize=5.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3, frameon=False)


TITLES = (
    "| | W1 | mean | W1 of its fractions | at rest | pairs together after | largest factor of a step "
    "| drawn starts: end uniform, end with equal values | values on flat pieces |"
)
HEADER = """# Does the update contract while fractions adjust themselves?

Question 4 of the [study](study.md), where it has an exact answer: value iteration on one-state MDPs whose return law is
known, gamma = 1/2, N = {count}, without networks and samples. Every iteration regresses the values to the target's
quantiles at once, then takes a step of gradient descent with the fractions' logits (rate 3 unless said). "Untrained"
edges, as in the printed algorithm, are taken from the line between the two trained neighbours.

- **W1, mean, W1 of its fractions**: of the staircase after {steps:,} iterations from uniform fractions and values 0;
  **at rest**: whether an edge of it still moves by {close:g} or more in a step.
- **Pairs together after**: {pairs} pairs of random starts (values and, where they move, fractions); the iteration
  from which on all are closer than {close:g}, by the largest difference of two values plus the largest of two edges.
- **Largest factor of a step**: of the distance of any pair after and before any one iteration. A contraction by gamma
  has at most 0.50. Distances below {close:g} count as {close:g}: factors in the thousands are of pairs that had all but
  met, and parted again.
- **Drawn starts**: how many of the {drawn} end with fractions within {even:g} of uniform ones; and how many of the
  others end with two neighbouring values that are equal.
- **Values on flat pieces**: of the {count} values of a drawn start, in the mean, those that stay the same if their
  tau_hat moves by {near:g}, as the target has an atom there.

Printed by `.venv/bin/python studies/contraction.py` on commit `{commit}`."""

FOOTER = """
![Pairs of starts, and edges over iterations](contraction.png)

*N = 8. Left: distance of the farthest pair on Normal(0, 4/3). Right: edges from one drawn start on Exponential(1).*

## What it says
- **With fixed fractions the update is a contraction by gamma**, as published: no step has a factor above 0.50.
- **With fractions that adjust themselves it is none**, in this distance: single steps drive pairs apart, on every law,
  in every variant, at either rate.
- **It still converges, to one point, where rewards have a density** (the normal law): all pairs end in the same values
  and fractions, after some 400 iterations in place of 22; at a tenth of the rate they are still on their way. With both
  corrections that point has the law's optimal fractions.
- **Where rewards have atoms and edges are trained there are many points of rest.** The target has atoms too, on each of
  which F is flat. At the end 3.5 to 8 of the eight values, in the mean, lie on such pieces: they stay where they are if
  their tau_hat moves. Where values do not answer to fractions, dW1/dtau = 0 has many solutions, and the start decides
  in which of them fractions end: pairs do not meet. Twice not even the first start comes to rest.
- **As printed, fractions go back to uniform ones**, whatever the law, unless two neighbouring values are equal: every
  drawn start ends in one of these two ways. (The first start is uniform, so it stays there by construction.) A line
  between two trained neighbours gives dW1/dtau_i = (theta_i - theta_j) (w_j - w_i) / (w_j + w_i), j = i - 1: it
  compares widths and knows nothing of the law. What moves fractions in a network is how F differs from such a line,
  where nobody trains it.
- **Trained edges with equal weights** inflate the values where the law is skewed, as in
  [the learned runs](exponential.md). **Both corrections** together end nearest to the law on the three where unequal
  fractions can help; on the uniform law they are no better than uniform fractions, and at the higher rate worse.
"""


def check_words(results: dict[str, dict[str, dict]]) -> None:
    """What FOOTER says must follow from the tables above it."""
    fixed, printed, edges, both, slow = (
        [results[env][name] for env in ("toy/exponential", "toy/laplace", "toy/uniform", "toy/normal")]
        for name in list(VARIANTS)
        if name != "+ widths as weights"
    )
    moving = [row for rows in results.values() for name, row in rows.items() if VARIANTS[name].rate]
    smooth = [row for name, row in results["toy/normal"].items() if VARIANTS[name].rate > 1]
    atoms = [*edges[:3], *both[:3], *slow[:3]]
    helped = ((env, min(results[env].values(), key=lambda row: row["w1"])) for env in REWARDS if env != "toy/uniform")
    for holds in (
        all(row["largest_ratio"] <= 0.5 + 1e-4 for row in fixed),
        all(row["largest_ratio"] > 1 for row in moving),
        all(350 < row["together_after"] < 450 for row in smooth),
        slow[3]["together_after"] is None,
        abs(both[3]["fractions"] - w1_of_fractions(NORMAL.quantile, optimal_fractions(NORMAL.quantile, COUNT))) < 1e-4,
        all(row["together_after"] is None and row["on_flat_pieces"] > 3.5 for row in atoms),
        all(row["on_flat_pieces"] == 0 for row in results["toy/normal"].values()),
        sum(row["still_moves"] >= CLOSE for row in moving) == 2,
        all(row["drawn_uniform"] + row["drawn_tied"] == 2 * PAIRS and row["drawn_uniform"] > PAIRS for row in printed),
        edges[0]["mean"] > 1.3,
        all(best in (*both, *slow) for _, best in helped),
        abs(slow[2]["w1"] - fixed[2]["w1"]) < 1e-6 < both[2]["w1"] - fixed[2]["w1"],
    ):
        if not holds:
            raise SystemExit("the tables do not say what the page would: read them, and change FOOTER")


if __name__ == "__main__":
    main()
