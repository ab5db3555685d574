"""Which rows may be drawn, with which weights, at every moment of a stream that wraps around."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fqf.replay import ring, sumtree
from fqf.replay.memory import make_prioritized
from fqf.replay.ring import Sampling
from fqf.types import EnvironmentSpec, Timestep

SPEC = EnvironmentSpec("test/prioritized", (1,), np.dtype("float32"), 3)
LENGTH, LANES = 11, 2


@functools.cache
def make(n_step=2, frame_stack=1, batch_size=64):
    how = Sampling(batch_size, 0.5, n_step, frame_stack)
    replay = make_prioritized(SPEC, LENGTH * LANES, LANES, how, exponent=0.5, epsilon=0.01)
    compiled = {name: jax.jit(getattr(replay, name)) for name in replay._fields}
    return replay._replace(**compiled), how


def stream(num_rows, seed=0):
    """Rows of two lanes whose observation is their number; an episode ends now and then, never twice in a row."""
    random = np.random.default_rng(seed)
    last = np.zeros((num_rows, LANES), bool)
    for row in range(1, num_rows):
        last[row] = (random.random(LANES) < 0.3) & ~last[row - 1]
    return last


def play(replay, last, each=lambda state, num_rows: None):
    state = replay.init()
    for row, ended in enumerate(last):
        observation = jnp.full((LANES, 1), row, jnp.float32) + 100 * jnp.arange(LANES)[:, None]
        timestep = Timestep(observation, jnp.zeros(LANES), 1.0 - jnp.asarray(ended), jnp.asarray(ended))
        state = replay.add(state, timestep, jnp.zeros(LANES, jnp.int32), row)
        each(state, row + 1)
    return state


@pytest.mark.parametrize(("n_step", "frame_stack"), [(1, 1), (3, 1), (1, 4), (3, 3)])
def test_exactly_the_rows_that_may_start_a_transition_have_a_priority(n_step, frame_stack):
    """At every moment: those that the uniform replay would draw from."""
    replay, how = make(n_step, frame_stack)
    last = stream(3 * LENGTH)

    def check(state, num_rows):
        first, end = (int(bound) for bound in ring.starts(jnp.array(num_rows), LENGTH, how))
        expected = np.zeros((LENGTH, LANES))
        for row in range(first, end):
            expected[row % LENGTH] = ~last[row]
        np.testing.assert_array_equal(np.asarray(state.tree.levels[0]).reshape(-1)[: LENGTH * LANES], expected.ravel())
        ok, why = sumtree.check_valid(state.tree)
        assert ok, why

    play(replay, last, check)


def test_a_drawn_place_is_the_transition_it_stands_for():
    """Observations name their row and lane; the next one is n rows on, or the end of the episode."""
    replay, how = make(n_step=2)
    last = stream(30, seed=3)
    state = play(replay, last)
    batch = replay.sample(state, 30, jax.random.key(0), 1.0)
    assert len(np.unique(batch.places)) > 8
    for place, start, arrival in zip(
        np.asarray(batch.places),
        np.asarray(batch.transition.observation)[:, 0],
        np.asarray(batch.transition.next_observation)[:, 0],
        strict=True,
    ):
        lane, row = divmod(int(start), 100)
        assert place == (row % LENGTH) * LANES + lane
        assert 30 - LENGTH <= row < 30 - how.n_step
        assert not last[row, lane]
        assert int(arrival) - 100 * lane == (row + 1 if last[row + 1, lane] else row + 2)


def test_priorities_are_powers_of_errors_and_new_rows_get_the_largest():
    replay, _ = make()
    state = play(replay, np.zeros((8, LANES), bool))
    places = jnp.array([0, 3, 3, 4])
    state = replay.reprioritize(state, places, jnp.array([2.0, 0.5, 3.0, 0.0]))
    leaves = np.asarray(state.tree.levels[0])
    np.testing.assert_allclose(leaves[[0, 3, 4]], np.sqrt([2.01, 3.01, 0.01]), rtol=1e-6)  # twice named: the larger
    np.testing.assert_allclose(state.largest, np.sqrt(3.01), rtol=1e-6)
    timestep = Timestep(jnp.zeros((LANES, 1)), jnp.zeros(LANES), jnp.ones(LANES), jnp.zeros(LANES, bool))
    state = replay.add(state, timestep, jnp.zeros(LANES, jnp.int32), 8)
    ready = (8 - 2) * LANES
    np.testing.assert_allclose(np.asarray(state.tree.levels[0])[[ready, ready + 1]], np.sqrt(3.01), rtol=1e-6)


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0])
def test_importance_weights(exponent):
    """w = (1 / (size P)) ** beta over the largest of the batch: for beta 1 the product of w and P is constant."""
    replay, _ = make()
    state = play(replay, np.zeros((8, LANES), bool))
    state = replay.reprioritize(state, jnp.arange(12), jnp.linspace(0.1, 9.0, 12))
    batch = replay.sample(state, 8, jax.random.key(1), exponent)
    masses = np.asarray(state.tree.levels[0], np.float64)
    probabilities = masses[np.asarray(batch.places)] / masses.sum()
    expected = (1 / (12 * probabilities)) ** exponent
    np.testing.assert_allclose(batch.weights, expected / expected.max(), rtol=1e-5)


def test_all_starts_are_drawn_and_nothing_else():
    replay, how = make(n_step=3)
    last = stream(40, seed=5)
    state = play(replay, last)
    seen = set()
    for seed in range(20):
        seen |= set(np.asarray(replay.sample(state, 40, jax.random.key(seed), 1.0).places).tolist())
    first, end = (int(bound) for bound in ring.starts(jnp.array(40), LENGTH, how))
    rows = [(row, lane) for row in range(first, end) for lane in range(LANES) if not last[row, lane]]
    assert seen == {(row % LENGTH) * LANES + lane for row, lane in rows}
