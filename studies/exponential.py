"""FQF on an MDP whose return is exactly Exponential(1): do the fractions find their optimum, are the values right?

    .venv/bin/python studies/exponential.py [--runs runs/exponential]

Finished runs are kept and not repeated, so the study can be stopped and started again. It writes
docs/results/exponential.md and docs/results/exponential.png.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import fqf
from fqf.laws import EXPONENTIAL, compare
from fqf.paper.toy import staircase
from fqf.report.figure import draw_staircases
from fqf.rundir import provenance

VARIANTS = {
    "uniform fractions": ("fqf", {"fractions": "uniform"}),
    "random fractions": ("fqf", {"fractions": "random"}),
    "FQF as printed (`fqf`)": ("fqf", {}),
    "+ widths as target weights only": ("fqf", {"target_weights": "widths"}),
    "+ edges trained only": ("fqf", {"value_fractions": "midpoints_and_edges"}),
    "both corrections (`fqf_consistent`)": ("fqf_consistent", {}),
    "both, alternating sets": ("fqf_consistent", {"value_fractions": "alternate"}),
}
SHOWN = {
    "uniform fractions": "uniform fractions",
    "FQF as printed (`fqf`)": "FQF as printed",
    "both corrections (`fqf_consistent`)": "fqf_consistent",
}
SETTINGS = {  # options and number of seeds
    "N = 8, kappa = 0.05": ({"num_fractions": 8, "huber_kappa": 0.05}, 5),
    "N = 8, kappa = 1": ({"num_fractions": 8, "huber_kappa": 1.0}, 3),
    "N = 32, kappa = 0.05": ({"num_fractions": 32, "huber_kappa": 0.05}, 3),
}
LONG_STEPS = 5_120 + 64 * 200_000


def measure(policy: fqf.Policy) -> dict[str, float]:
    return compare(EXPONENTIAL.quantile, *staircase(policy))._asdict()


def policies(agent: str, options: dict, seeds: int, runs: Path) -> list[fqf.Policy]:
    paths = [runs / agent / "toy.exponential" / f"seed{seed}" for seed in range(seeds)]
    for seed, path in enumerate(paths):
        if not (path / "summary.json").is_file():
            fresh = fqf.train_seeds(
                "toy/exponential", agent, seed=seed, seeds=seeds - seed, runs=runs, overwrite=True, **options
            )
            return [fqf.load(path) for path in paths[:seed]] + [run.policy for run in fresh]
    return [fqf.load(path) for path in paths]


def spread(numbers: list[float]) -> str:
    return f"{np.mean(numbers):.4f} ({min(numbers):.4f}-{max(numbers):.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/exponential"))
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    facts = provenance()

    results: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in VARIANTS}
    shown: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for setting, (options, seeds) in SETTINGS.items():
        for number, (name, (agent, changes)) in enumerate(VARIANTS.items()):
            print(f"{setting}: {name}", flush=True)
            directory = arguments.runs / setting.replace(" ", "").replace(",", "-") / f"variant{number}"
            trained = policies(agent, {**options, **changes}, seeds, directory)
            results[name][setting] = [measure(policy) for policy in trained]
            if setting == "N = 8, kappa = 0.05" and name in SHOWN:
                median = sorted(trained, key=lambda policy: measure(policy)["w1"])[seeds // 2]
                shown[SHOWN[name]] = staircase(median)
        write(results, [], facts, arguments.out)
        draw_staircases(shown, EXPONENTIAL, arguments.out / "exponential.png")
    print("200,000 updates", flush=True)
    long = policies("fqf_consistent", {"steps": LONG_STEPS}, 2, arguments.runs / "long")
    write(results, [measure(policy) for policy in long], facts, arguments.out)


def write(results: dict, long: list[dict[str, float]], facts: dict, out: Path) -> None:
    finished = list(next(iter(results.values())))
    lines = [f"| | {' | '.join(finished)} |", "|---|" + "---|" * len(finished)]
    for name, cells in results.items():
        row = []
        for numbers in cells.values():
            w1, mean, fractions = (spread([each[key] for each in numbers]) for key in ("w1", "mean", "fractions"))
            row.append(f"W1 {w1}<br>mean {mean}<br>fractions {fractions}")
        lines.append(f"| {name} | {' | '.join(row)} |")
    held = ", ".join(f"{each['fractions']:.4f}" for each in long) or "(not yet run)"
    text = HEADER.format(held=held, commit=facts["commit"], jax=facts["versions"]["jax"])
    (out / "exponential.md").write_text(text + "\n".join(lines) + "\n" + FOOTER)
    (out / "exponential.json").write_text(json.dumps({"results": results, "long": long, **facts}, indent=1) + "\n")


HEADER = """# FQF on an exact law: the exponential MDP

`toy/exponential` has one state; the reward is 0 with probability 1/2, else Exponential(1); the discount is
1/2. Its return is exactly Exponential(1), so everything that an agent learns can be measured against the truth.

Printed by `.venv/bin/python studies/exponential.py` on commit `{commit}` (JAX {jax}, CPU); the settings
are the `toy` preset (20,000 updates of batch 64, Adam 1e-3 falling to 1e-5, fractions by centred RMSProp from
1e-3 falling to 1e-5, target copied every 100 updates). Each cell: mean over seeds (smallest-largest;
five seeds in the first column, three in the others) of

- **W1** of the learned staircase to the truth;
- its **mean** (truth 1; the exact staircase has 0.957 with uniform, 0.983 with optimal fractions at N = 8);
- the W1 that the learned **fractions** would allow with exact values (N = 8: optimum 0.1178, uniform 0.1511;
  N = 32: optimum 0.0308, uniform 0.0486).

After 200,000 updates (N = 8, kappa 0.05, seeds 0 and 1) the fractions of `fqf_consistent` allow {held}.

"""
FOOTER = """
![Learned staircases against the truth](exponential.png)

*N = 8, kappa = 0.05; of each variant the seed with the median W1.*

## What it says
- **As printed, FQF does not find the optimal fractions, and its values are wrong.** Its fractions stop far from the
  optimum, because the gradient dW1/dtau asks F at the edges, where the printed loss never trains it; and as
  soon as fractions are not uniform, weighing every target atom 1/N inflates the mean.
- **Each correction alone is not enough.** Training the edges without the weights moves the fractions almost
  to the optimum and makes the bias worst of all; the weights without the edges remove
  the bias, but the fractions stay where they were.
- **Both together** give the smallest W1 of all variants in every column. At N = 8 the fractions are within half a
  percent of the optimum (kappa 0.05), also after 200,000 updates; at N = 32, after 20,000 updates, they are 17 %
  above it, where uniform fractions are 58 % above.
- **A Huber threshold of 1 is too coarse for returns of this size**: it turns quantiles into something close to
  expectiles, so that no variant comes below W1 0.29, although the fractions are still found.
"""

if __name__ == "__main__":
    main()
