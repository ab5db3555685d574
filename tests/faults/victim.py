"""A process to be killed: trains what it is told to, one run after the other, and resumes what an earlier life left.

python victim.py RUNS '[{"environment": "classic/cartpole", "agent": "fqf", "steps": 400}]'
"""

import json
import os
import resource
import sys
from pathlib import Path

import fqf
from fqf.rundir import is_finished


def main(runs: Path, jobs: list[dict]) -> None:
    for job in jobs:
        path = run_directory(runs, job)
        if not (path / "config.toml").is_file():
            fqf.train(**job, runs=runs, quiet=True, overwrite=path.exists())
        elif not is_finished(path):
            fqf.resume(path, quiet=True)


def run_directory(runs: Path, job: dict) -> Path:
    return runs / job["agent"] / job["environment"].replace("/", ".") / f"seed{job.get('seed', 0)}"


if __name__ == "__main__":
    if limit := os.environ.get("VICTIM_FILE_BYTES"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
