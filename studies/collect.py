"""The scores of many runs as one small CSV file, which `fqf paper` and `fqf report` take in place of the runs.

    .venv/bin/python studies/collect.py runs/agents --out results/agents.csv
    .venv/bin/python studies/collect.py results/agents.csv runs/more --out results/agents.csv

Name the directory that a suite has as RUNS: what lies between it and a run's own directory is the run's variant. Runs
that are not finished are in the file, and marked; those that can't be read are named and left out. The same runs give
the same bytes, in any order.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from fqf.errors import UserError
from fqf.files import write_whole
from fqf.report.collected import write_collected
from fqf.report.groups import natural
from fqf.report.plots import count
from fqf.report.records import RunRecord
from fqf.report.runs import load


def name_of(run: RunRecord, roots: list[Path]) -> tuple[str, str]:
    """A run's id, as its suite writes it, and its variant: where it is below the path that was named for it."""
    own = f"{run.config['agent']}/{run.env.replace('/', '.')}/seed{run.config['seed']}"
    root = next(root for root in roots if run.path.is_relative_to(root))
    place = run.path.relative_to(root).as_posix()
    return (place, place.removesuffix(own).strip("/")) if f"/{place}".endswith(f"/{own}") else (own, "")


def collect(roots: list[Path], out: Path, only_finished: bool = False) -> str:
    found, skipped = load(roots)
    for each in skipped:
        print(f"left out {each.path}: {each.why}", file=sys.stderr)
    runs = [run for run in found if run.finished or not only_finished]
    if not runs:
        raise UserError(f"no run to collect in {', '.join(map(str, roots))}")
    named = sorted(((*name_of(run, roots), run) for run in runs), key=lambda each: natural(each[0]))
    name, times = Counter(name for name, _, _ in named).most_common(1)[0]
    if times > 1:
        raise UserError(f"{times} runs are called {name}: name the directory above them, so that they are told apart")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, write_collected(named).encode())
    unfinished = [name for name, _, run in named if not run.finished]
    marked = f", unfinished: {', '.join(unfinished)}" if unfinished else ""
    return f"{count(len(named), 'run')} in {out}{marked}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="directories of runs, or files that this study wrote")
    parser.add_argument("--out", type=Path, required=True, help="file to write, such as results/agents.csv")
    parser.add_argument("--only-finished", action="store_true", help="leave out runs that are not finished")
    arguments = parser.parse_args()
    try:
        print(collect(arguments.runs, arguments.out, arguments.only_finished))
    except UserError as error:
        sys.exit(f"collect: {error}")


if __name__ == "__main__":
    main()
