import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fqf.networks import fractions

NUM_FRACTIONS = (1, 2, 5, 32, 128)  # few, as each compiles anew; never equal to the three rows
GRID = 2.0**-24

propose = jax.jit(fractions.propose)
edges_jacobian = jax.jit(jax.jacobian(lambda logits: fractions.propose(logits[None]).taus[0]))
plain_jacobian = jax.jit(jax.jacobian(lambda logits: jnp.cumsum(jax.nn.softmax(logits))))


def logits_within(bound):
    elements = st.floats(-bound, bound, width=32)
    shapes = st.sampled_from(NUM_FRACTIONS).map(lambda n: (3, n))
    return shapes.flatmap(lambda shape: arrays(np.float32, shape, elements=elements))


MILD = logits_within(4.984375)  # a spread below 10; 4 + 63/64 is exact in float32
WILD = st.sampled_from([1.0, 20.0, 200.0, 2.0**99]).flatmap(logits_within)  # 2^99 = 6e29

check = settings(derandomize=True, deadline=None, max_examples=150)

# No width is left for the last step, and those of the others, rounded, add up to a little more than 1.
ROUNDED_UP = np.float32([[0.6701078414916992, 0.9572199583053589, 0.48025888204574585, 0.28036659955978394, -1000]])


@check
@given(WILD)
@example(ROUNDED_UP)
def test_edges_run_from_exactly_zero_to_exactly_one_and_never_decrease(logits):
    taus = np.asarray(propose(jnp.array(logits)).taus)
    assert taus.shape == (len(logits), logits.shape[1] + 1)
    assert np.all(taus[:, 0] == 0.0)
    assert np.all(taus[:, -1] == 1.0)
    assert np.all(np.diff(taus, axis=1) >= 0)


@pytest.mark.parametrize("num_fractions", [4, 5])
def test_edges_never_decrease_when_the_last_step_has_no_width(num_fractions):
    """All of the probability is in the inner edges' sum, so every rounding upwards would carry it past 1."""
    rng = np.random.default_rng(0)
    logits = rng.random((100_000, num_fractions), np.float32)
    logits[:, -1] = -1000
    taus = np.asarray(propose(jnp.array(logits)).taus)
    assert np.min(np.diff(taus, axis=1)) >= 0


@check
@given(MILD)
def test_edges_increase_strictly_while_logits_are_within_ten(logits):
    """The narrowest step is about exp(-10) / 128 = 3.5e-7, which is 5.9 units of the grid."""
    assert np.all(np.diff(propose(jnp.array(logits)).taus, axis=1) > 0)


@check
@given(WILD)
@example(ROUNDED_UP)
def test_widths_are_the_differences_of_the_edges_and_sum_to_exactly_one(logits):
    taus, _, widths = map(np.asarray, propose(jnp.array(logits)))
    np.testing.assert_array_equal(widths, np.diff(taus, axis=1))
    assert np.all(widths >= 0)
    assert np.all(widths.astype(np.float64).sum(axis=1) == 1.0)


@check
@given(WILD)
@example(ROUNDED_UP)
def test_midpoints_lie_between_their_edges(logits):
    taus, tau_hats, _ = map(np.asarray, propose(jnp.array(logits)))
    assert tau_hats.shape == logits.shape
    assert np.all(taus[:, :-1] <= tau_hats)
    assert np.all(tau_hats <= taus[:, 1:])
    np.testing.assert_allclose(tau_hats, (taus[:, :-1].astype(np.float64) + taus[:, 1:]) / 2, rtol=0, atol=GRID)


@check
@given(MILD)
def test_edges_are_the_cumulated_softmax_within_the_grid(logits):
    """Each of the N widths loses less than a unit of the grid; float32's softmax adds a few more."""
    exponentials = np.exp(logits.astype(np.float64))
    expected = np.cumsum(exponentials / exponentials.sum(axis=1, keepdims=True), axis=1)
    taus = propose(jnp.array(logits)).taus
    np.testing.assert_allclose(taus[:, 1:], expected, rtol=0, atol=(logits.shape[1] + 8) * GRID)


@pytest.mark.parametrize("num_fractions", [*NUM_FRACTIONS, 51])
def test_uniform_edges_are_i_over_n(num_fractions):
    taus = np.asarray(fractions.uniform(3, num_fractions).taus, np.float64)
    assert taus.shape == (3, num_fractions + 1)
    assert np.max(np.abs(taus - np.arange(num_fractions + 1) / num_fractions)) <= num_fractions * GRID


@pytest.mark.parametrize("num_fractions", [*NUM_FRACTIONS, 51])
def test_zero_logits_propose_exactly_the_uniform_fractions(num_fractions):
    proposed, uniform = propose(jnp.zeros((3, num_fractions))), fractions.uniform(3, num_fractions)
    jax.tree.map(np.testing.assert_array_equal, proposed, uniform)


@pytest.mark.parametrize("num_fractions", [5, 32])
def test_random_fractions_are_sorted_and_each_spacing_averages_one_over_n(num_fractions):
    """Dirichlet(1, ..., 1): variance of a spacing (N - 1) / N^2 (N + 1). Five standard errors."""
    taus, _, widths = map(np.asarray, fractions.random(jax.random.key(0), 20_000, num_fractions))
    assert np.all(np.diff(taus, axis=1) >= 0)
    assert np.all(taus[:, 0] == 0.0)
    assert np.all(taus[:, -1] == 1.0)
    n = num_fractions
    standard_error = ((n - 1) / (n**2 * (n + 1)) / 20_000) ** 0.5
    np.testing.assert_allclose(widths.mean(axis=0, dtype=np.float64), 1 / n, rtol=0, atol=5 * standard_error)


def test_random_spacings_have_the_second_moment_of_sorted_uniforms():
    """E w^2 = 2 / N(N + 1), E w^4 = 24 / N(N + 1)(N + 2)(N + 3); five standard errors of the former."""
    n, rows = 5, 20_000
    widths = np.asarray(fractions.random(jax.random.key(1), rows, n).widths, np.float64)
    second, fourth = 2 / (n * (n + 1)), 24 / (n * (n + 1) * (n + 2) * (n + 3))
    standard_error = ((fourth - second**2) / rows) ** 0.5
    np.testing.assert_allclose(np.mean(widths**2, axis=0), second, rtol=0, atol=5 * standard_error)


@pytest.mark.parametrize("n", [3, 8])
def test_random_midpoints_spread_a_uniform_law_if_they_weigh_equally_and_narrow_it_if_by_widths(n):
    """Var = (N - 1)(N + 4) / 12 N(N + 1), more than 1/12, and (1 - 6 / (N + 1)(N + 2)) / 12; five standard errors."""
    rows = 20_000
    _, tau_hats, widths = (np.asarray(part, np.float64) for part in fractions.random(jax.random.key(3), rows, n))
    squares = 12 * (tau_hats - 0.5) ** 2
    for weights, ratio in ((1 / n, (n - 1) * (n + 4) / (n * (n + 1))), (widths, 1 - 6 / ((n + 1) * (n + 2)))):
        of_rows = np.sum(weights * squares, axis=1)
        np.testing.assert_allclose(of_rows.mean(), ratio, rtol=0, atol=5 * of_rows.std() / rows**0.5)


def test_random_fractions_follow_their_key_and_differ_between_rows():
    key, other_key = jax.random.split(jax.random.key(2))
    first = np.asarray(fractions.random(key, 2, 7).taus)
    second = np.asarray(fractions.random(other_key, 2, 7).taus)
    assert np.all(first[:, 1:-1] != second[:, 1:-1])
    assert np.all(first[0, 1:-1] != first[1, 1:-1])


@settings(check, max_examples=50)
@given(MILD)
def test_rounding_to_the_grid_leaves_the_jacobian_of_the_edges_alone(logits):
    """Against plain cumsum(softmax), of which each addition may round by half a unit; the two ends do not move."""
    plain = plain_jacobian(jnp.array(logits[0]))
    jacobian = edges_jacobian(jnp.array(logits[0]))
    np.testing.assert_allclose(jacobian[1:-1], plain[:-1], rtol=1e-5, atol=logits.shape[1] * GRID / 2)
    np.testing.assert_array_equal(jacobian[0], 0)
    np.testing.assert_array_equal(jacobian[-1], 0)


def test_jacobians_of_a_batch_are_those_of_the_paper_row_by_row():
    """d tau_i / d logit_j = q_j (1(j < i) - tau_i); d q_i / d logit_j = q_i (1(i = j) - q_j); nothing across rows."""
    logits = np.array([[0.3, -1.0, 2.0, 0.0, 0.7], [-2.0, 0.5, 0.1, 1.5, -0.4]])
    jacobians = jax.jit(jax.jacobian(fractions.propose))(jnp.float32(logits))  # [B, ., B, N] each
    for row in range(2):
        q = np.exp(logits[row]) / np.exp(logits[row]).sum()
        taus = np.concatenate([[0.0], np.cumsum(q)])
        edges = q * (np.arange(5) < np.arange(6)[:, None]) - q * taus[:, None]
        np.testing.assert_allclose(jacobians.taus[row, :, row], edges, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(jacobians.tau_hats[row, :, row], (edges[1:] + edges[:-1]) / 2, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(jacobians.widths[row, :, row], np.diag(q) - np.outer(q, q), rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(jacobians.taus[row, :, 1 - row], 0)
