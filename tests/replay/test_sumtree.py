"""The sum tree against the obvious one, and what float32 does to it at a million leaves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.naive_sumtree import NaiveSumTree
from scipy import stats

from fqf.replay import sumtree

WRITE = jax.jit(sumtree.write, donate_argnums=0)
DRAW = jax.jit(sumtree.draw, static_argnums=2)
CHOOSE = jax.jit(sumtree.choose)


@pytest.mark.parametrize("num_leaves", [1, 5, 128, 129, 1_000, 40_000])
def test_it_equals_the_naive_tree_over_many_writes(num_leaves):
    """Whole masses, so that sums are exact; some writes name a place twice, some set it to zero."""
    random = np.random.default_rng(num_leaves)
    tree, naive = sumtree.init(num_leaves), NaiveSumTree(num_leaves)
    for _ in range(60):
        places, masses = random.integers(0, num_leaves, 7), random.integers(0, 5, 7).astype(float)
        tree = WRITE(tree, jnp.asarray(places), jnp.asarray(masses, jnp.float32))
        naive.write(places.tolist(), masses.tolist())
        ok, why = sumtree.check_valid(tree)
        assert ok, why
        np.testing.assert_array_equal(np.asarray(tree.levels[0])[:num_leaves], naive.masses)
        assert float(sumtree.total(tree)) == naive.total()


@pytest.mark.parametrize("num_leaves", [200, 20_000])
def test_it_equals_the_naive_tree_after_thousands_of_writes(num_leaves):
    """3,000 writes of 5 leaves in one compiled loop; whole masses, so that the order of sums does not matter."""
    random = np.random.default_rng(num_leaves)
    places, masses = random.integers(0, num_leaves, (3_000, 5)), random.integers(0, 5, (3_000, 5))
    written, naive = (jnp.asarray(places), jnp.asarray(masses, jnp.float32)), NaiveSumTree(num_leaves)

    @jax.jit
    def write_all(tree):
        return jax.lax.fori_loop(0, 3_000, lambda i, tree: sumtree.write(tree, written[0][i], written[1][i]), tree)

    tree = write_all(sumtree.init(num_leaves))
    for row, values in zip(places, masses, strict=True):
        naive.write(row.tolist(), values.astype(float).tolist())
    np.testing.assert_array_equal(np.asarray(tree.levels[0])[:num_leaves], naive.masses)
    assert float(sumtree.total(tree)) == naive.total()


def test_a_draw_is_inversion_at_every_level():
    """The same random numbers, level by level, over plain sums of whole masses: 20,000 leaves, three levels."""
    masses = np.random.default_rng(0).integers(0, 9, 20_000).astype(float)
    tree = WRITE(sumtree.init(20_000), jnp.arange(20_000), jnp.asarray(masses, jnp.float32))
    assert len(tree.levels) == 3
    key, root_key = jax.random.split(jax.random.key(5))
    strata = (np.arange(256) + np.asarray(jax.random.uniform(root_key, (256,)))) / 256
    expected = [invert(tree.levels[2], u) for u in strata]
    for level in (tree.levels[1], tree.levels[0]):
        key, level_key = jax.random.split(key)
        blocks = np.asarray(level).reshape(-1, sumtree.FANOUT)
        uniform = np.asarray(jax.random.uniform(level_key, (256,)))
        expected = [p * sumtree.FANOUT + invert(blocks[p], u) for p, u in zip(expected, uniform, strict=True)]
    np.testing.assert_array_equal(DRAW(tree, jax.random.key(5), 256), expected)


def invert(masses, uniform):
    """The first place whose running sum exceeds the share; in float32, as whole sums are exact there."""
    running, goal = np.cumsum(np.asarray(masses, np.float32)), np.float32(uniform) * np.float32(np.sum(masses))
    return next(place for place, total in enumerate(running) if total > goal and masses[place] > 0)


def test_choosing_is_inversion():
    random = np.random.default_rng(0)
    masses = random.integers(0, 4, 9).astype(float)
    naive = NaiveSumTree(9)
    naive.write(range(9), masses)
    uniform = (np.arange(64) + 0.5) / 64
    got = CHOOSE(jnp.broadcast_to(jnp.asarray(masses, jnp.float32), (64, 9)), jnp.asarray(uniform, jnp.float32))
    np.testing.assert_array_equal(got, [naive.choose(u) for u in uniform])


@pytest.mark.parametrize("uniform", [0.0, 0.999999, 1.0])
def test_no_rounding_leads_to_a_zero_mass(uniform):
    """Zeros at both ends and in between, masses of very different sizes, and u at its bounds."""
    masses = jnp.array([[0.0, 1e-30, 0.0, 3e7, 1.0, 0.0, 0.1, 0.0, 0.0]])
    place = int(CHOOSE(masses, jnp.array([uniform]))[0])
    assert masses[0, place] > 0


def test_frequencies_are_proportional():
    """Chi-square over 300 leaves in two levels, a tenth of them zero; stratification can only help."""
    random = np.random.default_rng(1)
    masses = random.gamma(0.5, size=300) + 0.05
    masses[random.integers(0, 300, 30)] = 0.0
    tree = WRITE(sumtree.init(300), jnp.arange(300), jnp.asarray(masses, jnp.float32))
    drawn = np.concatenate([DRAW(tree, jax.random.key(seed), 500) for seed in range(400)])
    counts = np.bincount(drawn, minlength=300)
    assert np.all(counts[masses == 0] == 0)
    positive = masses > 0
    expected = len(drawn) * masses[positive] / masses.sum()
    assert stats.chisquare(counts[positive], expected).pvalue > 1e-3
    # The test has teeth: the same counts against masses that are a tenth off in half the places.
    wrong = expected * np.where(np.arange(positive.sum()) % 2, 1.05, 0.95)
    assert stats.chisquare(counts[positive], wrong * len(drawn) / wrong.sum()).pvalue < 1e-6


@pytest.fixture(scope="module")
def million():
    """A million leaves with masses over six orders of magnitude, a third of them zero."""
    random = np.random.default_rng(2)
    masses = (10 ** random.uniform(-4, 2, 2**20)).astype(np.float32)
    masses[random.random(2**20) < 1 / 3] = 0.0
    return masses, WRITE(sumtree.init(2**20), jnp.arange(2**20), jnp.asarray(masses))


def test_a_million_leaves_never_give_a_zero_mass(million):
    masses, tree = million
    assert len(tree.levels) == 3
    drawn = np.concatenate([DRAW(tree, jax.random.key(seed), 4_096) for seed in range(100)])
    assert np.all(masses[drawn] > 0)
    assert len(np.unique(drawn)) > 100_000
    # In blocks of leaves sorted by mass the shares are right; one random number of 24 bits could not do this.
    order = np.argsort(masses)
    block = np.empty(2**20, int)
    block[order] = np.arange(2**20) // 2**14
    expected = np.bincount(block, masses.astype(np.float64))
    shown = expected > 0
    counts = np.bincount(block[drawn], minlength=64)
    rare = expected[shown] * len(drawn) / expected.sum() < 5
    assert np.all(counts[~shown] == 0)
    keep = np.flatnonzero(shown)[~rare]
    rest = [counts.sum() - counts[keep].sum()], [len(drawn) - (expected[keep] * len(drawn) / expected.sum()).sum()]
    observed = np.concatenate([counts[keep], rest[0]])
    wanted = np.concatenate([expected[keep] * len(drawn) / expected.sum(), rest[1]])
    assert stats.chisquare(observed, wanted).pvalue > 1e-3


def test_sums_do_not_drift(million):
    """50,000 writes of 32 leaves; a tree that adds differences would be off by the rounding of each of them."""
    _, tree = million
    key_places, key_masses = jax.random.split(jax.random.key(3))
    places = jax.random.randint(key_places, (50_000, 32), 0, 2**20)
    values = jax.random.uniform(key_masses, (50_000, 32)) * 100

    @jax.jit
    def write_all(tree):
        return jax.lax.fori_loop(0, len(places), lambda i, tree: sumtree.write(tree, places[i], values[i]), tree)

    tree = write_all(jax.tree.map(jnp.copy, tree))
    exact = np.asarray(tree.levels[0], np.float64).sum()
    assert abs(float(sumtree.total(tree)) - exact) / exact < 2e-6
    ok, why = sumtree.check_valid(tree)
    assert ok, why
