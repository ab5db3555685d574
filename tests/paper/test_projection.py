"""The areas of figure 1 against closed forms."""

import csv
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from fqf import cli
from fqf.errors import UserError
from fqf.laws import EXPONENTIAL, LAPLACE, NORMAL, UNIFORM, w1_of_fractions
from fqf.losses.fraction import w1_gradient
from fqf.paper.projection import optimal_fractions, project, random_fractions, w1_slope


def exponential_area(left, right):
    """Of one step: G(t) = t + (1 - t) ln(1 - t) is an antiderivative of F(t) = -ln(1 - t); as F increases, the area
    between F and F(m), m the midpoint, is the integral of F above m less that below: G(left) + G(right) - 2 G(m)."""

    def antiderivative(tau):
        return tau + (0 if tau == 1 else (1 - tau) * np.log(1 - tau))

    return antiderivative(left) + antiderivative(right) - 2 * antiderivative((left + right) / 2)


def test_areas_of_any_fractions_are_the_closed_form_step_by_step():
    taus = np.array([0.0, 0.1, 0.35, 0.7, 1.0])
    staircase = project(EXPONENTIAL.quantile, taus)
    expected = [exponential_area(left, right) for left, right in itertools.pairwise(taus)]
    np.testing.assert_allclose(staircase.areas, expected, rtol=1e-7)
    np.testing.assert_allclose(staircase.values, -np.log1p(-np.array([0.05, 0.225, 0.525, 0.85])))


def test_optimal_fractions_of_the_exponential_law():
    # 1 - tau_i = (6 - i)(7 - i) / 42: 30, 20, 12, 6 and 2 of 42; W1 = ln(1 + 1/6); the widths are 12, 10, ... of 42.
    taus = optimal_fractions(EXPONENTIAL.quantile, 6)
    np.testing.assert_allclose(1 - taus, np.array([42, 30, 20, 12, 6, 2, 0]) / 42, atol=1e-6)
    np.testing.assert_allclose(project(EXPONENTIAL.quantile, taus).areas.sum(), np.log(7 / 6), rtol=1e-9)


def test_many_optimal_fractions():
    # 1 - tau_i = (80 - i)(81 - i) / (80 81), W1 = ln(81/80)
    taus = optimal_fractions(EXPONENTIAL.quantile, 80)
    left = 80 - np.arange(81)
    np.testing.assert_allclose(1 - taus, left * (left + 1) / (80 * 81), atol=2e-5)
    np.testing.assert_allclose(w1_of_fractions(EXPONENTIAL.quantile, taus), np.log(81 / 80), rtol=1e-8)


def test_a_descent_that_finds_nothing_is_told(monkeypatch):
    def gives_up(function, start, **options):
        return optimize.OptimizeResult(x=start, fun=0.5, jac=np.full(len(start), 0.1))

    monkeypatch.setattr(optimize, "minimize", gives_up)
    with pytest.raises(UserError, match="the descent of W1 found no optimum for 6 fractions"):
        optimal_fractions(EXPONENTIAL.quantile, 6)


def test_optimal_fractions_of_other_laws():
    np.testing.assert_allclose(optimal_fractions(UNIFORM.quantile, 5), np.arange(6) / 5, atol=1e-6)
    # Laplace, N = 2M = 6: W1 = ln(1 + 1/M) = ln(4/3); upper edges: 1 - tau = (M - j)(M - j + 1) / (2 M (M + 1)).
    taus = optimal_fractions(LAPLACE.quantile, 6)
    np.testing.assert_allclose(1 - taus[3:], np.array([12, 6, 2, 0]) / 24, atol=1e-6)
    np.testing.assert_allclose(w1_of_fractions(LAPLACE.quantile, taus), np.log(4 / 3), rtol=1e-9)
    # Normal, standard deviation sqrt(4/3): that of the standard normal law, 0.265766 for N = 4, times it.
    taus = optimal_fractions(NORMAL.quantile, 4)
    np.testing.assert_allclose(taus[1:-1], [0.20561, 0.5, 0.79439], atol=1e-5)
    np.testing.assert_allclose(w1_of_fractions(NORMAL.quantile, taus) / (4 / 3) ** 0.5, 0.265766, atol=1e-6)


def test_the_slope_is_proposition_1():
    # F(w) = w^2 at (.1, .35, .7): midpoints .05, .225, .525, .85; 2 (.01) - .0025 - .050625 = -.033125, and so on.
    taus = np.array([0.0, 0.1, 0.35, 0.7, 1.0])
    slope = w1_slope(np.square, taus)
    np.testing.assert_allclose(slope, [-0.033125, -0.08125, -0.018125])
    middles = (taus[1:] + taus[:-1]) / 2
    edges, values = (np.float32(each**2) for each in (taus[1:-1], middles))
    np.testing.assert_allclose(w1_gradient(jnp.asarray(edges), jnp.asarray(values)), slope, rtol=1e-5)


def test_random_fractions_are_never_better_and_repeat():
    least = np.log(7 / 6)
    for seed in range(5):
        taus = random_fractions(6, seed)
        assert len(taus) == 7
        assert np.all(np.diff(taus) > 0)
        assert project(EXPONENTIAL.quantile, taus).areas.sum() > least
    np.testing.assert_array_equal(random_fractions(6, 3), random_fractions(6, 3))
    assert not np.any(random_fractions(6, 3)[1:-1] == random_fractions(6, 4)[1:-1])


def test_files_say_what_is_drawn_and_repeat_byte_for_byte(tmp_path, capsys):
    for name in ("one", "other"):
        assert cli.main(["paper", "projection", "--out", str(tmp_path / name)]) == 0
    for suffix in ("png", "svg", "csv"):
        one, other = ((tmp_path / name / f"projection.{suffix}").read_bytes() for name in ("one", "other"))
        assert one == other
    with (tmp_path / "one" / "projection.csv").open() as file:
        rows = list(csv.DictReader(file))
    areas = {
        name: sum(float(row["area"]) for row in rows if row["fractions"] == name) for name in ("optimised", "random")
    }
    assert [row["fractions"] for row in rows] == ["optimised"] * 6 + ["random"] * 6
    assert areas["optimised"] == pytest.approx(np.log(7 / 6), rel=1e-9)
    assert f"({areas['random']:.6f}); every area by quadrature" in capsys.readouterr().out
    assert b"date" not in (tmp_path / "one" / "projection.svg").read_bytes().lower()


def test_mistakes_are_one_line(tmp_path, capsys):
    assert cli.main(["paper", "projektion"]) == 2
    assert capsys.readouterr().err == "fqf: unknown artefact 'projektion'; did you mean 'projection'?\n"
    assert cli.main(["paper", "projection", "--law", "exponetial"]) == 2
    assert "--law is 'exponetial'; did you mean 'exponential'?" in capsys.readouterr().err
    assert cli.main(["paper", "projection", "--num-fractions", "0"]) == 2
    assert capsys.readouterr().err == "fqf: num_fractions is 0, but must be at least 1\n"
    (tmp_path / "out.csv").touch()
    assert cli.main(["paper", "projection", "--out", str(tmp_path / "out.csv")]) == 2
    assert "out.csv, which is a file: name a directory to write into\n" in capsys.readouterr().err
    assert cli.main(["paper"]) == 0
    assert "table1" in capsys.readouterr().out
