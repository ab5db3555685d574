"""The aggregate statistics against arithmetic, SciPy and simulation."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom, mannwhitneyu

from fqf.report import statistics as st

# Three games with two, two and four runs: no two axes are equal.
RAGGED = [np.array([0.0, 1.0]), np.array([0.5, 2.5]), np.array([-0.2, 0.4, 0.6, 1.2])]
# Two games with three runs each.
EVEN = [np.array([0.1, 0.5, 3.0]), np.array([0.2, 0.8, 0.9])]


def test_mean_and_median_are_over_games():
    # Means of the games: 0.5, 1.5 and (-0.2 + 0.4 + 0.6 + 1.2) / 4 = 0.5.
    assert st.mean(RAGGED) == pytest.approx((0.5 + 1.5 + 0.5) / 3)
    assert st.median(RAGGED) == pytest.approx(0.5)
    # Means 1.2 and 1.9 / 3; over all runs the median would be 0.65.
    assert st.median(EVEN) == pytest.approx((1.2 + 1.9 / 3) / 2)


def test_iqm_drops_a_quarter_of_all_runs_at_either_end():
    # Eight runs, sorted: -0.2 0 | 0.4 0.5 0.6 1 | 1.2 2.5. Of each end two go.
    assert st.iqm(RAGGED) == pytest.approx((0.4 + 0.5 + 0.6 + 1.0) / 4)
    # Six runs: a quarter is 1.5, rounded down: 0.1 | 0.2 0.5 0.8 0.9 | 3.
    assert st.iqm(EVEN) == pytest.approx((0.2 + 0.5 + 0.8 + 0.9) / 4)


def test_optimality_gap_does_not_reward_what_lies_above_one():
    # Misses: 1, 0; 0.5, 0; 1.2, 0.6, 0.4, 0: means 0.5, 0.25, 0.55.
    assert st.optimality_gap(RAGGED) == pytest.approx((0.5 + 0.25 + 0.55) / 3)
    # Where all games have as many runs it is one minus the mean of what is capped at one.
    capped = np.minimum(np.array(EVEN), 1)
    assert st.optimality_gap(EVEN) == pytest.approx(1 - capped.mean())


def test_profile_counts_runs_that_are_above_each_threshold():
    thresholds = np.array([-1.0, 0.4, 0.5, 1.0, 9.0])
    # Above 0.4: 1/2, 2/2, 2/4 (0.4 itself is not). Above 0.5: 1/2, 1/2, 2/4. Above 1: 0, 1/2, 1/4.
    expected = [1, (0.5 + 1 + 0.5) / 3, (0.5 + 0.5 + 0.5) / 3, (0 + 0.5 + 0.25) / 3, 0]
    np.testing.assert_allclose(st.profile(RAGGED, thresholds), expected)


def test_improvement_averages_games_and_halves_ties():
    first = [np.array([1.0, 2.0, 3.0]), np.array([5.0, 5.0])]
    second = [np.array([2.0, 0.0]), np.array([5.0, 6.0, 1.0, 5.0])]
    # Game 1: 1 beats 0; 2 ties 2 and beats 0; 3 beats both: (1 + 1.5 + 2) / 6. Game 2: half, no, yes, half, twice.
    assert st.improvement(first, second) == pytest.approx((4.5 / 6 + 2 / 4) / 2)
    assert st.improvement(second, first) == pytest.approx(1 - (4.5 / 6 + 2 / 4) / 2)
    assert st.improvement(first, first) == 0.5


def test_improvement_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(0)
    first = [rng.integers(0, 6, size).astype(float) for size in (3, 5, 4)]
    second = [rng.integers(1, 7, size).astype(float) for size in (6, 2, 4)]
    each = [
        mannwhitneyu(one, other, alternative="greater", method="asymptotic").statistic / (len(one) * len(other))
        for one, other in zip(first, second, strict=True)
    ]
    assert st.improvement(first, second) == pytest.approx(np.mean(each))


def test_resampling_stays_within_a_game_and_is_independent_between_games():
    scores = [np.array([1.0, 2.0]), np.array([10.0, 20.0]), np.array([4.0, 5.0, 6.0])]
    drawn = st.resample(scores, 3, 8_000)
    assert [each.shape for each in drawn] == [(8_000, 2), (8_000, 2), (8_000, 3)]
    for game, each in zip(scores, drawn, strict=True):
        assert set(np.unique(each)) == set(game)
    # 4 pairs, 4 pairs and 27 triples: each of 432 is drawn 18.5 times on average, if none depends on another.
    _, counts = np.unique(np.concatenate(drawn, axis=1), axis=0, return_counts=True)
    assert len(counts) == 4 * 4 * 27
    assert counts.max() < 2.5 * 8_000 / 432


@pytest.mark.parametrize("name", st.STATISTICS)
def test_an_interval_is_where_the_middle_of_the_resamples_lies(name):
    scores = [np.array([0.0, 0.3, 0.9, 1.4]), np.array([0.2, 0.6, 1.1])]
    resamples = zip(*st.resample(scores, 5, 400), strict=True)
    drawn = [st.STATISTICS[name](each) for each in resamples]
    low, high = np.percentile(drawn, [2.5, 97.5])
    found = st.estimate(st.STATISTICS[name], scores, 5, 400)
    assert found == pytest.approx((float(st.STATISTICS[name](scores)), low, high))
    assert found.low < found.value < found.high


def test_a_profile_has_a_band_around_it_and_an_improvement_an_interval():
    thresholds = np.array([0.25, 0.7])
    low, high = st.profile_band(EVEN, thresholds, 1, 500)
    drawn = st.profile(st.resample(EVEN, 1, 500), thresholds)
    np.testing.assert_allclose([low, high], np.percentile(drawn, [2.5, 97.5], axis=0))
    first, second = [np.array([0.0, 2.0, 4.0])], [np.array([1.0, 3.0])]
    value, low, high = st.estimate_improvement(first, second, 1, 500)
    assert value == pytest.approx((0 + 1 + 2) / 6)
    assert (low, high) == (0, 1)  # (0, 0, 0) against anything loses: 1 of 27 times; likewise (4, 4, 4) wins
    sure = st.estimate_improvement([np.array([5.0, 6.0])], second, 1, 500)
    assert sure == (1, 1, 1)


def test_one_run_of_a_game_is_no_interval():
    single = [np.array([0.5]), np.array([0.1, 0.9])]
    assert st.estimate(st.mean, single, 0) == (0.5, None, None)
    assert st.profile_band(single, np.array([0.5]), 0) is None
    assert st.estimate_improvement(single, single, 0).low is None


def test_the_seed_decides():
    def numbers(seed):
        return (
            st.estimate(st.iqm, EVEN, seed),
            st.estimate_improvement(EVEN, [game + 0.1 for game in EVEN], seed),
            st.profile_band(EVEN, np.linspace(0, 1, 7), seed).tobytes(),
        )

    assert numbers(1) == numbers(1)
    assert numbers(1) != numbers(2)


@pytest.mark.parametrize(("runs", "stated"), [(3, 0.890), (10, 0.937)])
def test_coverage_of_the_mean_is_what_its_document_says(runs, stated):
    """Resampling n runs has (n - 1) / n of their variance, so a 95 % interval of a mean over many games covers with
    probability 2 Phi(1.96 sqrt((n - 1) / n)) - 1: 89.0 % with three runs a game, 93.7 % with ten."""
    expected = 2 * NormalDist().cdf(1.96 * ((runs - 1) / runs) ** 0.5) - 1
    assert expected == pytest.approx(stated, abs=0.001)
    games, trials = 20, 500
    rng = np.random.default_rng(runs)
    truth, spread = rng.uniform(0, 2, games), rng.uniform(0.1, 0.6, games)
    covered = 0
    for trial in range(trials):
        scores = list(rng.normal(truth[:, None], spread[:, None], (games, runs)))
        _, low, high = st.estimate(st.mean, scores, trial, 400)
        covered += low <= truth.mean() <= high
    # Binomial, two in a thousand outside either side, and a percentage point for 400 resamples in place of all.
    least, most = binom.ppf([0.002, 0.998], trials, expected)
    assert least - 0.01 * trials <= covered <= most + 0.01 * trials


def test_coverage_of_the_iqm():
    """Games alike and symmetric: the IQM of all runs there could be is their centre."""
    rng, trials, covered = np.random.default_rng(1), 400, 0
    for trial in range(trials):
        _, low, high = st.estimate(st.iqm, list(rng.normal(0.7, 0.3, (10, 5))), trial, 400)
        covered += low <= 0.7 <= high
    assert 0.88 <= covered / trials <= 0.97
