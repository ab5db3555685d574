"""The study of contraction, against what can be said without it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from reference.naive_losses import central_differences
from scipy import special

PATH = Path(__file__).parents[1] / "studies" / "contraction.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("contraction", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOGITS = np.array([[0.3, -0.4, 1.1], [0.0, 0.0, 0.0]])


def test_the_softmax_is_gone_through_as_finite_differences_say(study):
    gradient = np.array([[0.7, -1.9], [2.0, 0.5]])
    found = study.through_softmax(gradient, special.softmax(LOGITS, axis=1))
    for row in range(2):
        inner = lambda logits, row=row: np.sum(gradient[row] * np.cumsum(special.softmax(logits))[:-1])  # noqa: E731
        np.testing.assert_allclose(found[row], central_differences(inner, LOGITS[row], 1e-6), rtol=1e-6)


def test_a_target_of_one_atom_has_the_rewards_quantiles(study):
    """Exponential rewards, 0 half of the time, and gamma times 3: quantiles 1.5, then 1.5 - log(2 (1 - tau))."""
    stairs = study.Staircases(LOGITS, np.full((2, 3), 3.0))
    middles = (stairs.taus[:, 1:] + stairs.taus[:, :-1]) / 2
    after = study.iterate(stairs, study.Variant("equal", "trained", 0.0), study.REWARDS["toy/exponential"])
    np.testing.assert_allclose(after.values, 1.5 - np.log(np.minimum(1, 2 * (1 - middles))), atol=1e-9)
    np.testing.assert_array_equal(after.logits, LOGITS)


def test_between_two_atoms_regression_rests_in_the_middle(study):
    """Uniform fractions on Uniform[0, 2], from its own staircase: every midpoint is a tie of the target's sixteen
    atoms, and the middle is the law's own quantile, (2i + 1) / 8."""
    own = np.arange(1, 16, 2)[None] / 8
    stairs = study.Staircases(np.zeros((1, 8)), own)
    after = study.iterate(stairs, study.VARIANTS["uniform fractions, fixed"], study.REWARDS["toy/uniform"])
    np.testing.assert_allclose(after.values, own, atol=1e-8)


def test_pairs_are_together_only_once_they_stay_so(study, monkeypatch):
    """Distances 1, 0, 1, 0, 0: the factor of the third step, from below CLOSE, counts as well."""
    monkeypatch.setattr(study, "STEPS", 5)
    path = iter([1.0, 0.0, 1.0, 0.0, 0.0])
    monkeypatch.setattr(study, "apart", lambda stairs: np.full(study.PAIRS, next(path)))
    found = study.run("toy/normal", study.VARIANTS["uniform fractions, fixed"])
    assert found["together_after"] == 3
    assert found["largest_ratio"] == pytest.approx(1 / study.CLOSE)


def test_weights_are_those_of_the_variant(study):
    """Atoms 0, 4 and 40 of rewards that are 0: a quantile is that of the atom which holds it."""
    stairs = study.Staircases(np.log([[0.7, 0.2, 0.1]]), np.array([[0.0, 4.0, 40.0]]))  # midpoints .35, .8, .95
    nothing = lambda x: (x >= 0) * 1.0  # noqa: E731
    equal = study.iterate(stairs, study.Variant("equal", "trained", 0.0), nothing).values
    widths = study.iterate(stairs, study.Variant("widths", "trained", 0.0), nothing).values
    np.testing.assert_allclose(equal, [[2.0, 20.0, 20.0]], atol=1e-9)
    np.testing.assert_allclose(widths, [[0.0, 2.0, 20.0]], atol=1e-9)


def test_values_on_flat_pieces_are_those_whose_fraction_an_atom_holds(study):
    """Midpoints .35, .8 and .95; of one atom with rewards 0 half of the time, the first lies in that half. Between two
    atoms, as all of uniform fractions are on Uniform[0, 2], there is no flat piece."""
    widths = np.log([[0.7, 0.2, 0.1]])
    one, drawn = study.Staircases(widths, np.full((1, 3), 3.0)), study.Staircases(widths, np.array([[0.0, 4.0, 40.0]]))
    own = study.Staircases(np.zeros((1, 8)), np.arange(1, 16, 2)[None] / 8)
    for stairs, reward, count in (
        (one, study.REWARDS["toy/exponential"], 1),
        (drawn, lambda x: (x >= 0) * 1.0, 3),
        (drawn, study.REWARDS["toy/normal"], 0),
        (own, study.REWARDS["toy/uniform"], 0),
    ):
        assert study.on_flat_pieces(stairs, study.VARIANTS["both corrections"], reward).tolist() == [count]


def test_untrained_edges_only_compare_widths(study):
    stairs, reward = study.Staircases(LOGITS[:1], np.array([[-1.0, 0.5, 2.0]])), study.REWARDS["toy/normal"]
    after = study.iterate(stairs, study.Variant("equal", "untrained", 1.0), reward)
    widths = np.diff(stairs.taus, axis=1)
    before, here = widths[:, :-1], widths[:, 1:]
    gradient = np.diff(after.values, axis=1) * (before - here) / (before + here)
    np.testing.assert_allclose(after.logits, LOGITS[:1] - study.through_softmax(gradient, widths), rtol=1e-9)


def test_on_a_smooth_law_both_corrections_find_the_optimal_fractions_and_fixed_ones_contract(study, monkeypatch):
    monkeypatch.setattr(study, "STEPS", 500)
    monkeypatch.setattr(study, "PAIRS", 2)
    found = study.run("toy/normal", study.VARIANTS["both corrections"])
    assert found["fractions"] == pytest.approx(0.142905 * (4 / 3) ** 0.5, rel=1e-3)  # N = 8, in closed form
    assert found["together_after"] is not None
    fixed = study.run("toy/normal", study.VARIANTS["uniform fractions, fixed"])
    assert fixed["largest_ratio"] <= 0.5 + 1e-5
    assert fixed["fractions"] == pytest.approx(0.151629 * (4 / 3) ** 0.5, rel=1e-3)
