"""The study of agents and fractions: its data from runs, and its page from the data.

    small="agents acting drawn n_sweep fractions moving laws laws_constant targets"
    for plan in $small atari atari_epsilon atari_longer; do
      kept=results/$plan.csv; [ -f $kept ] || kept=
      fqf suite studies/plans/$plan.toml --runs runs/study/$plan ${kept:+--collected $kept}
      .venv/bin/python studies/study.py --runs runs/study
    done

It may be said at any time: what has finished by then is added to results/PLAN.csv (a row for every evaluation),
results/learning.csv (what was logged of fractions, after every tenth of a run), results/law_ends.csv (what was learned
of a known law) and results/atari_tenths.csv (what training returned in every tenth of a run). Their runs are not made
again, so the study can go on where no run directory is left, on another day or machine. From these files, and nothing
else, it writes docs/results/study_tables.md and the study's pictures; without --runs only those.
"""

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from collect import collect
from study_atari import ON_ATARI, ByRun, Tenth, draw_atari, in_tenths, of_one_plan
from study_figures import OF_FRACTIONS, OF_GAMES, draw_agents, draw_learning, draw_sizes, read_published
from study_fractions import Atom, ByKind, Logged, by_kind
from study_kinds import Plans, by_size
from study_scores import by_seed
from study_tables import page

from fqf.errors import UserError
from fqf.files import write_whole
from fqf.paper.runs import refuse_protocols
from fqf.report.groups import natural
from fqf.report.records import RunRecord
from fqf.report.runs import load

PLANS = ("agents", "acting", "drawn", "n_sweep", "fractions", "moving", "laws", "laws_constant", "targets", *ON_ATARI)
RESULTS, PAGES = Path("results"), Path("docs/results")
LEARNING, ENDS, TENTHS = (RESULTS / f"{name}.csv" for name in ("learning", "law_ends", "atari_tenths"))
PUBLISHED = Path(__file__).parents[1] / "results" / "minatar_published.csv"
Found = TypeVar("Found")
DRAWN = ("frozen", "frozen_widths", "uniform", "random", "random_widths", "moving")
SOURCES = ("agents/fqf", *(f"fractions/{variant}" for variant in DRAWN))
"""What question 3's first picture shows: where fractions come from."""
CORRECTED = ("agents/fqf_consistent", "fractions/uniform", "fractions/moving", "fractions/moving_widths", "moving")
"""Its second: the two corrections while fractions move."""
LOGGED = ("fraction_entropy", "fraction_shift", "crossing_rate", "w1_estimate", "w1_gradient_norm", "q")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="where the plans' runs are, each in the directory of its plan's name")
    arguments = parser.parse_args()
    try:
        if arguments.runs:
            keep(arguments.runs)
        write_page()
    except UserError as error:
        sys.exit(f"study: {error}")


# What is kept


def keep(root: Path) -> None:
    """Scores and what was logged of finished runs, beside those of runs that may be gone by now. All is read before
    anything is written; of a run that has no scores nothing is kept."""
    found = {plan: finished(root / plan) for plan in PLANS}
    if not any(found.values()):
        raise UserError(f"no finished run of {', '.join(PLANS)} in {root}")
    for plan in PLANS:
        read_plan(plan)
    learning, ends, tenths = read_learning(), read_ends(), read_tenths()
    for plan, runs in found.items():
        for run in runs:
            name = f"{plan}/{run.path.relative_to(root / plan).as_posix()}"
            if name not in learning and "num_fractions" in run.config:
                learning[name] = of_log(run.path, logged)
            if plan in ON_ATARI and name not in tenths:
                tenths[name] = of_log(run.path, in_tenths)
            if plan.startswith("laws") and name not in ends:
                ends[name] = learned(run.path)
    for plan in (plan for plan, runs in found.items() if runs):
        scores = RESULTS / f"{plan}.csv"
        print(collect([*([scores] if scores.is_file() else []), root / plan], scores, only_finished=True))
    for path, columns, kept in ((ENDS, Atom._fields, ends), (TENTHS, Tenth._fields, tenths)):
        write_rows(path, ("run", *columns), ((name, *each) for name in ordered(kept) for each in kept[name]))
    lines = ((name, line) for name in ordered(learning) for line in learning[name])
    rows = ((name, int(line["step"]), *(line[each] for each in LOGGED)) for name, line in lines)
    write_rows(LEARNING, ("run", "step", *LOGGED), rows)


def finished(place: Path) -> list[RunRecord]:
    """The runs whose scores will be collected."""
    runs = load([place])[0] if place.is_dir() else []
    return sorted((run for run in runs if run.finished), key=lambda run: run.path)


def ordered(names: Iterable[str]) -> list[str]:
    return sorted(names, key=natural)


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def of_log(run: Path, what: Callable[[Sequence[Mapping[str, Any]]], Found]) -> Found:
    """What is kept of the lines that a run logged."""
    try:
        return what([json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()])
    except KeyError as error:
        raise UserError(f"{run} is finished, but a line of its metrics.jsonl has no {error.args[0]}") from None
    except (OSError, ValueError, TypeError, ArithmeticError) as error:
        raise UserError(f"{run} is finished, but its metrics.jsonl can't be read: {error}") from None


def logged(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Of an agent that has fractions: the first line after every tenth of the run in which it learned."""
    tenths = [10 * line["step"] // lines[-1]["step"] for line in lines]
    found = [
        {name: float(line[name]) for name in ("step", *LOGGED)}
        for line, tenth, before in zip(lines, tenths, [0, *tenths], strict=False)
        if tenth > before and line["updates"]
    ]
    if not found:
        raise ValueError("it says nothing of fractions")
    return found


def learned(run: Path) -> list[Atom]:
    """The return's atoms, in the law's one state, of its one action."""
    try:
        found = json.loads((run / "distributions.json").read_text())
        return [Atom(*pair) for pair in zip(found["probabilities"][0][0], found["values"][0][0], strict=True)]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{run} is finished, but its distributions.json can't be read: {error}") from None


# What was kept


def read_rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_kept(path: Path, columns: Sequence[str], make: Callable[[list[float]], Found]) -> dict[str, list[Found]]:
    """By run, PLAN/VARIANT/AGENT/ENV/SEED, in order."""
    found: dict[str, list[Found]] = {}
    try:
        for row in read_rows(path):
            found.setdefault(row["run"], []).append(make([float(row[name]) for name in columns]))
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is damaged") from None
    return found


def read_ends() -> dict[str, list[Atom]]:
    return read_kept(ENDS, Atom._fields, Atom._make)


def read_tenths() -> dict[str, list[Tenth]]:
    return read_kept(TENTHS, Tenth._fields, lambda row: Tenth(int(row[0]), int(row[1]), row[2], int(row[3])))


def read_learning() -> dict[str, list[dict[str, float]]]:
    """What was logged."""
    columns = ("step", *LOGGED)
    return read_kept(LEARNING, columns, lambda row: dict(zip(columns, row, strict=True)))


def read_plan(plan: str) -> list[RunRecord]:
    path = RESULTS / f"{plan}.csv"
    runs, damaged = load([path]) if path.is_file() else ([], [])
    for each in damaged:
        raise UserError(f"{each.path}: {each.why}")
    return runs


def beside_scores(
    learning: Mapping[str, Sequence[Mapping[str, float]]], plans: Mapping[str, Sequence[RunRecord]]
) -> dict[str, Logged]:
    """What runs logged, with their configs, and with their score at every line."""
    runs = {
        f"{plan}/{run.path.relative_to(RESULTS / f'{plan}.csv').as_posix()}": run
        for plan, found in plans.items()
        for run in found
    }
    for name in learning:
        if name not in runs:
            raise UserError(f"{LEARNING} has {name}, of which there are no scores in {RESULTS}")
    return {
        name: Logged(runs[name].config, [told(line, runs[name]) for line in lines]) for name, lines in learning.items()
    }


def told(line: Mapping[str, float], run: RunRecord) -> dict[str, float]:
    """The entropy as a share of that of uniform fractions; the score between two evaluations is on a line from one to
    the other."""
    share = line["fraction_entropy"] / math.log(run.config["num_fractions"])
    return {**line, "fraction_entropy": share, "score": float(np.interp(line["step"], *run.curve))}


class Kept(NamedTuple):
    """All that the page is made of."""

    plans: Plans
    learning: ByKind[Logged]
    ends: ByKind[Sequence[Atom]]
    tenths: ByRun


def read_all() -> Kept:
    plans = {plan: read_plan(plan) for plan in PLANS}
    learning = by_kind(beside_scores(read_learning(), plans))
    if not any(plans.values()):
        raise UserError(f"no scores in {RESULTS.resolve()}: run it in the project's directory, or say --runs")
    longer = ("atari_longer",)  # stands by itself
    for together in ([plan for plan in PLANS if plan not in longer], longer):
        refuse_protocols([run for plan in together for run in plans[plan]], "study")
    return Kept(plans, learning, by_kind(read_ends()), read_tenths())


def text_of(kept: Kept) -> str:
    return "\n".join(page(*kept)) + "\n"


def write_page() -> None:
    """Tables and pictures, of finished runs."""
    kept = read_all()
    plans, kinds, _, tenths = kept
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / "study_tables.md").write_text(text_of(kept))
    if cells := by_seed(plans["agents"]):
        draw_agents(cells, read_published(PUBLISHED), PAGES, "study_agents")
    for plan in ("atari", "atari_longer"):
        if cells := by_seed(plans[plan]):
            draw_atari(cells, of_one_plan(tenths, plan), PAGES, f"study_{plan}")
    if any(run.finished for run in plans["n_sweep"]):
        draw_sizes({agent: by_size(plans, agent) for agent in ("fqf", "iqn")}, PAGES, "study_n")
    on_breakout = [kind for kind in kinds if kind.endswith("/minatar.breakout")]
    for name, panels, shown in (
        ("study_laws", OF_FRACTIONS, [kind for kind in kinds if of_plan(kind, "laws")]),
        ("study_laws_constant", OF_FRACTIONS, [kind for kind in kinds if of_plan(kind, "laws_constant")]),
        ("study_fractions", OF_GAMES, [kind for kind in on_breakout if of_plan(kind, *SOURCES)]),
        ("study_corrections", OF_GAMES, [kind for kind in on_breakout if of_plan(kind, *CORRECTED)]),
        ("study_targets", OF_GAMES, [kind for kind in on_breakout if of_plan(kind, "fractions/moving", "targets")]),
    ):
        if shown:
            draw_learning({kind: kinds[kind] for kind in shown}, panels, PAGES, name)
    print(PAGES / "study_tables.md")


def of_plan(kind: str, *plans: str) -> bool:
    """PLAN or PLAN/VARIANT."""
    return any(kind.startswith(f"{plan}/") for plan in plans)


if __name__ == "__main__":
    main()
