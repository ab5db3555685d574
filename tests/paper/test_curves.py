"""Learning curves: what is averaged, smoothed and cut."""

import csv

import numpy as np
import pytest
from matplotlib.figure import Figure

from fqf import cli
from fqf.paper.curves import average, smoothed, usual_smooth
from fqf.report.runs import load


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_moving_average_looks_back():
    np.testing.assert_allclose(smoothed(np.array([1.0, 3.0, 8.0, 4.0]), 2), [1, 2, 5.5, 6])
    np.testing.assert_allclose(smoothed(np.array([1.0, 3.0, 8.0, 4.0]), 3), [1, 2, 4, 5])
    np.testing.assert_allclose(smoothed(np.array([[1.0, 3.0, 8.0], [0.0, 0.0, 6.0]]), 9), [[1, 2, 4], [0, 0, 2]])
    np.testing.assert_allclose(smoothed(np.array([5.0, -1.0]), 1), [5, -1])


@pytest.mark.parametrize(("evaluations", "smooth"), [(11, 1), (39, 1), (40, 2), (200, 10), (1000, 10)])
def test_the_papers_share_of_a_run(write_run, tmp_path, evaluations, smooth):
    write_run("fqf", "minatar/breakout", 0, [0.0] * evaluations)
    assert usual_smooth(load([tmp_path / "runs"])[0]) == smooth


def test_seeds_are_averaged_as_far_as_all_go(write_run, tmp_path):
    write_run("fqf", "minatar/breakout", 0, [0.0, 2.0, 4.0, 6.0, 8.0])
    write_run("fqf", "minatar/breakout", 1, [2.0, 4.0, 9.0, 9.0, 9.0], finished=False)  # half of it: 0 to 150,000
    runs, _ = load([tmp_path / "runs"])
    curve = average(runs, 2)
    np.testing.assert_array_equal(curve.steps, [0, 75_000, 150_000])
    # Smoothed, the seeds are 0, 1, 3 and 2, 3, 6.5.
    np.testing.assert_allclose(curve.mean, [1, 2, 4.75])
    np.testing.assert_allclose(curve.low, [0, 1, 3])
    np.testing.assert_allclose(curve.high, [2, 3, 6.5])


def test_agents_are_chosen_by_name(write_run, tmp_path, capsys):
    for seed, last in enumerate((4.0, 8.0)):
        write_run("fqf", "atari/pong", seed, [-21.0, 2.0, last], steps=1_000_000)
    write_run("dqn", "atari/pong", 0, [-21.0, 2.0, 1.0], steps=1_000_000)
    write_run("dqn", "atari/alien", 0, [0.0, 200.0, 300.0], steps=1_000_000)
    runs = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "paper")]
    assert cli.main(["paper", "curves", *runs]) == 0
    said = capsys.readouterr().out
    assert f"curves.png, .svg, .csv: {tmp_path / 'runs'}: protocol paper" in said
    assert "of 2 runs, mean and range of 2 seeds; not smoothed; no runs of iqn" in said
    rows = rows_of(tmp_path / "paper" / "curves.csv")
    assert [list(row.values()) for row in rows] == [
        ["atari/pong", "fqf", "0", "0", "-21.0", "-21.0", "-21.0", "2"],
        ["atari/pong", "fqf", "500000", "2000000", "2.0", "2.0", "2.0", "2"],
        ["atari/pong", "fqf", "1000000", "4000000", "6.0", "4.0", "8.0", "2"],
    ]
    assert cli.main(["paper", "curves", *runs, "--agents", "dqn,\tfqf", "--smooth", "2"]) == 0
    said = capsys.readouterr().out
    assert "moving average of 2 evaluations, each with those before it" in said
    assert "no run of fqf on atari/alien" in said
    assert {row["agent"] for row in rows_of(tmp_path / "paper" / "curves.csv")} == {"dqn", "fqf"}
    assert cli.main(["paper", "curves", *runs, "--agents", "iqn,c51"]) == 2
    assert capsys.readouterr().err == "fqf: agents is 'iqn,c51', but the runs are of dqn, fqf\n"
    assert cli.main(["paper", "curves", *runs, "--agents", "fqf,rainbw"]) == 2
    assert capsys.readouterr().err == "fqf: agents has 'rainbw'; did you mean 'rainbow'?\n"
    assert cli.main(["paper", "curves", *runs, "--smooth", "0"]) == 2
    assert capsys.readouterr().err == "fqf: smooth is 0, but must be at least 1\n"
    assert cli.main(["paper", "curves", "--runs"]) == 2
    assert capsys.readouterr().err.startswith("fqf: --runs has nothing after it: name runs, ")


def test_every_game_has_its_own_share(write_run, tmp_path, capsys):
    write_run("fqf", "minatar/breakout", 0, [0.0] * 39 + [4.0])
    write_run("fqf", "minatar/asterix", 0, [0.0, 1.0, 2.0])
    assert cli.main(["paper", "curves", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "of 2 runs, one seed; moving average of 1 to 2 evaluations, each with those before it" in said
    ends = {row["env"]: row["mean"] for row in rows_of(tmp_path / "curves.csv")}
    assert ends == {"minatar/asterix": "2.0", "minatar/breakout": "2.0"}  # the latter is the mean of 0 and 4


def test_where_a_seed_has_no_score_there_is_no_point(write_run, tmp_path, capsys):
    """Nor is there a made-up one in the moving average."""
    for seed, scores in enumerate(([0, 2, 4, 6, 9], [0, 1, 3, 5, 7])):
        write_run("fqf", "minatar/breakout", seed, [float(score) for score in scores])
    file = tmp_path / "runs/fqf/minatar.breakout/seed1/evaluations.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:3], *lines[4:]]))  # the header, 0 and 75,000; not 150,000
    curve = average(load([tmp_path / "runs"])[0], 2)
    np.testing.assert_array_equal(curve.steps, [0, 75_000, 225_000, 300_000])
    np.testing.assert_allclose(curve.mean, [0, 0.75, 3.5, 6.75])  # 0, 1, 4, 7.5 and 0, 0.5, 3, 6
    assert cli.main(["paper", "curves", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    assert "seed1 has no score at 1 step where other seeds have one: left out of the curve" in capsys.readouterr().out


def test_seeds_without_a_common_step_have_no_curve(write_run, tmp_path, capsys):
    for seed, kept in enumerate((3, 4)):
        path = write_run("fqf", "atari/pong", seed, [-21.0, 2.0, 4.0], protocol="dopamine", steps=1_000_000)
        lines = (path / "evaluations.csv").read_text().splitlines(keepends=True)
        (path / "evaluations.csv").write_text("".join([lines[0], lines[2 * kept - 3]]))  # of training, one line each
    assert cli.main(["paper", "curves", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 2
    assert "seed0 and the other seeds beside it have no step in common at which they were scored" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("games", [("asterix", "breakout", "freeway"), ("asterix", "breakout")])
def test_a_legend_stands_beside_the_curves_and_inside_the_picture(write_run, tmp_path, monkeypatch, games):
    """However long the names of kinds are."""
    for kind in ("proposed", "frozen", "uniform", "random"):
        for weights in ("equal", "widths"):
            for game in games:
                options = {"fractions": kind, "target_weights": weights, "entropy_coefficient": len(kind) / 10}
                write_run("fqf", f"minatar/{game}", 0, [0, 1], runs=tmp_path / "runs" / kind / weights, **options)
    places = []

    def look(figure, path, **options):
        figure.draw_without_rendering()
        legend, whole = figure.legends[0].get_window_extent(), figure.bbox
        places.append((whole.x0 <= legend.x0 and legend.x1 <= whole.x1 and legend.y1 <= whole.y1, legend, figure))

    monkeypatch.setattr(Figure, "savefig", look)
    assert cli.main(["paper", "curves", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    inside, legend, figure = places[0]
    assert inside
    assert not any(legend.overlaps(axis.get_tightbbox()) for axis in figure.axes if axis.axison)
