"""Every agent on one game, with the family's presets: scores, curves and speed.

    .venv/bin/python studies/games.py cartpole [--agents dqn fqf] [--runs runs/games]
    .venv/bin/python studies/games.py breakout

Finished runs are kept and not repeated, so the study can be stopped and started again. It writes
docs/results/<game>.md, <game>.json and agents_<game>.png after every agent.
"""

import argparse
import json
import tomllib
from pathlib import Path

import numpy as np

import fqf
from fqf.agents import AGENTS
from fqf.report.figure import draw_curves, evaluation_curve
from fqf.rundir import provenance

GAMES = {  # environment, seeds, score that counts as solved, steps
    "cartpole": ("classic/cartpole", 5, 475.0, 150_000),
    "breakout": ("minatar/breakout", 1, 2.0, 300_000),
}


def train(env: str, agent: str, seeds: int, steps: int, runs: Path) -> list[Path]:
    paths = [runs / agent / env.replace("/", ".") / f"seed{seed}" for seed in range(seeds)]
    missing = [seed for seed, path in enumerate(paths) if not is_done(path, steps)]
    if missing:
        first = missing[0]
        fqf.train_seeds(env, agent, seed=first, seeds=seeds - first, steps=steps, runs=runs, overwrite=True)
    return paths


def is_done(path: Path, steps: int) -> bool:
    """Whether a finished run of this length is there; one of another length would be mixed up with it."""
    summary = path / "summary.json"
    return summary.is_file() and json.loads(summary.read_text())["steps"] == steps


def training_speed(path: Path) -> float:
    """Steps per second of acting and learning: without evaluations, and without the first chunk of each program."""
    rows = [json.loads(line) for line in (path / "timing.jsonl").read_text().splitlines()][1:]
    lengths = np.diff([row["step"] for row in rows])
    return float(lengths.sum() / np.sum(lengths / [row["steps_per_second"] for row in rows[1:]]))


def summarize(paths: list[Path], bar: float) -> dict:
    summaries = [json.loads((path / "summary.json").read_text()) for path in paths]
    reached = []
    for path in paths:
        steps, means = evaluation_curve(path)
        reached.append(next((step for step, mean in zip(steps, means, strict=True) if mean >= bar), None))
    return {
        "final": [summary["after"]["mean"] for summary in summaries],
        "best": [summary["best"]["mean"] for summary in summaries],
        "steps_to_bar": reached,
        "steps_per_second": float(np.median([training_speed(path) for path in paths])),
        "commits": sorted({summary["commit"] for summary in summaries}),
    }


def write(game: str, results: dict, paths: dict[str, list[Path]], out: Path, facts: dict) -> None:
    env, seeds, bar, steps = GAMES[game]
    which = "seed 0" if seeds == 1 else f"seeds 0 to {seeds - 1} side by side"
    speed = "" if seeds == 1 else ", of one seed beside the others"
    configs = [tomllib.loads((path / "config.toml").read_text()) for found in paths.values() for path in found]
    epsilons = sorted({config["evaluation_epsilon"] for config in configs})
    lines = [
        f"# Every agent on `{env}`",
        "",
        f"{steps:,} steps, {which}, presets of the family; final policies, mean of 100 fresh evaluation episodes at",
        f"epsilon {' or '.join(map(str, epsilons))}.",
        f"Printed by `.venv/bin/python studies/games.py {game}` (JAX {facts['versions']['jax']}, CPU, two cores; the",
        f"commit of every run is in its row). Frames/s are of training{speed}, on a machine that had other work too.",
    ]
    if seeds > 1:
        lines += [
            "Seeds run as executions of one program on two threads, not in one vmapped program",
            "([why](../decisions/0005-seeds-and-speed.md)).",
        ]
    if missing := [f"`{agent}`" for agent in AGENTS if agent not in results]:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    lines += [
        "",
        f"| agent | final score | at least {bar:g} | first evaluation at {bar:g} or more, steps | frames/s | commit |",
        "|---|---|---|---|---|---|",
    ]
    for agent, result in results.items():
        final = ", ".join(f"{score:.4g}" for score in result["final"])
        first = ", ".join("never" if step is None else f"{step:,}" for step in result["steps_to_bar"])
        solved = sum(score >= bar for score in result["final"])
        commits = ", ".join(f"`{commit}`" for commit in result["commits"])
        speed = f"{result['steps_per_second']:.0f}"
        lines.append(f"| `{agent}` | {final} | {solved} of {seeds} | {first} | {speed} | {commits} |")
    lines += ["", f"![Learning curves](agents_{game}.png)", ""]
    (out / f"{game}.md").write_text("\n".join(lines))
    (out / f"{game}.json").write_text(json.dumps({"results": results, **facts}, indent=1) + "\n")
    draw_curves(paths, out / f"agents_{game}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", choices=GAMES)
    parser.add_argument("--agents", nargs="*", default=list(AGENTS), choices=list(AGENTS))
    parser.add_argument("--runs", type=Path, default=Path("runs/games"))
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    arguments = parser.parse_args()
    env, seeds, bar, steps = GAMES[arguments.game]
    facts = provenance()
    results: dict[str, dict] = {}
    paths: dict[str, list[Path]] = {}
    for agent in arguments.agents:
        print(agent, flush=True)
        paths[agent] = train(env, agent, seeds, steps, arguments.runs)
        results[agent] = summarize(paths[agent], bar)
        print(" ", results[agent], flush=True)
        write(arguments.game, results, paths, arguments.out, facts)


if __name__ == "__main__":
    main()
