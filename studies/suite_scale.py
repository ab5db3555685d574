"""How the suite's driver bears ten thousand runs: time to plan and to go on, runs a second, memory. Nothing is trained:
a job leaves the files of a finished run, and the way to it is the same (plan, resolve, scheduler, Ray, log).

    .venv/bin/python studies/suite_scale.py                    # 10,000 jobs inside Ray's workers, stopped once half-way
    .venv/bin/python studies/suite_scale.py --processes 500    # each job a process of its own, as a run has
"""

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fqf.agents import AGENTS
from fqf.config import to_toml
from fqf.rundir import is_finished
from fqf.suite.cluster import STORE_BYTES, load_ray, make_order, ray_executor
from fqf.suite.command import follow
from fqf.suite.orders import refuse_other_runs, resolve, train_arguments
from fqf.suite.plan import Resources, expand, make_plan
from fqf.suite.state import Journal, examine, journal_path

GAMES = [f"minatar/{game}" for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")]


def make_leave_files() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A job inside a worker: what is left of it is what a finished run would be known by."""

    def leave_files(order):
        import pathlib

        path = pathlib.Path(order["directory"])
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.toml").write_text(order["config"])
        (path / "summary.json").write_text("{}")
        return {"code": 0, "message": ""}

    return leave_files


def study(seeds: int, slots: int, in_processes: bool, work: Path) -> None:
    said = {"agents": list(AGENTS), "envs": GAMES, "seeds": seeds, "steps": 300_000, "memory_gb": 0.0}
    start = time.perf_counter()
    plan = make_plan("scale", said, "the study")
    configs = resolve(expand(plan), "the study")
    report("time to plan", f"{time.perf_counter() - start:.2f} s for {len(configs):,} runs")
    directory = journal_path(work, plan.name)
    journal = Journal(directory, plan)
    ray = load_ray(local=True)
    report("driver before Ray", memory())
    quiet = {"log_to_driver": False, "logging_level": "error"}
    ray.init("local", num_cpus=slots, include_dashboard=False, object_store_memory=STORE_BYTES, **quiet)
    report("driver with Ray", memory())
    ordered, first = 0, 0.0
    halfway = len(configs) // 2

    def order(run):
        nonlocal ordered, first
        ordered += 1
        first = first or time.perf_counter()
        if ordered == halfway:
            os.kill(os.getpid(), signal.SIGTERM)
        path, text = work / run.id, to_toml(configs[run])
        if not in_processes:
            arguments = ["-m", "fqf.cli", *train_arguments(run, work)]
            return make_order(run, arguments, work, directory, Resources()) | {"config": text}
        code = (
            "import pathlib, sys; path = pathlib.Path(sys.argv[1]); path.mkdir(parents=True, exist_ok=True);"
            "(path / 'config.toml').write_text(sys.argv[2]); (path / 'summary.json').write_text('{}')"
        )
        return make_order(run, ["-S", "-c", code, str(path), text], work, directory, Resources())

    for name in ("first half", "second half, after a stop"):
        start, first = time.perf_counter(), 0.0
        again = resolve(expand(plan), "the study")
        refuse_other_runs(again, work)
        todo = [run for run in again if not is_finished(work / run.id)]
        task = None if in_processes else make_leave_files()
        executor = ray_executor(ray, plan.resources, order, task)
        before = time.perf_counter()
        follow(plan, again, todo, work, executor, journal, quiet=True)
        end = time.perf_counter()
        done = sum(is_finished(work / run.id) for run in todo)
        report(name, f"{done:,} jobs in {end - before:.1f} s, {done / (end - before):,.0f} a second")
        report("  until its first job was sent", f"{first - start:.2f} s, {len(configs) - len(todo):,} runs skipped")
        report("  driver", memory())
    start = time.perf_counter()
    states = {examine(run, work, None).state for run in configs}
    report("time to look at all of them", f"{time.perf_counter() - start:.2f} s; states: {', '.join(states)}")
    report("log", f"{(directory / 'log.jsonl').stat().st_size / 1e6:.1f} MB")
    journal.close()
    ray.shutdown()


def memory() -> str:
    """Resident now, and at its most."""
    now = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform == "linux" else 1)
    return f"{now / 1e6:.0f} MB, at most {peak / 1e6:.0f} MB"


def report(what: str, figure: str) -> None:
    print(f"| {what} | {figure} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="a multiple of 50: ten agents, five games")
    parser.add_argument("--processes", type=int, default=0, help="so many jobs instead, each a process of its own")
    parser.add_argument("--slots", type=int, default=2, help="jobs at once")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="fqf-scale-"))
    try:
        study((arguments.processes or arguments.runs) // 50, arguments.slots, bool(arguments.processes), work)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
