"""What the benchmark has measured, as a page and a picture: OUT/speed.json becomes speed.md and speed.png.

.venv/bin/python bench/report.py [--out docs/results]
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

BATCH, FEATURES, HIDDEN, ACTIONS, COSINES = 32, 3136, 512, 6, 64
CONVOLUTIONS = [(20 * 20, 8 * 8 * 4, 32), (9 * 9, 4 * 4 * 32, 64), (7 * 7, 3 * 3 * 64, 64)]
PRODUCT = 2 * 2048 * 3136 * 512


class Bar(NamedTuple):
    """What a figure was meant to reach, and whether it did."""

    what: str
    figure: float
    bar: float
    at_most: bool = False
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.figure <= self.bar if self.at_most else self.figure >= self.bar


def needed_flops(num_fractions: int, target_fractions: str) -> float:
    """Of one FQF update: the midpoints and twice that for their gradient, the inner edges, the target's midpoints
    (twice with `current`: at the target's own fractions, to choose an action, and at the online ones), the torso of
    both states and its gradient, which no pixel needs. The work of either side beyond that does not count."""
    one = 2 * BATCH * (COSINES * FEATURES + FEATURES * HIDDEN + HIDDEN * ACTIONS)
    asked = 3 * num_fractions + (num_fractions - 1) + num_fractions * (2 if target_fractions == "current" else 1)
    layers = [2 * BATCH * places * inputs * filters for places, inputs, filters in CONVOLUTIONS]
    return asked * one + 2 * sum(layers) + 2 * sum(layers) - layers[0]


def ratio(times: dict[str, list[float]], ours: str = "ours", theirs: str = "theirs") -> float:
    """How many times as fast as theirs."""
    return median(times[theirs]) / median(times[ours])


def limit_share(times: dict[str, list[float]], label: str, num_fractions: int, target_fractions: str) -> float:
    """Of the rate at which a large product of matrices runs, by the library that is faster at it."""
    limit = min(median(times[name]) for name in ("product, ours", "product, theirs")) / PRODUCT
    return needed_flops(num_fractions, target_fractions) / median(times[label]) * limit


def bars(results: dict[str, Any]) -> list[Bar]:
    """Those whose section was measured."""
    found = []
    if section := results.get("updates"):
        fqf = section["fqf 32"]
        found += [
            Bar("FQF update, N = 32, `next`, against Tianshou", ratio(fqf), 1.25),
            Bar("the same, `current`", ratio(fqf, "ours, current"), 1.1),
            Bar("FQF update, N = 32, share of the product's rate", limit_share(fqf, "ours", 32, "next"), 0.7, unit=""),
            Bar("IQN update against Tianshou", ratio(section["iqn 32"]), 1.2),
        ]
        for name in ("qr_dqn 200", "c51 51", "dqn 1"):
            found.append(Bar(f"{name.split()[0]} update against Tianshou", ratio(section[name]), 1.0))
    if section := results.get("cartpole"):
        times = section["N = 32"]
        found.append(Bar("CartPole against Tianshou's FQF, one seed", ratio(times), 7))
        found.append(Bar("CartPole against Tianshou's FQF, eight seeds", ratio(times, "ours, 8 seeds"), 15))
        found.append(Bar("CartPole against sb3-contrib's QR-DQN", ratio(times, theirs="sb3-contrib's QR-DQN"), 1))
    if section := results.get("minatar"):
        found += [Bar(f"MinAtar Breakout, N = {n}", ratio(section[f"N = {n}"]), bar) for n, bar in ((8, 3), (32, 2))]
    if section := results.get("pong"):
        found += [Bar(f"Atari Pong, N = {n}", ratio(section[f"N = {n}"]), 1.25) for n in (8, 32)]
        for n in (1, 8):
            alone = ratio(section[f"{n} lanes"], theirs="bare")
            found.append(Bar(f"Pong alone, {n} lanes, against ale-py's", alone, 0.95))
    if section := results.get("growth"):
        at = {count: section[f"N = {count}"] for count in (32, 64)}
        found.append(
            Bar("our FQF's time against our IQN's, N = 32", 1 / ratio(at[32], "fqf", "iqn"), 1.08, at_most=True)
        )
        grown = median(at[64]["fqf"]) / median(at[32]["fqf"])
        found.append(Bar("time of an FQF update, N = 64 over N = 32", grown, 2.1, at_most=True))
    if section := results.get("memory"):
        found.append(Bar("whole process with a million frames", section["gigabytes"], 7.6, at_most=True, unit=" GB"))
    return found


def when(measured: dict[str, dict[str, Any]]) -> str:
    """On which commit, and in how many minutes; section by section, if they were not measured together."""
    minutes = {name: section["minutes"] for name, section in measured.items()}
    commits = {section["commit"] for section in measured.values()}
    if len(commits) == 1 and None not in minutes.values():
        return f"on commit `{commits.pop()}`, in {sum(minutes.values()):.0f} minutes"
    return "not in one go; section, commit and minutes, where they were taken: " + "; ".join(
        f"{name} `{measured[name]['commit']}` {'-' if taken is None else round(taken, 1)}"
        for name, taken in minutes.items()
    )


def page(results: dict[str, Any]) -> str:
    versions = "; ".join(", ".join(f"{name} {v}" for name, v in each.items()) for each in results["versions"].values())
    lines = ["# Speed", "", f"Printed by `bench/run.py` (`make bench`), {when(results['measured'])}.", ""]
    lines += [f"Versions: {versions}. Two cores (AVX2), no GPU.", "", "![Ratios](speed.png)", ""]
    lines += ["| figure | measured | bar | |", "|---|---|---|---|"]
    for bar in bars(results):
        sign, verdict = ("at most" if bar.at_most else "at least"), "met" if bar.met else "**missed**"
        lines.append(f"| {bar.what} | {bar.figure:.3g}{bar.unit} | {sign} {bar.bar:g}{bar.unit} | {verdict} |")
    for name in ("updates", "growth", "cartpole", "minatar", "pong"):
        if name in results:
            lines += ["", f"## {name.capitalize()}", "", *table(results[name])]
    if section := results.get("updates"):
        lines += ["", "## Share of the limit", ""]
        lines += [
            "FLOPs that an FQF update needs, over those that the faster of the two products makes in its time.",
            "",
        ]
        lines += ["| case | who | needed GFLOP | share |", "|---|---|---|---|"]
        for count in (8, 32, 64):
            times = section[f"fqf {count}"]
            for who in (each for each in times if not each.startswith("product")):
                kind = "current" if who.endswith("current") else "next"
                need, share = needed_flops(count, kind) / 1e9, limit_share(times, who, count, kind)
                lines.append(f"| fqf {count} | {who} | {need:.1f} | {100 * share:.0f} % |")
    if section := results.get("checkpoints"):
        lines += ["", "## Checkpoints", "", "| rows in the replay | new since the last | seconds | MB written |"]
        lines += ["|---|---|---|---|"]
        lines += [f"| {s['rows']:,} | {s['new']:,} | {s['seconds']:.1f} | {s['megabytes']:,.0f} |" for s in section]
    if "start" in results:
        lines += [
            "",
            "## Start",
            "",
            "| `fqf train` to its first update | programs compiled | found in the cache |",
        ]
        lines += ["|---|---|---|"]
        lines += [f"| `{env}` | {s['cold']:.1f} s | {s['warm']:.1f} s |" for env, s in results["start"].items()]
    return "\n".join(lines) + "\n"


def table(section: dict[str, dict[str, list[float]]]) -> list[str]:
    lines = ["| case | who | units/s, median | slowest and fastest turn |", "|---|---|---|---|"]
    for case, times in section.items():
        for who, seconds in times.items():
            rates = sorted(1 / each for each in seconds)
            lines.append(f"| {case} | {who} | {median(rates):.4g} | {rates[0]:.4g} to {rates[-1]:.4g} |")
    return lines


def draw(results: dict[str, Any], path: Path) -> None:
    """Ratios as bars, and what they were meant to reach as marks."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [bar for bar in bars(results) if bar.unit == "x" and not bar.at_most][::-1]
    figure = Figure(figsize=(7.5, 0.6 + 0.36 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xscale="log", xlabel="times as fast as the peer (log scale); | is the bar")
    places = range(len(shown))
    axes.barh(
        places, [bar.figure for bar in shown], left=0, color=["#4477aa" if bar.met else "#cc6677" for bar in shown]
    )
    axes.scatter([bar.bar for bar in shown], places, marker="|", s=180, color="black", zorder=3)
    axes.set_yticks(places, [bar.what for bar in shown], fontsize=8)
    axes.axvline(1, color="grey", linewidth=0.8)
    for place, bar in zip(places, shown, strict=True):
        beside = max(bar.figure, bar.bar)  # the mark of a bar that was missed
        axes.annotate(f"  {bar.figure:.2f}", (beside, place), va="center", fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    write(parser.parse_args().out)


def write(out: Path) -> None:
    results = json.loads((out / "speed.json").read_text())
    (out / "speed.md").write_text(page(results))
    draw(results, out / "speed.png")


if __name__ == "__main__":
    main()
