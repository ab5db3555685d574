"""The study's files: what was kept stays when its runs are gone."""

import json
import math
import runpy
import shutil
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "studies"
UNIFORM = math.log(8)


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


def log(run, steps, shift, entropy=UNIFORM):
    """Every metric has numbers of its own: a shift of .25 goes with crossings of .5, W1 of .75 and a gradient of 10."""
    lines = [
        {
            "step": step,
            "fraction_entropy": entropy,
            "fraction_shift": shift,
            "crossing_rate": 2 * shift,
            "w1_estimate": 3 * shift,
            "w1_gradient_norm": 40 * shift,
            "q": 7.0,
        }
        for step in steps
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_whose_fractions_collapse_is_counted(study, write_run, tmp_path):
    n32 = tmp_path / "runs" / "n_sweep" / "n32"
    log(write_run("fqf", "minatar/breakout", 0, [0.5, 4.0], runs=n32, num_fractions=32), (9,), 0.5, 0.4 * math.log(32))
    log(write_run("fqf", "minatar/breakout", 1, [0.5, 8.0], runs=n32, num_fractions=32), (9,), 0.5, 0.6 * math.log(32))
    for seed, score in enumerate((5.0, 5.0)):
        log(write_run("iqn", "minatar/breakout", seed, [0.5, score], runs=n32, num_quantiles=32), (), 0)
    page = study("--runs", "runs")
    assert "1 of 2 runs; the lowest is 0.40." in page
    # 4 and 8 less 5: 1 in the mean; of two seeds drawn with replacement both may be the 4, or the 8.
    assert "| N = 32 | 1.00 (-1.00 to 3.00) | 1.00 (-1.00 to 3.00) |" in page
    assert "| N = 4 | - | - |" in page


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
    for source, score in (("random", 9.0), ("uniform", 6.0)):
        run = write_run("fqf", "minatar/breakout", 0, [0.5, 2.0, score], runs=fractions / source, fractions=source)
        log(run, (), 0)
    page = study("--runs", "runs")
    assert "| `fqf` | 5.0 (4.0 to 6.0), 2 |" in page
    assert "| proposed (the paper's rate) | 5.0 (4.0 to 6.0), 2 | 3.5 (3.0 to 4.0), 2 | -1.00 | -0.50 |" in page
    assert "| random | 9.0, 1 | 5.5, 1 | 3.00 | 1.50 |" in page
    assert "| uniform | 6.0, 1 | 4.0, 1 |  |  |" in page
    assert "| frozen | - | - | - | - |" in page
    # Of two seeds: 20,000 and 20,000, then 200,000 and 20,000 steps; shifts of .25 and .75, both times.
    means = "20,000 to 110,000 | 1.000 to 1.000 | 0.500 to 0.500 | 1.000 to 1.000 | 1.500 to 1.500 | 20.0 to 20.0 |"
    assert f"| agents/fqf/minatar.breakout | 2 | {means}" in page
    assert "0 of 2 runs; the lowest is 1.00." in page
    before = {path: path.read_bytes() for path in Path("results").iterdir()}
    assert study("--runs", "runs") == page
    shutil.rmtree("runs")
    assert study() == page
    assert {path: path.read_bytes() for path in Path("results").iterdir()} == before


def test_what_was_learned_of_a_law_is_kept_and_compared_with_the_best_of_as_many_atoms(study, write_run, tmp_path):
    """Uniform[0, 2]: W1 is half the sum of squared widths if values are the middles, 16/256 at best, with equal widths.
    Seed 1 has its first edge half a width too far left, 17/256, and values that are all too large by 1: W1 is 1."""
    equal = [1 / 8] * 8
    moved = [1 / 16, 3 / 16, *equal[2:]]
    for seed, (widths, error) in enumerate(((equal, 0), (moved, 1))):
        run = write_run("fqf", "toy/uniform", seed, [0.5, 4.0], runs=tmp_path / "runs" / "laws")
        log(run, (), 0)
        values = [2 * (sum(widths[:place]) + width / 2) + error for place, width in enumerate(widths)]
        told = {"probabilities": [[widths]] * 3, "values": [[values]] * 3}
        (run / "distributions.json").write_text(json.dumps(told))
    page = study("--runs", "runs")
    w1, least, off = "0.531 (0.062 to 1.000)", "0.064 (0.062 to 0.066)", "0.031 (0.000 to 0.062)"
    assert f"| Uniform[0, 2], `fqf` | 2 | {w1} | {least} | 0.062 | {off} |" in page
    shutil.rmtree("runs")
    assert study() == page
