"""The study's files: what was kept stays when its runs are gone."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture
def study(monkeypatch, tmp_path):
    """`study(*arguments)` as from the command line, in an empty project."""
    monkeypatch.syspath_prepend(str(STUDIES))
    monkeypatch.chdir(tmp_path)
    Path("docs/results").mkdir(parents=True)
    Path("results").mkdir()

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["study.py", *arguments])
        runpy.run_path(str(STUDIES / "study.py"), run_name="__main__")
        return Path("docs/results/study_tables.md").read_text()

    return run


def log(run, steps, shift):
    names = ("fraction_entropy", "fraction_shift", "crossing_rate", "w1_estimate", "w1_gradient_norm", "q")
    lines = [{"step": step, **dict.fromkeys(names, 1.5), "fraction_shift": shift} for step in steps]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_study_goes_on_where_its_runs_are_gone(study, write_run, tmp_path):
    agents, fractions = tmp_path / "runs" / "agents", tmp_path / "runs" / "fractions"
    log(write_run("fqf", "minatar/breakout", 0, [0.5, 2.0, 4.0], runs=agents), (20_000, 30_000, 31_000, 200_000), 0.25)
    log(write_run("fqf", "minatar/breakout", 1, [0.5, 2.0, 4.0], runs=agents, finished=False), (20_000,), 0.5)
    assert "| `fqf` | 4.0, 1 |" in study("--runs", "runs")
    kept = Path("results/learning.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in kept[1:]] == [
        ["agents/fqf/minatar.breakout/seed0", "20000"],
        ["agents/fqf/minatar.breakout/seed0", "200000"],
    ]
    shutil.rmtree(agents)
    log(write_run("fqf", "minatar/breakout", 1, [0.5, 2.0, 6.0], runs=agents), (20_000,), 0.75)
    log(write_run("fqf", "minatar/breakout", 0, [0.5, 2.0, 9.0], runs=fractions / "random", fractions="random"), (), 0)
    page = study("--runs", "runs")
    assert "| `fqf` | 5.0 (4.0 to 6.0), 2 |" in page
    assert "| random | 9.0, 1 | 9.0 |" in page
    assert "| agents/fqf/minatar.breakout | 2 | 20,000 to 110,000 |" in page  # 20,000 and 20,000; 200,000 and 20,000
    before = {path: path.read_bytes() for path in Path("results").iterdir()}
    assert study("--runs", "runs") == page
    shutil.rmtree("runs")
    assert study() == page
    assert {path: path.read_bytes() for path in Path("results").iterdir()} == before
