"""The study's files: what was kept stays when its runs are gone."""

import json
import math
import re
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import ttest_ind

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


@pytest.fixture
def pictures(monkeypatch):
    """By name of a picture, by title of a panel: the points of its lines; and its scale, under `scales of` the name."""
    found = {}

    def keep(figure, path, **options):
        panels = found.setdefault(Path(path).stem, {})
        for axis in figure.axes:
            panels[axis.get_title()] = [list(zip(*map(list, line.get_data()), strict=True)) for line in axis.lines]
            found.setdefault(f"scales of {Path(path).stem}", {})[axis.get_title()] = axis.get_yscale()

    monkeypatch.setattr(Figure, "savefig", keep)
    return found


def log(run, steps, shift, *entropies):
    """Every metric has numbers of its own: a shift of .25 goes with crossings of .5, W1 of .75 and a gradient of 10."""
    lines = [
        {
            "step": step,
            "updates": step,
            "fraction_entropy": entropy,
            "fraction_shift": shift,
            "crossing_rate": 2 * shift,
            "w1_estimate": 3 * shift,
            "w1_gradient_norm": 40 * shift,
            "q": 7.0,
            "episodes": 0,
        }
        for step, entropy in zip(steps, entropies or [UNIFORM] * len(steps), strict=True)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_runs_whose_fractions_collapse_are_counted_where_fractions_are_learned(study, write_run, tmp_path):
    """At N = 32 and N = 4, with entropies of which the lowest is not the last, nor the first."""
    whole = math.log(32)
    for seed, lowest in enumerate((0.49, 0.51)):
        run = write_run(
            "fqf", "minatar/breakout", seed, [0.5, 4.0], runs=tmp_path / "runs/n_sweep/n32", num_fractions=32
        )
        log(run, (1, 2, 3), 0.5, whole, lowest * whole, 0.9 * whole)
    run = write_run("fqf", "minatar/breakout", 0, [0.5, 4.0], runs=tmp_path / "runs/n_sweep/n4", num_fractions=4)
    log(run, (1, 2), 0.5, math.log(4), 0.8 * math.log(4))
    run = write_run(
        "fqf", "minatar/breakout", 0, [0.5, 4.0], runs=tmp_path / "runs/fractions/frozen", fractions="frozen"
    )
    log(run, (1, 2), 0.5, 0.1, 0.1)
    run = write_run("fqf", "minatar/breakout", 0, [0.5, 4.0], runs=tmp_path / "runs/agents", fraction_learning_rate=0.5)
    log(run, (1, 2), 0.5, 0.7 * UNIFORM, 0.6 * UNIFORM)
    page = study("--runs", "runs")
    assert page.split("### Collapses")[1].split("## 6")[0].strip().splitlines()[-2:] == [
        "| `fqf`, 0.5 | 1 | 0 | 0.60 |",
        "| `fqf`, 2.5e-09 | 3 | 1 | 0.49 |",
    ]
    assert "| n_sweep/n32/fqf/minatar.breakout | 2 | 1 to 3 | 1.000 to 0.900 |" in page


def test_the_advantage_at_every_n_and_how_much_it_grows(study, pictures, write_run, tmp_path):
    for size, scores in ((4, (12.0, 16.0)), (32, (4.0, 8.0))):
        for seed, score in enumerate(scores):
            place = tmp_path / "runs" / "n_sweep" / f"n{size}"
            log(write_run("fqf", "minatar/breakout", seed, [0, 0, score], runs=place, num_fractions=size), (1,), 0.1)
            log(write_run("iqn", "minatar/breakout", seed, [0, 5, 5], runs=place, num_quantiles=size), (), 0)
    page = study("--runs", "runs")
    # 4 and 8 less 5: 1 in the mean, whose variance is 8 / 2, with one degree of freedom (t 12.706); over the run half
    # of that. The last row has a variance of 4 + 4 with 64 / (16 + 16) = 2 degrees (t 4.303).
    assert "| N = 32 | 1.00 (-24.41 to 26.41) | -2.00 (-14.71 to 10.71) |" in page
    assert "| N = 4 | 9.00 (-16.41 to 34.41) | 2.00 (-10.71 to 14.71) |" in page
    assert "| N = 8 | - | - |" in page
    assert "| N = 4 minus N = 32 | 8.00 (-4.17 to 20.17) | 4.00 (-2.08 to 10.08) |" in page
    iqn = [(0, 0), (150, 5), (300, 5)]  # thousand steps
    assert pictures["study_n"] == {
        "N = 4": [[(0, 0), (150, 0), (300, 14)], iqn],
        "N = 8": [],
        "N = 32": [[(0, 0), (150, 0), (300, 6)], iqn],
    }


def test_every_game_has_its_agents_and_what_was_published_of_it(study, pictures, write_run, tmp_path):
    published = STUDIES.parent / "results" / "minatar_published.csv"
    assert runpy.run_path(str(STUDIES / "study.py"))["PUBLISHED"] == published
    for agent, env, score in (("fqf", "asterix", 2.0), ("dqn", "breakout", 8.0), ("fqf", "breakout", 4.0)):
        log(write_run(agent, f"minatar/{env}", 0, [0.0, score], runs=tmp_path / "runs/agents"), (1,), 0)
    study("--runs", "runs")
    panels = pictures["study_agents"]
    ours, published = panels["Asterix, one seed"]
    assert ours == [(0, 0), (300, 2)]
    assert [score for _, score in published] == [17.25, 17.25]  # far above, and drawn
    fqf, dqn, *lines = panels["Breakout, one seed"]  # FQF first; thousand steps
    assert (fqf, dqn) == ([(0, 0), (300, 4)], [(0, 0), (300, 8)])
    assert [[score for _, score in line] for line in lines] == [[8.0, 8.0], [10.03, 10.03]]


def test_the_picture_of_fractions_has_the_kinds_of_question_3_on_breakout_alone(study, pictures, write_run, tmp_path):
    """And W1, alone, on a logarithmic scale where one kind ends at more than ten times another."""
    scales = []
    for shift in (0.95, 1.05):
        for place, env, value in (
            ("agents", "breakout", 0.1),
            ("agents", "asterix", 0.3),
            ("fractions/random", "breakout", shift),
            ("targets/next", "breakout", 0.4),
        ):
            runs = tmp_path / str(shift) / place
            log(write_run("fqf", f"minatar/{env}", 0, [0.0, 2.0], runs=runs), (300_000,), value)
        study("--runs", str(tmp_path / str(shift)))
        panels = pictures["study_fractions"]
        assert panels[r"largest $|\tau_i - i/N|$"] == [[(1.0, 0.1)], [(1.0, shift)]]
        found = pictures["scales of study_fractions"]
        scales.append((found[r"estimate of $W_1$"], found["share of crossings"]))
        for file in Path("results").iterdir():
            file.unlink()
        pictures.pop("study_fractions")
    assert scales == [("linear", "linear"), ("log", "linear")]


def test_runs_of_two_protocols_do_not_stand_in_one_study(study, write_run, tmp_path):
    log(write_run("fqf", "minatar/breakout", 0, [0.0, 2.0], runs=tmp_path / "runs/agents"), (1,), 0)
    place = tmp_path / "runs/fractions/uniform"
    log(write_run("fqf", "minatar/breakout", 0, [0.0, 2.0], runs=place, evaluation_epsilon=0.25), (1,), 0)
    with pytest.raises(
        SystemExit, match=r"^study: one study takes one protocol, but evaluation_epsilon is 0\.01 in .*"
    ):
        study("--runs", "runs")


def test_what_might_explain_iqn_stands_beside_the_one_of_question_1(study, write_run, tmp_path):
    """And beside no other game."""
    for agent, env, plan, k, score in (
        ("iqn", "minatar/asterix", "agents", 8, 2.0),
        ("iqn", "minatar/asterix", "acting", 32, 5.0),
        ("fqf", "minatar/asterix", "drawn", None, 4.0),
        ("iqn", "minatar/breakout", "agents", 8, 50.0),
        ("fqf", "minatar/asterix", "agents", None, 70.0),
    ):
        options = {"num_action_quantiles": k} if k else {"fractions": "random"} if plan == "drawn" else {}
        log(write_run(agent, env, 0, [0.5, 1.0, score], runs=tmp_path / "runs" / plan, **options), (1,), 0)
    page = study("--runs", "runs")
    rows = page.split("### Why IQN is late on Asterix")[1].split("## 2")[0].strip().splitlines()
    assert rows[-4:] == [
        "| `iqn`, as above | 2.0, 1 | 1.5, 1 |  |  |",
        "| `iqn`, K = 32, as published | 5.0, 1 | 3.0, 1 | 3.00 | 1.50 |",
        "| `fqf`, random fractions, widths as weights | 4.0, 1 | 2.5, 1 | 2.00 | 1.00 |",
        "| `fqf`, as above | 70.0, 1 | 35.5, 1 | 68.00 | 34.00 |",
    ]


def test_the_corrections_stand_beside_fractions_that_move_as_printed(study, pictures, write_run, tmp_path):
    """In the table that compares with uniform fractions, and in a picture without where else fractions come from."""
    corrected = {"target_weights": "widths", "value_fractions": "midpoints_and_edges"}
    for place, agent, score, options in (
        ("fractions/uniform", "fqf", 2.0, {"fractions": "uniform"}),
        ("fractions/frozen", "fqf", 9.0, {"fractions": "frozen"}),
        ("fractions/moving", "fqf", 4.0, {"fraction_learning_rate": 2.5e-7}),
        ("fractions/moving_widths", "fqf", 5.0, {"fraction_learning_rate": 2.5e-7, "target_weights": "widths"}),
        ("moving/moving", "fqf_consistent", 6.0, {"fraction_learning_rate": 1e-6} | corrected),
        ("moving/far", "fqf_consistent", 7.0, {"fraction_learning_rate": 1e-5} | corrected),
        ("targets/next", "fqf", 8.0, {"target_fractions": "next", "fraction_learning_rate": 2.5e-7}),
    ):
        run = write_run(agent, "minatar/breakout", 0, [0.0, score], runs=tmp_path / "runs" / place, **options)
        log(run, (300_000,), score / 10)
    page = study("--runs", "runs")
    assert "| proposed, a hundred times the rate | 4.0, 1 | 4.0, 1 | 2.00 | 2.00 |" in page
    assert "| proposed, a hundred times the rate, widths as weights | 5.0, 1 | 5.0, 1 | 3.00 | 3.00 |" in page
    assert "| `fqf_consistent`, four hundred times the rate | 6.0, 1 | 6.0, 1 | 4.00 | 4.00 |" in page
    assert "| `fqf_consistent`, four thousand times the rate | 7.0, 1 | 7.0, 1 | 5.00 | 5.00 |" in page
    # In the order of their names: moving, moving_widths, uniform, far, moving; and frozen, moving, uniform.
    assert [score for ((_, score),) in pictures["study_corrections"]["score"]] == [4.0, 5.0, 2.0, 7.0, 6.0]
    assert [score for ((_, score),) in pictures["study_fractions"]["score"]] == [9.0, 4.0, 2.0]


def test_targets_and_bonus_stand_beside_moving_fractions(study, pictures, write_run, tmp_path):
    for place, score, options in (
        ("fractions/moving", 2.0, {}),
        ("targets/next", 5.0, {"target_fractions": "next"}),
        ("targets/bonus", 1.0, {"entropy_coefficient": 1.0}),
    ):
        run = write_run("fqf", "minatar/breakout", 0, [0.5, 4.0, score], runs=tmp_path / "runs" / place, **options)
        log(run, (300_000,), score / 10)
    rows = study("--runs", "runs").split("## 5.")[1].split("### Collapses")[0].strip().splitlines()
    assert rows[-3:] == [
        "| current, no bonus | 2.0, 1 | 3.0, 1 |  |  |",
        "| next | 5.0, 1 | 4.5, 1 | 3.00 | 1.50 |",
        "| a bonus of 1 | 1.0, 1 | 2.5, 1 | -1.00 | -0.50 |",
    ]
    panels = pictures["study_targets"]  # one line of the log each, the last of the run: moving, bonus, next
    assert panels["score"] == [[(1.0, 2.0)], [(1.0, 1.0)], [(1.0, 5.0)]]
    assert panels["mean value"] == [[(1.0, 7.0)]] * 3
    assert panels["share of crossings"] == [[(1.0, 0.4)], [(1.0, 0.2)], [(1.0, 1.0)]]


def test_aggregates_are_of_seeds_that_all_agents_have(study, write_run, tmp_path):
    """Last scores of 1, 2, 3 and 10 where 8 is the most and 0 the least: IQM 2.5 / 8, mean 4 / 8, gap (7 + 6 + 5) / 32.
    Over the run 2.5, 3, 3.5 and 7 where 5 is the most: IQM 3.25 / 5, mean 4 / 5, gap (2.5 + 2 + 1.5) / 20. FQF's do not
    vary, so the difference of means has three degrees of freedom (t 3.1824): 50 / 12 is the variance of DQN's mean of
    last scores, 12.5 / 12 over the run."""
    for seed, score in enumerate((1.0, 2.0, 3.0, 10.0, 99.0)):
        log(write_run("dqn", "minatar/breakout", seed, [0.0, 4.0, score], runs=tmp_path / "runs/agents"), (), 0)
    for seed in range(4):
        log(write_run("fqf", "minatar/breakout", seed, [0.0, 2.0, 8.0], runs=tmp_path / "runs/agents"), (1,), 0)
    page = study("--runs", "runs")
    assert "Over minatar/breakout, seeds 0, 1, 2, 3, which all have;" in page
    rows = [line for line in page.splitlines() if line.startswith("| `dqn` |") and line.count("|") == 6]
    found = [[cell.split()[0] for cell in row.split("|")[2:5]] for row in rows]
    assert found == [["0.31", "0.50", "0.56"], ["0.65", "0.80", "0.30"]]
    assert [row.split("|")[5] for row in rows] == [" -0.50 (-1.31 to 0.31) ", " -0.20 (-0.85 to 0.45) "]
    assert page.count("| `fqf` | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) | 0.00 (0.00 to 0.00) |  |") == 2


def test_aggregates_without_one_game_tell_whose_game_it_is(study, write_run, tmp_path):
    for agent, breakout, asterix in (("dqn", 8.0, 2.0), ("fqf", 4.0, 4.0)):
        for env, score in (("minatar/breakout", breakout), ("minatar/asterix", asterix)):
            log(write_run(agent, env, 0, [0.0, score], runs=tmp_path / "runs/agents"), (1,), 0)
    page = study("--runs", "runs")
    assert (
        "| last score | IQM | mean | optimality gap | IQM without asterix | IQM without breakout | mean minus" in page
    )
    assert "| `dqn` | 0.75 | 0.75 | 0.25 | 1.00 | 0.50 | 0.00 |" in page
    assert "| `fqf` | 0.75 | 0.75 | 0.25 | 0.50 | 1.00 |  |" in page


def test_atari_stands_beside_what_was_published_at_the_same_frames(study, pictures, write_run, tmp_path):
    run = write_run(
        "fqf", "atari/boxing", 0, [0.0, 2.5], runs=tmp_path / "runs/atari", protocol="dopamine", steps=250_000
    )
    log(run, (250_000,), 0)
    page = study("--runs", "runs")
    assert "| `fqf`, ours | 2.5, 1 |" in page
    assert "| IQN, published | -0.2 (-1.0 to 0.6), 5 |" in page
    assert "| training return in every tenth: mean, episodes | 1 | 2 | 3 |" in page
    million = [[frames for frames, _ in line] for line in pictures["study_atari"]["Boxing"]]
    assert million == [[1.0, 2.0, 3.0]] * 5  # C51, DQN, IQN, QR-DQN, Rainbow
    *published, level, ours = pictures["study_atari"]["Boxing, at 1M"]
    found = {place: round(score, 1) for ((place, score),) in published}
    assert found == {0: -6.4, 1: -1.7, 2: -0.2, 3: 0.6, 4: -5.7}
    assert ours == [(5, 2.5)]
    assert [score for _, score in level] == [2.5, 2.5]
    for steps, words in ((500_000, "5.2 (2.9 to 7.7), 5"), (9_999, "-")):
        shutil.rmtree("runs")
        Path("results/atari.csv").unlink()
        run = write_run(
            "fqf", "atari/boxing", 0, [0.0, 2.5], runs=tmp_path / "runs/atari", protocol="dopamine", steps=steps
        )
        log(run, (steps,), 0)
        assert f"| IQN, published | {words} |" in study("--runs", "runs")


def test_returns_on_atari_are_of_the_episodes_that_ended_in_every_tenth(study, pictures, write_run, tmp_path):
    """Two episodes of -1 and one of 2; none; four of 5.5 that end with the run, and one of 0.5 just after its ninth
    tenth."""
    run = write_run(
        "fqf", "atari/boxing", 0, [0.0, 2.5], runs=tmp_path / "runs/atari", protocol="dopamine", steps=250_000
    )
    lines = [(10_000, 2, -1.0), (25_000, 3, 2.0), (30_000, 3, None), (50_000, 3, None), (225_000, 3, None)]
    lines += [(226_000, 4, 0.5), (250_000, 8, 5.5)]
    log(run, [step for step, _, _ in lines], 0)
    counts = [{"episodes": episodes, "return": value} for _, episodes, value in lines]
    told = zip((run / "metrics.jsonl").read_text().splitlines(), counts, strict=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(json.loads(line) | count) + "\n" for line, count in told))
    page = study("--runs", "runs")
    assert "| atari/fqf/atari.boxing/seed0 | 0.0, 3 | - | - | - | - | - | - | - | - | 4.5, 5 |" in page
    *_, ours_in_tenths = pictures["study_atari"]["Boxing"]
    assert ours_in_tenths == [(0.1, 0.0), (1.0, 4.5)]
    shutil.rmtree("runs")
    assert study() == page
    Path("results/atari_tenths.csv").write_text("run,tenth\nrun,1\n")
    with pytest.raises(SystemExit, match=r"results/atari_tenths\.csv is damaged"):
        study()


def test_other_runs_of_a_game_have_tables_and_the_longer_one_a_picture(study, pictures, write_run, tmp_path):
    runs = (("atari", 250_000, 2.5), ("atari_epsilon", 250_000, 3.5), ("atari_longer", 500_000, 4.5))
    for plan, steps, score in runs:
        place = tmp_path / "runs" / plan
        run = write_run("fqf", "atari/boxing", 0, [0.0, score], runs=place, protocol="dopamine", steps=steps)
        log(run, (steps,), 0)
        (told,) = (run / "metrics.jsonl").read_text().splitlines()
        (run / "metrics.jsonl").write_text(json.dumps(json.loads(told) | {"episodes": 1, "return": score}) + "\n")
    on_atari = study("--runs", "runs").split("## 6. Atari")[1]
    short, damped, longer = re.split("### With an eighth of Adam's epsilon|### Two million frames", on_atari)
    for part, (plan, _, score) in zip((short, damped, longer), runs, strict=True):
        assert f"| `fqf`, ours | {score}, 1 |" in part
        assert re.findall(r"^\| (\w+)/fqf/", part, re.MULTILINE) == [plan]
    assert pictures["study_atari"]["Boxing, at 1M"][-1] == [(5, 2.5)]
    assert pictures["study_atari"]["Boxing"][-1] == [(1.0, 2.5)]
    assert pictures["study_atari_longer"]["Boxing, at 2M"][-1] == [(5, 4.5)]
    assert pictures["study_atari_longer"]["Boxing"][-1] == [(2.0, 4.5)]


def test_the_published_lines_are_of_the_minatar_paper_alone(study):
    """Breakout's points as its authors' plot has them; replications are in the file, and not drawn."""
    from study_figures import read_published

    path = STUDIES.parent / "results" / "minatar_published.csv"
    found = read_published(path)
    assert found["minatar/breakout"] == [(400_000, 8.0), (5_000_000, 10.03)]
    assert set(found) >= {"minatar/asterix", "minatar/breakout", "minatar/space_invaders"}
    assert len(path.read_text().splitlines()) - 1 > sum(map(len, found.values()))


def test_a_line_of_the_log_has_the_score_of_its_step_and_entropy_as_a_share(study):
    from study import told

    from fqf.report.records import Curve, RunRecord

    run = RunRecord(Path("run"), {"num_fractions": 8}, Curve((0, 10, 20), (1.0, 3.0, 9.0)), (1, 1, 1), True, {}, None)
    for step, score in ((10, 3.0), (15, 6.0), (20, 9.0)):
        line = told({"step": step, "fraction_entropy": UNIFORM / 2, "q": 7.0}, run)
        assert line == {"step": step, "fraction_entropy": 0.5, "q": 7.0, "score": score}


def test_intervals_of_differences_are_those_of_welch(study):
    """SciPy has them for two kinds; for a difference of differences they are known where one kind alone varies."""
    from study_scores import welch

    ours, theirs = np.array([1.0, 2.0, 4.0]), np.array([3.0, 9.0])
    found = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert welch([ours, theirs], [1, -1]) == pytest.approx((7 / 3 - 6, found.low, found.high))
    still = np.array([5.0, 5.0])
    # Variance 7/3 in three runs, so 7/9 of their mean; t with two degrees is 4.3027.
    half = 4.302653 * math.sqrt(7 / 9)
    centre = 7 / 3 + 5 - 5 - 5
    assert welch([ours, still, still, still], [1, 1, -1, -1]) == pytest.approx((centre, centre - half, centre + half))
    assert welch([ours, still], [-0.5, 0.25]) == pytest.approx((-7 / 6 + 5 / 4, 1 / 12 - half / 2, 1 / 12 + half / 2))
    assert welch([still, still], [1, -1]) == (0, 0, 0)
    assert welch([ours, np.array([3.0])], [1, -1]) == (pytest.approx(7 / 3 - 3), None, None)


def test_without_any_scores_no_page_is_written(study):
    page = Path("docs/results/study_tables.md")
    page.write_text("what was there")
    with pytest.raises(SystemExit, match=r"^study: no scores in .*/results: run it in the project's directory"):
        study()
    assert page.read_text() == "what was there"


def test_curves_over_training_end_where_a_seed_does(study):
    from study_figures import over_training
    from study_fractions import Logged

    one = [{"step": 10, "q": 1.0}, {"step": 30, "q": 3.0}, {"step": 40, "q": 9.0}]
    other = [{"step": 10, "q": 2.0}, {"step": 30, "q": 7.0}]
    shares, rows = over_training([Logged({"steps": 40}, one), Logged({"steps": 40}, other)], "q")
    assert shares.tolist() == [0.25, 0.75]
    assert rows.tolist() == [[1.0, 3.0], [2.0, 7.0]]


def test_what_is_damaged_ends_in_one_line_and_intact_files(study, write_run, tmp_path):
    run = write_run("fqf", "minatar/breakout", 0, [0.5, 4.0], runs=tmp_path / "runs/agents")
    with pytest.raises(SystemExit, match=r"^study: no finished run of agents, .* in nowhere$"):
        study("--runs", "nowhere")
    with pytest.raises(SystemExit, match=r"seed0 is finished, but its metrics.jsonl can't be read: .*No such file"):
        study("--runs", "runs")
    assert not list(Path("results").iterdir())
    log(run, (1,), 0.1)
    study("--runs", "runs")
    for name, message in (
        ("learning.csv", "results/learning.csv is damaged"),
        ("agents.csv", "seed0: a row is damaged"),
    ):
        whole = Path("results", name).read_bytes()
        Path("results", name).write_bytes(whole[: whole.rindex(b",")] + b"\n")
        for arguments in ((), ("--runs", "runs")):
            with pytest.raises(SystemExit, match=message):
                study(*arguments)
        Path("results", name).write_bytes(whole)
    Path("results/agents.csv").unlink()
    with pytest.raises(
        SystemExit, match=r"learning.csv has agents/fqf/.*seed0, of which there are no scores in results"
    ):
        study()


def test_a_run_without_scores_is_left_out_and_the_others_are_kept(study, write_run, tmp_path, capsys):
    for seed in (0, 1):
        log(write_run("fqf", "minatar/breakout", seed, [0.5, 4.0 + seed], runs=tmp_path / "runs/agents"), (1,), 0.1)
    run = tmp_path / "runs/agents/fqf/minatar.breakout/seed1"
    for name, damage in (("evaluations.csv", "step,source\n1,"), ("summary.json", "{")):
        whole = (run / name).read_bytes()
        (run / name).write_text(damage)
        assert "| `fqf` | 4.0, 1 |" in study("--runs", "runs")
        assert "seed1: " in capsys.readouterr().err
        assert "seed1" not in Path("results/learning.csv").read_text()
        (run / name).write_bytes(whole)
    assert "| `fqf` | 4.5 (4.0 to 5.0), 2 |" in study("--runs", "runs")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"step": 8, "updates": 1, "fraction_entropy": 2.0}', "a line of its metrics.jsonl has no fraction_shift"),
        ('{"step": 8, "updates": 0}', "its metrics.jsonl can't be read: it says nothing of fractions"),
        ("", "its metrics.jsonl can't be read: "),
        ('{"step": 0, "fraction_entropy": 2.0}', "its metrics.jsonl can't be read: .* by zero"),
        ('{"step": 8, "fraction_entropy": ', "its metrics.jsonl can't be read: Expecting value"),
    ],
)
def test_a_log_that_lacks_something_ends_in_one_line_before_anything_is_written(
    study, write_run, tmp_path, lines, message
):
    run = write_run("fqf", "minatar/breakout", 0, [0.5, 4.0], runs=tmp_path / "runs/agents")
    (run / "metrics.jsonl").write_text(lines + "\n")
    with pytest.raises(SystemExit, match=f"seed0 is finished, but {message}"):
        study("--runs", "runs")
    assert not list(Path("results").iterdir())


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
    for variant, score, options in (
        ("random", 9.0, {"fractions": "random"}),
        ("random_widths", 8.0, {"fractions": "random", "target_weights": "widths"}),
        ("uniform", 6.0, {"fractions": "uniform"}),
    ):
        run = write_run("fqf", "minatar/breakout", 0, [0.5, 2.0, score], runs=fractions / variant, **options)
        log(run, (1,), 0)
    page = study("--runs", "runs")
    assert "| `fqf` | 5.0 (4.0 to 6.0), 2 |" in page
    assert "| proposed (the paper's rate) | 5.0 (4.0 to 6.0), 2 | 3.5 (3.0 to 4.0), 2 | -1.00 | -0.50 |" in page
    assert "| random | 9.0, 1 | 5.5, 1 | 3.00 | 1.50 |" in page
    assert "| random, widths as weights | 8.0, 1 | 5.0, 1 | 2.00 | 1.00 |" in page
    assert "| uniform | 6.0, 1 | 4.0, 1 |  |  |" in page
    assert "| frozen | - | - | - | - |" in page
    # Of two seeds: 20,000 and 20,000, then 200,000 and 20,000 steps; shifts of .25 and .75, both times.
    means = "20,000 to 110,000 (20,000 to 200,000) | 1.000 to 1.000 | 0.500 to 0.500 (0.250 to 0.750)"
    means += " | 1.000 to 1.000 (0.500 to 1.500) | 1.500 to 1.500 (0.750 to 2.250) | 20.0 to 20.0 (10.0 to 30.0)"
    assert f"| agents/fqf/minatar.breakout | 2 | {means} | 7.0 to 7.0 |" in page
    assert "| `fqf`, 2.5e-09 | 2 | 0 | 1.00 |" in page
    before = {path: path.read_bytes() for path in Path("results").iterdir()}
    assert study("--runs", "runs") == page
    shutil.rmtree("runs")
    assert study() == page
    assert {path: path.read_bytes() for path in Path("results").iterdir()} == before


def test_what_was_learned_of_a_law_is_kept_and_compared_with_the_best_of_as_many_atoms(study, write_run, tmp_path):
    """Uniform[0, 2]: W1 is half the sum of squared widths if values are the middles, 16/256 at best, with equal widths;
    ln(9/8) is the least for Exponential(1), where equal widths do not do.
    Seed 1 has its first edge half a width too far left, 17/256, and values that are all too large by 1: W1 is 1."""
    equal = [1 / 8] * 8
    moved = [1 / 16, 3 / 16, *equal[2:]]
    for seed, (widths, error) in enumerate(((equal, 0), (moved, 1))):
        run = write_run("fqf", "toy/uniform", seed, [0.5, 4.0], runs=tmp_path / "runs" / "laws")
        log(run, (1,), 0)
        values = [2 * (sum(widths[:place]) + width / 2) + error for place, width in enumerate(widths)]
        told = {"probabilities": [[widths]] * 3, "values": [[values]] * 3}
        (run / "distributions.json").write_text(json.dumps(told))
    run = write_run("fqf", "toy/exponential", 0, [0.5, 4.0], runs=tmp_path / "runs" / "laws")
    log(run, (1,), 0)
    (run / "distributions.json").write_text(json.dumps({"probabilities": [[equal]], "values": [[[1.0] * 8]]}))
    page = study("--runs", "runs")
    w1, least, off = "0.5312 (0.0625 to 1.0000)", "0.0645 (0.0625 to 0.0664)", "0.0312 (0.0000 to 0.0625)"
    assert f"| laws, Uniform[0, 2], `fqf` | 2 | {w1} | {least} | 0.0625 | 0.0625 | {off} |" in page
    # All atoms at 1: W1 is E|X - 1| = 2/e. The best edges are 1 - (8 - i)(9 - i) / 72: the fourth is furthest from i/8.
    w1, least, off = (f"{x:.4f} ({x:.4f} to {x:.4f})" for x in (2 / math.e, 0.1511, 1 - 20 / 72 - 4 / 8))
    assert f"| laws, Exponential(1), `fqf` | 1 | {w1} | {least} | 0.1511 | 0.1178 | {off} |" in page
    shutil.rmtree("runs")
    assert study() == page
