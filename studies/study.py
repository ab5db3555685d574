"""The study of agents and fractions: its data from runs, and its page from the data.

    for plan in agents n_sweep fractions moving laws targets; do
      kept=results/$plan.csv; [ -f $kept ] || kept=
      fqf suite studies/plans/$plan.toml --runs runs/study/$plan ${kept:+--collected $kept}
      .venv/bin/python studies/study.py --runs runs/study
    done

It may be said at any time: what has finished by then is added to results/PLAN.csv (a row for every evaluation) and
results/learning.csv (what was logged of fractions, after every tenth of a run), and what was learned of a known law to
results/law_ends.csv. Their runs are not made again, so the study can go on where no run directory is left, on another
day or machine. From these files, and nothing else, it writes docs/results/study_tables.md and the study's pictures;
without --runs only those.
"""

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path

from collect import collect
from study_figures import draw_agents, draw_learning, read_published
from study_tables import Atom, by_kind, cells_of, page, size_of

from fqf.presets import complete
from fqf.report.groups import natural
from fqf.report.records import RunRecord
from fqf.report.runs import load

PLANS = ("agents", "n_sweep", "fractions", "moving", "laws", "targets")
RESULTS, PAGES = Path("results"), Path("docs/results")
LEARNING, ENDS = RESULTS / "learning.csv", RESULTS / "law_ends.csv"
PUBLISHED = Path(__file__).parents[1] / "results" / "minatar_published.csv"
LOGGED = ("fraction_entropy", "fraction_shift", "crossing_rate", "w1_estimate", "w1_gradient_norm", "q")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="where the plans' runs are, each in the directory of its plan's name")
    arguments = parser.parse_args()
    if arguments.runs:
        for plan in PLANS:
            if runs := finished_below(arguments.runs / plan):
                keep(arguments.runs / plan, runs, plan)
    write_page()


# What is kept


def finished_below(directory: Path) -> list[Path]:
    return sorted(path.parent for path in directory.rglob("summary.json"))


def keep(root: Path, runs: Sequence[Path], plan: str) -> None:
    """Scores and what was logged of finished runs, beside those of runs that may be gone by now."""
    scores = RESULTS / f"{plan}.csv"
    print(collect([*([scores] if scores.is_file() else []), root], scores, only_finished=True))
    learning, ends = read_learning(), read_ends()
    for run in runs:
        name = f"{plan}/{run.relative_to(root).as_posix()}"
        if name not in learning and (found := logged(run)):
            learning[name] = found
        if plan == "laws" and name not in ends:
            ends[name] = learned(run)
    if ends:
        with ENDS.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("run", *Atom._fields))
            for name in sorted(ends, key=natural):
                writer.writerows((name, *atom) for atom in ends[name])
    with LEARNING.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("run", "step", *LOGGED))
        for name in sorted(learning, key=natural):
            writer.writerows((name, int(line["step"]), *(line[each] for each in LOGGED)) for line in learning[name])


def logged(run: Path) -> list[dict[str, float]]:
    """The first line after every tenth of the run."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tenths = [10 * line["step"] // lines[-1]["step"] for line in lines]
    return [
        line
        for line, tenth, before in zip(lines, tenths, [0, *tenths], strict=False)
        if tenth > before and "fraction_entropy" in line
    ]


def learned(run: Path) -> list[Atom]:
    """The return's atoms, in the law's one state, of its one action."""
    found = json.loads((run / "distributions.json").read_text())
    return [Atom(*pair) for pair in zip(found["probabilities"][0][0], found["values"][0][0], strict=True)]


def read_ends() -> dict[str, list[Atom]]:
    """By run, laws/AGENT/ENV/SEED."""
    found: dict[str, list[Atom]] = {}
    if ENDS.is_file():
        with ENDS.open(newline="") as file:
            for name, *atom in list(csv.reader(file))[1:]:
                found.setdefault(name, []).append(Atom(*map(float, atom)))
    return found


def read_learning() -> dict[str, list[dict[str, float]]]:
    """By run, PLAN/VARIANT/AGENT/ENV/SEED, what was logged, in order."""
    found: dict[str, list[dict[str, float]]] = {}
    if LEARNING.is_file():
        with LEARNING.open(newline="") as file:
            for row in csv.DictReader(file):
                name = row.pop("run")
                found.setdefault(name, []).append({key: float(value) for key, value in row.items()})
    return found


def read_plan(plan: str) -> list[RunRecord]:
    path = RESULTS / f"{plan}.csv"
    return load([path], complete)[0] if path.is_file() else []


def write_page() -> None:
    """Tables and pictures, of finished runs."""
    plans = {plan: read_plan(plan) for plan in PLANS}
    learning = read_learning()
    (PAGES / "study_tables.md").write_text("\n".join(page(plans, learning, read_ends())) + "\n")
    if cells := cells_of([run for run in plans["agents"] if run.finished]):
        draw_agents(cells, read_published(PUBLISHED), PAGES, "study_agents")
    kinds = by_kind(learning)
    for name, shown in (
        ("study_laws", [kind for kind in kinds if kind.startswith("laws/")]),
        ("study_fractions", [kind for kind in kinds if kind.endswith("/minatar.breakout")]),
    ):
        if shown:
            draw_learning({kind: kinds[kind] for kind in shown}, {kind: size_of(kind) for kind in shown}, PAGES, name)
    print(PAGES / "study_tables.md")


if __name__ == "__main__":
    main()
