import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.naive_losses import central_differences, naive_entropy
from scipy.special import ndtri

from fqf.laws import w1_of_fractions
from fqf.losses.fraction import entropy, pull_back, w1_estimate, w1_gradient

INNER = np.array([0.1, 0.35, 0.7])

QUANTILE_FUNCTIONS = {
    "square": lambda w: np.asarray(w) ** 2,
    "uniform": lambda w: 3 * np.asarray(w) - 1,
    "exponential": lambda w: -np.log1p(-np.asarray(w)) / 2,
    "normal": ndtri,
    "cubic": lambda w: (2 * np.asarray(w) - 1) ** 3,
}


def with_ends(inner):
    return np.concatenate([[0.0], inner, [1.0]])


def gradient_at(quantile, taus):
    """w1_gradient fed with a known quantile function."""
    return w1_gradient(jnp.float32(quantile(taus[1:-1])), jnp.float32(quantile((taus[1:] + taus[:-1]) / 2)))


def test_gradient_for_the_square_is_what_arithmetic_gives():
    """F(w) = w^2, midpoints .05 .225 .525 .85, squares .0025 .050625 .275625 .7225; squared edges .01 .1225 .49:
    .02 - .0025 - .050625 = -.033125;  .245 - .050625 - .275625 = -.08125;  .98 - .275625 - .7225 = -.018125."""
    gradient = gradient_at(np.square, with_ends(INNER))
    np.testing.assert_allclose(gradient, [-0.033125, -0.08125, -0.018125], atol=1e-6)


@pytest.mark.parametrize("name", QUANTILE_FUNCTIONS)
@pytest.mark.parametrize("inner", [INNER, np.array([0.03, 0.5, 0.52, 0.9, 0.97])], ids=["four", "six"])
def test_gradient_is_the_finite_difference_of_w1(name, inner):
    quantile = QUANTILE_FUNCTIONS[name]
    expected = central_differences(lambda x: w1_of_fractions(quantile, with_ends(x)), inner, step=1e-4)
    np.testing.assert_allclose(gradient_at(quantile, with_ends(inner)), expected, atol=1e-5)


def test_gradient_is_the_finite_difference_of_a_riemann_sum():
    """No quadrature, no crossing: |F(w) - F(its step's midpoint)| at 100,000 points, on a grid that the edges meet."""
    points = (np.arange(100_000) + 0.5) / 100_000

    def riemann(inner):
        taus = with_ends(inner)
        step = np.searchsorted(taus, points) - 1
        return np.mean(np.abs(points**2 - ((taus[step] + taus[step + 1]) / 2) ** 2))

    expected = central_differences(riemann, INNER, step=1e-3)
    np.testing.assert_allclose(gradient_at(np.square, with_ends(INNER)), expected, atol=1e-5)


@pytest.mark.parametrize("num_fractions", [2, 7, 32])
def test_gradient_is_zero_at_the_uniform_laws_optimum(num_fractions):
    taus = np.arange(num_fractions + 1) / num_fractions
    np.testing.assert_allclose(gradient_at(lambda w: 5 * w - 2, taus), 0, atol=2e-6)


@pytest.mark.parametrize("num_fractions", [2, 7, 32])
def test_gradient_is_zero_at_the_exponential_laws_optimum_and_not_at_uniform_fractions(num_fractions):
    """1 - tau_i = (N - i)(N - i + 1) / N(N + 1)."""
    left = num_fractions - np.arange(num_fractions + 1)
    optimum = 1 - left * (left + 1) / (num_fractions * (num_fractions + 1))
    uniform = np.arange(num_fractions + 1) / num_fractions
    np.testing.assert_allclose(gradient_at(lambda w: -np.log1p(-w), optimum), 0, atol=5e-6)
    # The tail is too wide: its edge must move up, against the gradient.
    assert gradient_at(lambda w: -np.log1p(-w), uniform)[-1] < -0.2


@pytest.mark.parametrize("half", [1, 3, 16])
def test_gradient_is_zero_at_the_laplace_laws_optimum(half):
    """N = 2M: 1 - tau_{M+j} = (M - j)(M - j + 1) / 2M(M + 1), mirrored below a half."""
    left = half - np.arange(half + 1)
    tail = left * (left + 1) / (2 * half * (half + 1))  # 1/2 .. 0
    taus = np.concatenate([tail[::-1], 1 - tail[1:]])

    def laplace(w):
        return np.sign(w - 0.5) * -np.log(2 * np.minimum(w, 1 - w))

    np.testing.assert_allclose(gradient_at(laplace, taus), 0, atol=5e-6)


@pytest.mark.parametrize("inner", [[0.5], [0.30343, 0.69657], [0.20561, 0.5, 0.79439]], ids=["two", "three", "four"])
def test_gradient_is_zero_at_the_normal_laws_optimum(inner):
    """The listed fractions have five digits, the density there is above .28: 2 x 5e-6 / .28 < 1e-4."""
    np.testing.assert_allclose(gradient_at(ndtri, with_ends(inner)), 0, atol=1e-4)


def test_pull_back_hands_its_gradient_to_the_inner_edges_only():
    gradient = jnp.array([0.3, -1.2, 7.0])
    pulled = jax.grad(pull_back, 1)(gradient, jnp.array([0.0, 0.2, 0.3, 0.9, 1.0]))
    np.testing.assert_array_equal(pulled, np.float32([0, 0.3, -1.2, 7.0, 0]))


def test_pull_back_sends_nothing_into_the_gradient():
    pulled = jax.grad(pull_back, 0)(jnp.array([0.3, -1.2, 7.0]), jnp.array([0.0, 0.2, 0.3, 0.9, 1.0]))
    np.testing.assert_array_equal(pulled, np.zeros(3))


def test_pulled_back_descent_lowers_w1():
    """The sign: one small step on pull_back's gradient brings the exponential law's uniform fractions closer."""

    def quantile(w):
        return -np.log1p(-np.asarray(w))

    taus = np.arange(6) / 5
    step = np.asarray(jax.grad(pull_back, 1)(gradient_at(quantile, taus), jnp.float32(taus)), np.float64)
    assert w1_of_fractions(quantile, taus - 0.01 * step) < w1_of_fractions(quantile, taus) - 1e-4


def test_entropy_of_equal_widths_is_log_n():
    assert float(entropy(jnp.full(7, 1 / 7))) == pytest.approx(np.log(7), rel=1e-6)


def test_entropy_matches_the_naive_sum_and_its_derivative():
    """d/dq of -q log q is -1 - log q."""
    widths = np.array([0.05, 0.2, 0.1, 0.65])
    assert float(entropy(jnp.float32(widths))) == pytest.approx(naive_entropy(widths), rel=1e-6)
    np.testing.assert_allclose(jax.grad(entropy)(jnp.float32(widths)), -1 - np.log(widths), rtol=1e-5, atol=1e-6)


def test_zero_width_has_no_entropy_and_a_finite_gradient():
    """0 log 0 = 0: (0, .25, .75) has the entropy of (.25, .75)."""
    widths = jnp.array([0.0, 0.25, 0.75])
    assert float(entropy(widths)) == pytest.approx(naive_entropy([0.25, 0.75]), rel=1e-6)
    gradient = jax.grad(entropy)(widths)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient[1:], -1 - np.log([0.25, 0.75]), rtol=1e-5)


def test_w1_estimate_is_the_area_between_staircase_and_polyline():
    # F through (.25, 1) (.5, 4) (.65, 5) (.8, 2), widths .5, .3, .2, so that .5 and .8 are edges.
    # Triangles: .25 * 3 / 2 + .15 * 1 / 2 + .15 * 3 / 2 + .1 * 7 / 2 = .375 + .075 + .225 + .35
    widths, quantiles, edges = jnp.array([0.5, 0.3, 0.2]), jnp.array([1.0, 5.0, 9.0]), jnp.array([4.0, 2.0])
    np.testing.assert_allclose(w1_estimate(widths, quantiles, edges), 0.375 + 0.075 + 0.225 + 0.35, rtol=1e-6)


def test_w1_estimate_of_a_line_is_its_w1_without_the_outermost_half_steps():
    """A Uniform[0, 2] law and unequal fractions: steps of width w have W1 2 (w / 2)^2."""
    taus = np.array([0.0, 0.1, 0.4, 0.55, 1.0])
    widths, middles = np.diff(taus), (taus[1:] + taus[:-1]) / 2
    outermost = (widths[0] / 2) ** 2 + (widths[-1] / 2) ** 2
    expected = w1_of_fractions(lambda tau: 2 * np.asarray(tau), taus) - outermost
    found = w1_estimate(jnp.array(widths), jnp.array(2 * middles), jnp.array(2 * taus[1:-1]))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
