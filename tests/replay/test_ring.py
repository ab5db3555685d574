"""The ring against the obvious replay, over random streams of episodes; then its claims one by one, by hand."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.naive_replay import NaiveReplay
from scipy import stats

from fqf.replay import nstep, ring
from fqf.types import EnvironmentSpec, Timestep

CAPACITY, LANES = 13, 3
SPEC = EnvironmentSpec("test/ring", (2,), np.dtype("float32"), 5)
GAMMA = 0.5  # with whole rewards, every return is exact in float32

ADD = jax.jit(ring.add)
STARTS = jax.jit(ring.starts, static_argnums=(1, 2))
ASSEMBLE = jax.jit(ring.assemble, static_argnums=3)
OBSERVE = jax.jit(ring.observe, static_argnums=3)
SAMPLE_STARTS = jax.jit(ring.sample_starts, static_argnums=3)
SAMPLE = jax.jit(ring.sample, static_argnums=3)
N_STEP = jax.jit(nstep.n_step, static_argnums=3)
PUSH = jax.jit(nstep.push, static_argnums=3)
pytestmark = pytest.mark.usefixtures("compile_quickly")


def sampling(n_step: int, frame_stack: int, batch_size: int = 7) -> ring.Sampling:
    return ring.Sampling(batch_size, GAMMA, n_step, frame_stack)


BATCH = sampling(n_step=4, frame_stack=3, batch_size=300)


def random_stream(seed: int, length: int) -> ring.Ring:
    """Rows of all lanes, axes [T, E], in the ring's own record: episodes that end in every way, some lives lost."""
    rng = np.random.default_rng(seed)
    last, discount, reward = np.zeros((length, LANES), bool), np.ones((length, LANES)), np.zeros((length, LANES))
    for t in range(1, length):
        for lane in range(LANES):
            if last[t - 1, lane]:
                continue  # the first row of an episode: reward 0, discount 1
            reward[t, lane] = rng.integers(-3, 4)
            kind = rng.choice(["step", "termination", "truncation", "life lost"], p=[0.6, 0.15, 0.15, 0.1])
            last[t, lane] = kind in ("termination", "truncation")
            discount[t, lane] = kind not in ("termination", "life lost")
    names = 1.0 + 100 * np.arange(LANES) + np.arange(length)[:, None]  # no two frames alike, none like the padding
    observation = np.stack([names, rng.normal(size=(length, LANES))], axis=-1)
    action = rng.integers(0, SPEC.num_actions, (length, LANES))
    return ring.Ring(*(np.float32(observation), np.int32(action), np.float32(reward), np.float32(discount), last))


def add_row(written: ring.Ring, stream: ring.Ring, t: int) -> ring.Ring:
    row = ring.Ring(*(leaf[t] for leaf in stream))
    return ADD(written, Timestep(row.observation, row.reward, row.discount, row.last), row.action, np.int32(t))


def write(stream: ring.Ring, capacity: int = CAPACITY) -> ring.Ring:
    written = ring.init(SPEC, capacity, stream.last.shape[1])
    for t in range(len(stream.last)):
        written = add_row(written, stream, t)
    return written


def add_naive(naive: NaiveReplay, stream: ring.Ring, t: int) -> None:
    naive.add(*(leaf[t] for leaf in stream))


def batched(starts: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and lanes, padded to one size so that every jitted function compiles once."""
    padding = [(0, 0)] * (CAPACITY * LANES - len(starts))
    rows, lanes = np.array(starts + padding, np.int32).T
    return rows, lanes


def window(written: ring.Ring, num_rows: int, how: ring.Sampling) -> set[tuple[int, int]]:
    first, end = (int(edge) for edge in STARTS(np.int32(num_rows), CAPACITY, how))
    last = np.asarray(written.last)
    return {(row, lane) for row in range(first, end) for lane in range(LANES) if not last[row % CAPACITY, lane]}


# Against the naive replay


def test_random_streams_hold_every_kind_of_row_and_wrap_around():
    kinds = Counter()
    for seed in range(3):
        stream = random_stream(seed, 2 * CAPACITY + 7)
        kinds.update(zip(stream.discount.flat, stream.last.flat, strict=True))
    assert len(kinds) == 4  # discount 0 or 1, `last` or not
    assert min(kinds.values()) >= 5


@pytest.mark.parametrize("frame_stack", [1, 3])
@pytest.mark.parametrize("n_step", [1, 2, 4])
def test_starts_and_transitions_equal_the_naive_ones_after_every_add(n_step, frame_stack):
    how = sampling(n_step, frame_stack)
    compared_before, compared_after = 0, 0  # the first row is overwritten
    for seed in range(3):
        stream = random_stream(seed, 2 * CAPACITY + 7)
        naive = NaiveReplay(CAPACITY, LANES, GAMMA, n_step, frame_stack)
        written = ring.init(SPEC, CAPACITY, LANES)
        for t in range(len(stream.last)):
            written = add_row(written, stream, t)
            add_naive(naive, stream, t)
            assert ring.check_valid(written, t + 1) == (True, "")
            starts = sorted(naive.starts())
            assert window(written, t + 1, how) == set(starts), f"seed {seed}, row {t}"
            ours = jax.tree.map(np.asarray, ASSEMBLE(written, *batched(starts), how))
            theirs = [naive.transition(*start) for start in starts]
            for name in ours._fields:
                expected = np.array([getattr(transition, name) for transition in theirs])
                got = getattr(ours, name)[: len(starts)].reshape(expected.shape)
                np.testing.assert_array_equal(got, expected, err_msg=f"{name}, seed {seed}, row {t}")
            compared_before += len(starts) * (t < CAPACITY)
            compared_after += len(starts) * (t >= CAPACITY)
    assert compared_before > 100
    assert compared_after > 500


def test_shapes_of_a_batch_keep_unequal_axes_apart():
    written = write(random_stream(0, 20))
    how = sampling(n_step=2, frame_stack=4, batch_size=5)
    batch = jax.eval_shape(lambda key: ring.sample(written, jnp.int32(20), key, how), jax.random.key(0))
    assert batch.observation.shape == batch.next_observation.shape == (5, 2, 4)
    assert batch.observation.dtype == SPEC.observation_dtype
    assert batch.action.shape == batch.reward.shape == batch.discount.shape == (5,)


def test_acting_stacks_equal_sampled_stacks():
    stream = random_stream(seed=4, length=2 * CAPACITY + 7)
    written, stacks = ring.init(SPEC, CAPACITY, LANES), []
    compared, first_frames = 0, 0
    for t in range(len(stream.last)):
        written = add_row(written, stream, t)
        if t == 0:
            row = (stream.observation[0], stream.reward[0], stream.discount[0], stream.last[0])
            stack = nstep.first_stack(Timestep(*map(jnp.asarray, row)), 3)
        else:
            stack = PUSH(stack, stream.observation[t], stream.last[t - 1], 3)
        stacks.append(np.asarray(nstep.view(stack, 3)))
        oldest = 0 if t < CAPACITY else t + 1 - CAPACITY + 2  # two older frames are in the ring, or were never
        starts = [(row, lane) for row in range(oldest, t + 1) for lane in range(LANES)]  # `last` rows as well
        sampled = np.asarray(OBSERVE(written, *batched(starts), 3))[: len(starts)]
        acted = np.array([stacks[row][lane] for row, lane in starts])
        np.testing.assert_array_equal(sampled, acted, err_msg=f"row {t}")
        compared += len(starts)
        first_frames += np.sum(acted[:, 0, 0] == 0)
    assert compared > 500
    assert 100 < first_frames < compared


# Sampling


@pytest.mark.parametrize("num_rows", [9, 13, 30], ids=["partly filled", "just full", "wrapped"])
def test_starts_are_drawn_uniformly_from_all_valid_ones_of_all_lanes(num_rows):
    how = sampling(n_step=2, frame_stack=3, batch_size=6_000)
    stream = random_stream(seed=5, length=num_rows)
    naive = NaiveReplay(CAPACITY, LANES, GAMMA, how.n_step, how.frame_stack)
    for t in range(num_rows):
        add_naive(naive, stream, t)
    rows, lanes = SAMPLE_STARTS(write(stream), np.int32(num_rows), jax.random.key(num_rows), how)
    drawn = Counter(zip(np.asarray(rows).tolist(), np.asarray(lanes).tolist(), strict=True))
    assert set(drawn) == naive.starts()  # no `last` row, none outside the window, none left out
    assert {lane for _, lane in drawn} == set(range(LANES))
    assert stream.last[min(naive.starts())[0] : num_rows - how.n_step].any()  # some draws had to be drawn again
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-4


def test_same_key_gives_the_same_batch_and_another_key_another():
    written = write(random_stream(seed=6, length=30))
    one, again, other = (SAMPLE(written, np.int32(30), jax.random.key(seed), BATCH) for seed in (1, 1, 2))
    for name in one._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
    assert np.any(np.asarray(one.observation) != np.asarray(other.observation))


def test_a_batch_is_the_transitions_of_its_drawn_starts():
    written = write(random_stream(seed=7, length=30))
    batch = SAMPLE(written, np.int32(30), jax.random.key(3), BATCH)
    rows, lanes = SAMPLE_STARTS(written, np.int32(30), jax.random.key(3), BATCH)
    expected = ASSEMBLE(written, rows, lanes, BATCH)
    for name in batch._fields:
        np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name))


def test_neither_stack_nor_return_crosses_the_write_head():
    # An endless episode whose row t shows t and pays t. Rows 17..29 are kept; a stack of 3 needs t - 2 >= 17 and four
    # steps need t + 4 <= 29, so starts are 19..25. Crossing the head would mix in a row 13 older or newer.
    length = 30
    names = np.repeat(np.arange(length, dtype=np.float32)[:, None], LANES, axis=1)
    nothing = np.zeros((length, LANES))
    observation = np.stack([names, names], axis=-1)
    stream = ring.Ring(observation, nothing.astype(np.int32), names, np.ones_like(names), nothing.astype(bool))
    batch = SAMPLE(write(stream), np.int32(length), jax.random.key(0), BATCH)
    start = np.asarray(batch.observation)[:, 0, -1]
    assert set(start.tolist()) == set(range(19, 26))
    np.testing.assert_array_equal(batch.observation[:, 1], start[:, None] + [-2, -1, 0])
    np.testing.assert_array_equal(batch.next_observation[:, 1], start[:, None] + [2, 3, 4])
    # s+1 + (s+2)/2 + (s+3)/4 + (s+4)/8 = 15/8 s + 13/4
    np.testing.assert_array_equal(batch.reward, 15 / 8 * start + 13 / 4)
    np.testing.assert_array_equal(batch.discount, np.full(BATCH.batch_size, 1 / 16))


# Ends of episodes, by hand


def one_lane(*rows: tuple[float, float, bool]) -> ring.Ring:
    """(reward, discount, last) of one lane; row t shows t + 1 and takes action t modulo 5."""
    reward, discount, last = (np.array(column)[:, None] for column in zip(*rows, strict=True))
    number = np.arange(len(rows), dtype=np.float32)[:, None]
    observation = np.stack([number + 1, -number], axis=-1)
    return ring.Ring(observation, np.int32(number % 5), np.float32(reward), np.float32(discount), last)


FIRST = (0.0, 1.0, False)
# rows:     0   1   2   3* | 4   5   6* | 7   8   9           row 3 is a truncation, row 6 a termination
# rewards:  0   1   2   4    0   8   16   0   3   3
EPISODES = one_lane(
    *[FIRST, (1.0, 1.0, False), (2.0, 1.0, False), (4.0, 1.0, True)],
    *[FIRST, (8.0, 1.0, False), (16.0, 0.0, True)],
    *[FIRST, (3.0, 1.0, False), (3.0, 1.0, False)],
)


def three_steps(stream: ring.Ring, row: int, frame_stack: int = 1):
    batch = ASSEMBLE(write(stream), np.array([row]), np.array([0]), sampling(3, frame_stack))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], batch)


@pytest.mark.parametrize(
    ("row", "reward", "discount", "arrival"),
    [
        (0, 1 + 2 / 2 + 4 / 4, 1 / 8, 3),  # three steps, then bootstrap from the true final observation
        (1, 2 + 4 / 2, 1 / 4, 3),  # two steps: the episode is over, the exponent is 2
        (2, 4, 1 / 2, 3),  # one step
    ],
)
def test_truncated_episode_bootstraps_from_its_final_observation_with_fewer_steps_at_the_end(
    row, reward, discount, arrival
):
    got = three_steps(EPISODES, row)
    assert (got.reward, got.discount, got.action) == (reward, discount, row)
    np.testing.assert_array_equal(got.next_observation, [arrival + 1, -arrival])


@pytest.mark.parametrize(("row", "reward"), [(4, 8 + 16 / 2), (5, 16)])
def test_terminated_episode_has_discount_zero_and_nothing_of_the_next_episode(row, reward):
    got = three_steps(EPISODES, row)
    assert (got.reward, got.discount) == (reward, 0.0)
    np.testing.assert_array_equal(got.next_observation, [7, -6])


def test_rewards_are_clipped_one_by_one_and_only_when_asked_for():
    stream = one_lane(FIRST, (0.25, 1.0, False), (-7.0, 1.0, False), (3.0, 1.0, False))
    how, start = sampling(n_step=3, frame_stack=1), (np.array([0]), np.array([0]))
    raw, clipped = (ASSEMBLE(write(stream), *start, how._replace(clip_rewards=clip)) for clip in (False, True))
    assert raw.reward[0] == 0.25 - 7 / 2 + 3 / 4
    assert clipped.reward[0] == 0.25 - 1 / 2 + 1 / 4


def test_last_starts_of_an_episode_are_kept_and_last_rows_are_not_starts():
    # Of 10 rows, n = 3 leaves starts 0..6; rows 3 and 6 are `last`.
    how = sampling(n_step=3, frame_stack=1, batch_size=200)
    rows, lanes = SAMPLE_STARTS(write(EPISODES), np.int32(10), jax.random.key(0), how)
    assert set(np.asarray(rows).tolist()) == {0, 1, 2, 4, 5}
    assert set(np.asarray(lanes).tolist()) == {0}


def test_lost_life_ends_the_return_but_neither_the_stack_nor_the_episode():
    # rows:     0   1   2'  3   4   5       row 2 has discount 0 and isn't last
    # rewards:  0   1   2   4   8   16
    lives = one_lane(FIRST, (1.0, 1.0, False), (2.0, 0.0, False), *[(r, 1.0, False) for r in (4.0, 8.0, 16.0)])
    before = three_steps(lives, row=0, frame_stack=3)
    assert (before.reward, before.discount) == (1 + 2 / 2, 0.0)
    np.testing.assert_array_equal(before.next_observation[0], [1, 2, 3])  # the arrival is row 2
    after = three_steps(lives, row=2, frame_stack=3)  # which may start a transition, as the episode goes on
    assert (after.reward, after.discount) == (4 + 8 / 2 + 16 / 4, 1 / 8)
    stack = OBSERVE(write(lives), np.array([3]), np.array([0]), 3)
    np.testing.assert_array_equal(stack[0, 0], [2, 3, 4])  # and row 3's stack reaches back over it


def test_stack_holds_zeros_before_the_first_frame_of_an_episode():
    np.testing.assert_array_equal(three_steps(EPISODES, 0, frame_stack=3).observation, [[0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(three_steps(EPISODES, 4, frame_stack=3).observation, [[0, 0, 5], [0, 0, -4]])
    np.testing.assert_array_equal(three_steps(EPISODES, 5, frame_stack=3).observation, [[0, 5, 6], [0, -4, -5]])
    np.testing.assert_array_equal(three_steps(EPISODES, 5, frame_stack=3).next_observation, [[5, 6, 7], [-4, -5, -6]])


# rewards 1, 2, 3 at gamma .9: 1 + .9 x 2 + .81 x 3 = 1 + 1.8 + 2.43 = 5.23, and .9^3 = .729
@pytest.mark.parametrize(
    ("discounts", "lasts", "total", "discount", "steps"),
    [
        ((1, 1, 1), (0, 0, 0), 5.23, 0.729, 3),
        ((1, 1, 1), (0, 0, 1), 5.23, 0.729, 3),  # truncated at the third arrival: all of it, and a bootstrap
        ((1, 1, 0), (0, 0, 1), 5.23, 0.0, 3),
        ((1, 1, 1), (0, 1, 0), 2.8, 0.81, 2),  # truncated at the second
        ((1, 0, 1), (0, 1, 0), 2.8, 0.0, 2),  # terminated at the second
        ((1, 0, 1), (0, 0, 0), 2.8, 0.0, 2),  # a life lost at the second
        ((1, 1, 0), (1, 0, 0), 1.0, 0.9, 1),  # what comes after the first stop doesn't matter
        ((0, 1, 0), (1, 0, 1), 1.0, 0.0, 1),
    ],
)
def test_n_step_return_stops_at_the_first_end(discounts, lasts, total, discount, steps):
    got = N_STEP(jnp.array([1.0, 2.0, 3.0]), jnp.array(discounts, float), jnp.array(lasts, bool), 0.9)
    np.testing.assert_allclose(got, (total, discount, steps), rtol=1e-6)


def test_frames_up_to_the_last_end_belong_to_another_episode():
    # rows:  a   b*  c   d   e    the newest is e; `lasts` are those of a..d
    belongs = nstep.same_episode(jnp.array([False, True, False, False]))
    np.testing.assert_array_equal(belongs, [False, False, True, True, True])


def test_push_without_a_stack_is_the_observation_itself():
    frame = jnp.arange(6.0).reshape(LANES, 2)
    np.testing.assert_array_equal(nstep.push(frame + 1, frame, jnp.zeros(LANES, bool), 1), frame)


# check_valid


def test_empty_and_handwritten_rings_are_valid():
    assert ring.check_valid(ring.init(SPEC, CAPACITY, LANES), 0) == (True, "")
    assert ring.check_valid(write(EPISODES), 10) == (True, "")


@pytest.mark.parametrize(
    ("leaf", "row", "value", "why"),
    [
        ("last", 2, True, "two `last` rows in a row"),  # before the `last` of row 3
        ("discount", 1, 0.5, "neither 0 nor 1"),
        ("reward", 4, 1.0, "first row of an episode"),  # row 4 follows the `last` of row 3
        ("discount", 4, 0.0, "first row of an episode"),
        ("reward", 1, np.nan, "not finite"),
        ("reward", 1, np.inf, "not finite"),
    ],
)
def test_broken_ring_is_reported_with_its_reason(leaf, row, value, why):
    written = write(EPISODES)
    broken = written._replace(**{leaf: getattr(written, leaf).at[row, 0].set(value)})
    ok, reason = ring.check_valid(broken, 10)
    assert not ok
    assert why in reason


def test_broken_row_that_is_not_written_yet_is_not_reported():
    written = write(EPISODES)
    assert ring.check_valid(written._replace(reward=written.reward.at[11, 0].set(np.nan)), 10) == (True, "")


def test_newest_and_oldest_row_are_no_neighbours_although_they_touch_in_memory():
    # 16 rows in 13 places: row 3 is the oldest, at 3; row 15 the newest, at 2. Both are `last`, 12 rows apart.
    stream = one_lane(*[FIRST] * 3, (1.0, 1.0, True), *[FIRST] * 11, (1.0, 0.0, True))
    written = write(stream)
    assert np.all(np.asarray(written.last)[[2, 3], 0])
    assert ring.check_valid(written, 16) == (True, "")
