import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.naive_losses import (
    central_differences,
    naive_huber,
    naive_qr_dqn_loss,
    naive_quantile_huber,
    naive_quantile_loss,
)

from fqf.losses.quantile import huber, quantile_huber
from fqf.networks import fractions

# Three quantiles, five targets; no delta within 1e-2 of the kinks at 0 and +-0.7, and both sides of each are met.
QUANTILES = np.array([-0.9, 0.35, 1.6])
FRACTIONS = np.array([0.1, 0.45, 0.85])
TARGETS = np.array([-2.0, -0.4, 0.5, 1.2, 3.3])
EQUAL_WEIGHTS = np.full(5, 1 / 5)
UNEQUAL_WEIGHTS = np.array([0.05, 0.4, 0.15, 0.3, 0.1])
KAPPA = 0.7

both_weights = pytest.mark.parametrize("weights", [EQUAL_WEIGHTS, UNEQUAL_WEIGHTS], ids=["equal", "unequal"])

# The hand-checked case: sources [-1, 3], targets [-3, 4, 2].
#   delta of source -1:  -2  5  3        Huber with threshold 2:   2   8   4
#   delta of source  3:  -6  1 -1                                 10  .5  .5
SOURCE = jnp.array([-1.0, 3.0])
TARGET = jnp.array([-3.0, 4.0, 2.0])
THIRDS = jnp.full(3, 1 / 3)

# tau .2: .8*2 + .2*5 + .2*3 = 3.2     tau .7: .3*6 + .7*1 + .3*1 = 2.8     (3.2 + 2.8) / 3 = 2.0
# tau  0:  1*2 +  0*5 +  0*3 = 2.0     tau .4: .6*6 + .4*1 + .6*1 = 4.6     (2.0 + 4.6) / 3 = 2.2
PLAIN = [((0.2, 0.7), 2.0), ((0.0, 0.4), 2.2)]

# tau .2: .8*2 + .2*8 + .2*4 = 4.0     tau .7: .3*10 + .7*.5 + .3*.5 = 3.5     (4.0 + 3.5) / 3 = 2.5
# tau  0:  1*2 +  0*8 +  0*4 = 2.0     tau .4: .6*10 + .4*.5 + .6*.5 = 6.5     (2.0 + 6.5) / 3 = 2.8333
# and the loss divides by kappa = 2.
HUBER = [((0.2, 0.7), 2.5 / 2), ((0.0, 0.4), 8.5 / 3 / 2)]


@pytest.mark.parametrize(("taus", "expected"), PLAIN)
def test_small_kappa_gives_the_plain_quantile_loss_checked_by_hand(taus, expected):
    """huber(delta) / kappa = |delta| - kappa/2 beyond kappa, so the loss is short by at most N kappa/2 = 1e-3."""
    loss = quantile_huber(SOURCE, jnp.array(taus), TARGET, THIRDS, 1e-3)
    assert float(loss) == pytest.approx(expected, abs=1.01e-3)
    assert float(loss) < expected


@pytest.mark.parametrize(("taus", "expected"), PLAIN)
def test_the_naive_plain_loss_agrees_with_the_hand(taus, expected):
    assert naive_quantile_loss([-1, 3], taus, [-3, 4, 2], [1 / 3] * 3) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("taus", "expected"), HUBER)
def test_huber_loss_with_threshold_two_checked_by_hand(taus, expected):
    assert float(quantile_huber(SOURCE, jnp.array(taus), TARGET, THIRDS, 2.0)) == pytest.approx(expected, rel=1e-6)


def test_unequal_target_weights_checked_by_hand():
    """Weights (.5, .25, .25) on the rows above, threshold 2, taus .2 and .7:
    .5*1.6 + .25*1.6 + .25*.8 = 1.4;  .5*3 + .25*.35 + .25*.15 = 1.625;  (1.4 + 1.625) / 2 = 1.5125."""
    loss = quantile_huber(SOURCE, jnp.array([0.2, 0.7]), TARGET, jnp.array([0.5, 0.25, 0.25]), 2.0)
    assert float(loss) == pytest.approx(1.5125, rel=1e-6)


def test_huber_is_quadratic_up_to_kappa_and_linear_beyond():
    """kappa 2: 1^2/2 = .5;  2^2/2 = 2 = 2 (2 - 1), the two pieces meet;  2 (5 - 1) = 8;  even in delta."""
    np.testing.assert_allclose(huber(jnp.array([0.0, 1.0, 2.0, 5.0, -1.0, -5.0]), 2.0), [0, 0.5, 2, 8, 0.5, 8])


@both_weights
def test_value_matches_the_double_loop(weights):
    loss = quantile_huber(*map(jnp.float32, (QUANTILES, FRACTIONS, TARGETS, weights)), KAPPA)
    assert float(loss) == pytest.approx(naive_quantile_huber(QUANTILES, FRACTIONS, TARGETS, weights, KAPPA), rel=1e-5)


@both_weights
@pytest.mark.parametrize("argument", [0, 2], ids=["quantiles", "targets"])
def test_gradient_matches_finite_differences_of_the_double_loop(weights, argument):
    """The loop runs in float64, and the loss is a parabola or a line around each pair: only rounding is left over."""
    arguments = [QUANTILES, FRACTIONS, TARGETS, weights]

    def loss_at(point):
        return naive_quantile_huber(*arguments[:argument], point, *arguments[argument + 1 :], KAPPA)

    expected = central_differences(loss_at, arguments[argument], step=1e-4)
    gradient = jax.grad(quantile_huber, argument)(*map(jnp.float32, arguments), KAPPA)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(expected).min() > 1e-3


def test_repeating_the_targets_changes_nothing_but_repeating_the_quantiles_doubles():
    """A mean over targets, a sum over quantiles: with the axes swapped the two factors would be swapped as well."""
    quantiles, taus, targets = map(jnp.float32, (QUANTILES, FRACTIONS, TARGETS))
    loss = quantile_huber(quantiles, taus, targets, jnp.full(5, 1 / 5), KAPPA)
    more_targets = quantile_huber(quantiles, taus, jnp.tile(targets, 2), jnp.full(10, 1 / 10), KAPPA)
    more_quantiles = quantile_huber(jnp.tile(quantiles, 2), jnp.tile(taus, 2), targets, jnp.full(5, 1 / 5), KAPPA)
    np.testing.assert_allclose(more_targets / loss, 1.0, rtol=1e-5)
    np.testing.assert_allclose(more_quantiles / loss, 2.0, rtol=1e-5)


def test_every_fraction_weighs_the_deltas_of_its_own_quantile():
    """Above all targets only 1 - tau counts, below all only tau: one quantile each, 10 and 20 from the only target.

    kappa 1: (1 - .1) (10 - .5) + .6 (20 - .5) = 8.55 + 11.7 = 20.25; the fractions exchanged: 3.8 + 1.95 = 5.75.
    """
    arguments = jnp.array([10.0, -20.0]), jnp.array([0.1, 0.6]), jnp.zeros(1), jnp.ones(1)
    assert float(quantile_huber(*arguments, 1.0)) == pytest.approx(20.25, rel=1e-6)


@pytest.mark.parametrize("delta", [-3.0, -1.0, -0.4, 0.0, 0.7, 1.0, 12.5])
def test_one_fraction_at_a_half_is_half_of_dqns_huber_loss(delta):
    """|1/2 - 1(delta < 0)| = 1/2 on both sides."""
    loss = quantile_huber(jnp.array([2.0]), jnp.array([0.5]), jnp.array([2.0 + delta]), jnp.ones(1), 1.0)
    assert float(loss) == pytest.approx(naive_huber(delta, 1.0) / 2, rel=1e-5)


@pytest.mark.parametrize("num_targets", [4, 6])
def test_equal_widths_give_qr_dqns_loss(num_targets):
    """Fraction midpoints of equal widths are (2i + 1) / 2N; the targets of equal widths weigh 1/M."""
    rng = np.random.default_rng(0)
    quantiles, targets = rng.normal(size=4).astype(np.float32), 2 * rng.normal(size=num_targets).astype(np.float32)
    ours, theirs = fractions.uniform(1, 4), fractions.uniform(1, num_targets)
    loss = quantile_huber(jnp.array(quantiles), ours.tau_hats[0], jnp.array(targets), theirs.widths[0], 1.0)
    assert float(loss) == pytest.approx(naive_qr_dqn_loss(quantiles, targets), rel=1e-5)
