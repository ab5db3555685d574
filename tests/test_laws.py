import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from fqf.laws import LAWS, compare, w1_of_fractions, w1_to_staircase


def exponential(w):
    return -np.log1p(-np.asarray(w))


def laplace(w):
    w = np.asarray(w)
    return np.sign(w - 0.5) * -np.log(2 * np.minimum(w, 1 - w))


def uniform_fractions(n):
    return np.arange(n + 1) / n


def exponential_optimum(n):
    """1 - tau_i = (N - i)(N - i + 1) / N(N + 1)."""
    left = n - np.arange(n + 1)
    return 1 - left * (left + 1) / (n * (n + 1))


def normal_optimum(n):
    """tau_i <- Phi((x_{i-1} + x_i) / 2), from the large-N law: edges in x at the quantiles of a density as sqrt(f)."""
    taus = np.concatenate([[0.0], ndtr(2**0.5 * ndtri(np.arange(1, n) / n)), [1.0]])
    change = 1.0
    while change > 1e-12:
        values = ndtri((taus[1:] + taus[:-1]) / 2)
        inner = ndtr((values[1:] + values[:-1]) / 2)
        change = np.max(np.abs(inner - taus[1:-1]))
        taus[1:-1] = inner
    return taus


def width_weighted_mean(quantile, taus):
    return np.sum(np.diff(taus) * quantile((taus[1:] + taus[:-1]) / 2))


def riemann_w1(quantile, taus, values, num_points=400_000):
    """The mean of |F - staircase| at equally spaced points; edges and kinks cost about jump / num_points each."""
    points = (np.arange(num_points) + 0.5) / num_points
    return np.mean(np.abs(quantile(points) - values[np.searchsorted(taus, points) - 1]))


@pytest.mark.parametrize("n", [1, 3, 8])
def test_uniform_law_at_its_optimum(n):
    """W1 = (b - a) / 4N: N steps of width 1/N, each a triangle pair of mean height (b - a) / 4N; here [-1, 4]."""
    assert w1_of_fractions(lambda w: 5 * np.asarray(w) - 1, uniform_fractions(n)) == pytest.approx(
        5 / (4 * n), rel=1e-9
    )


def test_uniform_law_of_the_toy_at_its_optimum():
    """Uniform[0, 2]: 1/2N."""
    (law,) = LAWS["toy/uniform"]
    assert w1_of_fractions(law.quantile, uniform_fractions(8)) == pytest.approx(1 / 16, rel=1e-9)


@pytest.mark.parametrize(("n", "optimum", "uniform"), [(8, 0.117783, 0.151055), (32, 0.0307717, 0.048592)])
def test_exponential_law_at_its_optimum_and_at_uniform_fractions(n, optimum, uniform):
    """ln(1 + 1/N): ln(9/8) = .117783, ln(33/32) = .0307717."""
    assert w1_of_fractions(exponential, exponential_optimum(n)) == pytest.approx(np.log(1 + 1 / n), rel=1e-8)
    assert w1_of_fractions(exponential, exponential_optimum(n)) == pytest.approx(optimum, abs=1e-6)
    assert w1_of_fractions(exponential, uniform_fractions(n)) == pytest.approx(uniform, abs=1e-6)


def test_exponential_error_scales_with_the_law():
    """Rate 4: a quarter of it."""
    w1 = w1_of_fractions(lambda w: exponential(w) / 4, exponential_optimum(8))
    assert w1 == pytest.approx(np.log(9 / 8) / 4, rel=1e-8)


@pytest.mark.parametrize(("n", "optimum", "uniform"), [(8, 0.983224, 0.957329), (32, 0.998432, 0.989210)])
def test_exponential_width_weighted_means(n, optimum, uniform):
    """The truth is 1; optimal fractions come closer than uniform ones. Also 1 - tau_hat_i = (N - i)^2 / N(N + 1)."""
    taus = exponential_optimum(n)
    np.testing.assert_allclose(1 - (taus[1:] + taus[:-1]) / 2, (n - np.arange(n)) ** 2 / (n * (n + 1)), rtol=1e-9)
    assert width_weighted_mean(exponential, taus) == pytest.approx(optimum, abs=1e-6)
    assert width_weighted_mean(exponential, uniform_fractions(n)) == pytest.approx(uniform, abs=1e-6)


@pytest.mark.parametrize("half", [1, 4, 16])
def test_laplace_law_at_its_optimum(half):
    """N = 2M: the exponential's fractions on each half, W1 = b ln(1 + 1/M); here b = 3."""
    upper = (1 + exponential_optimum(half)) / 2
    taus = np.concatenate([1 - upper[::-1], upper[1:]])
    assert w1_of_fractions(lambda w: 3 * laplace(w), taus) == pytest.approx(3 * np.log(1 + 1 / half), rel=1e-7)


@pytest.mark.parametrize(
    ("n", "expected", "tolerance"),
    [(2, 0.473222, 1e-6), (3, 0.339707, 1e-6), (4, 0.265766, 1e-6), (8, 0.142905, 1e-6), (32, 0.03816, 1e-5)],
)
def test_normal_law_at_its_fixed_point(n, expected, tolerance):
    assert w1_of_fractions(ndtri, normal_optimum(n)) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(("n", "inner"), [(3, [0.30343, 0.69657]), (4, [0.20561, 0.5, 0.79439])])
def test_normal_laws_optimal_fractions(n, inner):
    np.testing.assert_allclose(normal_optimum(n)[1:-1], inner, atol=1e-5)


@pytest.mark.parametrize(("n", "expected"), [(8, 0.151629), (32, 0.045121)])
def test_normal_law_at_uniform_fractions(n, expected):
    assert w1_of_fractions(ndtri, uniform_fractions(n)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("quantile", "optimum", "limit"),
    [(exponential, exponential_optimum, 1.0), (ndtri, normal_optimum, (np.pi / 2) ** 0.5)],
    ids=["exponential", "normal"],
)
def test_n_times_the_optimum_rises_to_its_limit(quantile, optimum, limit):
    """N W1 -> (integral of sqrt f)^2 / 4: 1/lambda and sqrt(pi/2). The gap falls about as 1/N (exponential: 1/2N), so
    from N = 8 to N = 64 to less than a fifth, and at 64 less than 2 % is missing."""
    gap_8, gap_64 = (limit - n * w1_of_fractions(quantile, optimum(n)) for n in (8, 64))
    assert 0 < gap_64 < 0.02 * limit
    assert gap_64 < gap_8 / 5


@pytest.mark.parametrize("name", LAWS)
def test_w1_of_random_unsorted_values_is_the_riemann_sum(name):
    rng = np.random.default_rng(0)
    taus = np.concatenate([[0.0], np.sort(rng.random(6)), [1.0]])
    for law in LAWS[name]:
        values = rng.normal(1, 1, 7)
        assert np.any(np.diff(values) < 0)
        expected = riemann_w1(law.quantile, taus, values)
        assert w1_to_staircase(law.quantile, taus, values) == pytest.approx(expected, abs=3e-5)


def test_steps_without_width_count_for_nothing():
    """At the ends and in the middle, whatever their value."""
    plain = w1_to_staircase(exponential, np.array([0.0, 0.3, 1.0]), np.array([0.2, 1.5]))
    taus, values = np.array([0.0, 0.0, 0.3, 0.3, 0.3, 1.0, 1.0]), np.array([-9.0, 0.2, 1e9, -1e9, 1.5, 99.0])
    assert w1_to_staircase(exponential, taus, values) == pytest.approx(plain, rel=1e-12)


def test_w1_of_a_constant_is_the_mean_distance_to_it():
    """Exp(1) to the constant c: 2 exp(-c) + c - 1 (integrate |x - c| exp(-x)); 0 gives the mean."""
    for c in (0.0, 1.0, 2.5):
        w1 = w1_to_staircase(exponential, np.array([0.0, 1.0]), np.array([c]))
        assert w1 == pytest.approx(2 * np.exp(-c) + c - 1, rel=1e-7)


def test_w1_to_a_law_of_atoms_is_exact_and_quiet():
    """Return 1 has probability 1/4, 3/2 has 3/16, the mean is 1.6. Steps [0, .41] at 1 and [.41, 1] at 3/2:
    (.41 - .25) / 2 = .08, and above 3/2 the mean excess 1.6 - 1/4 - 3/2 * 3/16 - 3/2 * 9/16 = .225; in all .305.
    Many atoms in one step must not make the quadrature warn: warnings are errors here."""
    (law,) = LAWS["toy/geometric"]
    w1 = w1_to_staircase(law.quantile, np.array([0.0, 0.41, 1.0]), np.array([1.0, 1.5]))
    assert w1 == pytest.approx(0.305, abs=1e-6)


# Of 2 (1 - 2^-T), T ~ Geometric(1/4): E s^T = s/4 / (1 - 3s/4), so E 2^-T = 1/5 and E 4^-T = 1/13;
# mean 2 (1 - 1/5) = 1.6, second moment 4 (1 - 2/5 + 1/13).
MEAN_AND_VARIANCE = {
    "toy/uniform": [(1.0, 1 / 3)],
    "toy/normal": [(0.0, 4 / 3)],
    "toy/exponential": [(1.0, 1.0)],
    "toy/laplace": [(0.0, 2.0)],
    "toy/geometric": [(1.6, 4 * (1 - 2 / 5 + 1 / 13) - 1.6**2)],
    "toy/bandit": [(1.0, 1 / 3), (1.0, 1.0)],
}


@pytest.mark.parametrize("name", LAWS)
def test_the_quantile_function_integrates_to_the_laws_mean_and_variance(name):
    """One point per action; 500,000 midpoints miss less than 1e-5 of a mean, 2e-4 of a variance."""
    points = (np.arange(500_000) + 0.5) / 500_000
    for law, (mean, variance) in zip(LAWS[name], MEAN_AND_VARIANCE[name], strict=True):
        quantiles = law.quantile(points)
        assert np.all(np.diff(quantiles) >= 0)
        assert np.mean(quantiles) == pytest.approx(mean, abs=1e-5)
        assert np.var(quantiles) == pytest.approx(variance, abs=2e-4)


def test_crossing_quantiles_are_atoms_of_one_distribution():
    """Atoms (1, 0) at a half each against a law of 0 or 1 at a half: the same distribution, in another order."""
    law = lambda tau: np.where(np.asarray(tau) < 0.5, 0.0, 1.0)  # noqa: E731
    assert compare(law, np.array([0.5, 0.5]), np.array([1.0, 0.0])).w1 == pytest.approx(0.0, abs=1e-4)
    assert compare(law, np.array([0.5, 0.5]), np.array([1.0, 0.0])).mean == pytest.approx(0.5)
