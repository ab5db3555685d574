"""Scores of a frozen policy, on environments made by hand whose right answer is known beforehand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fqf.agents.agent import Agent
from fqf.environments import vectorize
from fqf.environments.host import Hosted
from fqf.evaluation import (
    Episodes,
    evaluation_key,
    make_evaluate,
    make_host_evaluate,
    make_host_trace,
    make_player,
    make_trace,
    shares,
    summarize,
)
from fqf.types import Environment, EnvironmentSpec, HostEnvironment, JittableEnvironment, ReturnDistribution, Timestep

NUM_ACTIONS = 4
pytestmark = pytest.mark.usefixtures("compile_quickly")


def agent_that(prefer) -> Agent:
    """An agent of which only `distribution` is there; it takes the action `prefer(params, stack)`, [B].

    The preferred action has atoms 1 and 1, mean 1. The others have 0 and 5 at .9 and .1, mean .5: without their
    probabilities (1 against 2.5), or by its best atom (1 against 5), another action would be chosen.
    """

    def distribution(params, stack):
        preferred = jax.nn.one_hot(prefer(params, stack), NUM_ACTIONS)[..., None]  # [B, A, 1]
        probabilities = jnp.where(preferred == 1, jnp.array([0.5, 0.5]), jnp.array([0.9, 0.1]))
        values = jnp.where(preferred == 1, jnp.array([1.0, 1.0]), jnp.array([0.0, 5.0]))
        return ReturnDistribution(probabilities, values)

    return Agent(init=None, q_values=None, distribution=distribution, loss=None, optimizer=None)


def always(action: int) -> Agent:
    return agent_that(lambda params, stack: jnp.full(len(stack), action))


def clockwork(draw_length, reward) -> JittableEnvironment:
    """Episodes of `draw_length(key)` steps; observation (length, time), reward `reward(length, action)`."""

    def observe(length, time):
        return jnp.array([length, time], jnp.float32)

    def reset(key):
        length = draw_length(key)
        return (length, jnp.int32(0)), observe(length, 0)

    def step(key, state, action):
        length, time = state
        time = time + 1
        last = time >= length
        earned = jnp.asarray(reward(length, action), jnp.float32)
        return (length, time), Timestep(observe(length, time), earned, 1.0 - last, last)

    return JittableEnvironment(EnvironmentSpec("test/clockwork", (2,), np.dtype("float32"), NUM_ACTIONS), reset, step)


def one_to_nine(key):
    return jax.random.randint(key, (), 1, 10)


def fixed(length: int):
    return lambda key: jnp.int32(length)


NUM_LANES = 2_000
ONE_PER_STEP = clockwork(one_to_nine, lambda length, action: 1.0)
EVALUATE = make_evaluate(always(0), vectorize(ONE_PER_STEP, NUM_LANES), epsilon=0.0, frame_stack=1)


# One episode per lane


def test_mean_over_lanes_is_exact_and_no_lane_plays_on_after_its_end():
    # Lanes whose first episodes take 3, 1, 9, 4 and 2 steps of reward 1; whatever comes after would pay 100.
    lengths = jnp.array([3, 1, 9, 4, 2])

    def timestep(time):
        reward = jnp.where(time == 0, 0.0, jnp.where(time <= lengths, 1.0, 100.0))
        return Timestep(jnp.ones((5, 2)), reward, jnp.ones(5), time == lengths)

    trap = Environment(
        spec=ONE_PER_STEP.spec,
        num_lanes=5,
        init=lambda key: (jnp.int32(0), timestep(jnp.int32(0))),
        step=lambda time, action: (time + 1, timestep(time + 1)),
    )
    episodes = make_evaluate(always(0), trap, epsilon=0.0, frame_stack=1)({}, jax.random.key(0))
    np.testing.assert_array_equal(episodes.returns, [3, 1, 9, 4, 2])
    np.testing.assert_array_equal(episodes.lengths, [3, 1, 9, 4, 2])
    assert summarize(episodes).mean == 3.8  # 19 / 5; the trap's second episodes would lift it far above 9


def test_every_start_counts_once_so_short_episodes_are_not_favoured():
    episodes = EVALUATE({}, jax.random.key(1))
    lengths = np.asarray(episodes.lengths)
    assert lengths.shape == (NUM_LANES,)
    np.testing.assert_array_equal(episodes.returns, lengths)  # reward 1 per step
    counts = np.bincount(lengths, minlength=10)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-4  # as the starts are drawn: uniform over 1..9
    # The mean over starts is 5, with standard error sqrt(80 / 12 / 2,000) = .058.
    assert abs(summarize(episodes).mean - 5) < 0.25


def test_averaging_all_episodes_of_a_fixed_time_would_favour_short_ones():
    """Why lanes stop: after 9 steps all first episodes are over, but of the second ones only the short."""
    steps, environment = 9, vectorize(ONE_PER_STEP, NUM_LANES)

    def play(key):
        state, _ = environment.init(key)
        return jax.lax.scan(environment.step, state, jnp.zeros((steps, NUM_LANES), jnp.int32))[1]

    rows = jax.jit(play)(jax.random.key(2))
    ended = np.asarray(rows.last)
    lengths = np.asarray(rows.observation)[..., 0][ended]

    def expected(left: int, worth) -> float:
        """Of the episodes that end within `left` steps; a reset row lies between an episode and the next."""
        return sum((worth(length) + expected(left - length - 1, worth)) / 9 for length in range(1, min(9, left) + 1))

    biased = expected(steps, lambda length: length) / expected(steps, lambda length: 1)  # 6.136 / 1.396 = 4.396, not 5
    assert biased == pytest.approx(4.396, abs=1e-3)
    assert abs(lengths.mean() - biased) < 0.2  # standard error 2.6 / sqrt(2,792) = .05


def test_same_key_repeats_and_another_key_differs():
    one, again, other = (np.asarray(EVALUATE({}, jax.random.key(seed)).returns) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, again)
    assert np.any(one != other)


# Shares of lanes that play one episode after the other


def hosted(environment: JittableEnvironment) -> HostEnvironment:
    return HostEnvironment(environment.spec, lambda num_lanes, visible: Hosted(vectorize(environment, num_lanes)))


def test_shares_are_even_and_add_up():
    assert [share.episodes for share in shares(10, 0, 4)] == [3, 3, 2, 2]
    assert [share.episodes for share in shares(3, 0, 8)] == [1, 1, 1]
    assert {share.steps for share in shares(100, 1_000, 8)} == {125}


def test_a_lane_plays_its_share_of_episodes_and_no_more():
    play = make_host_evaluate(make_player(always(0), 0.0, 1), hosted(ONE_PER_STEP), shares(70, 0, 30))
    episodes = play({}, jax.random.key(0))
    assert len(episodes.returns) == 70
    np.testing.assert_array_equal(episodes.returns, episodes.lengths)


def test_a_share_of_steps_ends_with_the_episode_that_exceeds_it():
    """Episodes of 3 steps, 2 lanes of 10 steps each: 3 episodes are 9 steps, so each lane plays a fourth."""
    games = hosted(clockwork(fixed(3), lambda length, action: 2.0))
    play = make_host_evaluate(make_player(always(0), 0.0, 1), games, shares(1, 20, 2))
    episodes = play({}, jax.random.key(0))
    np.testing.assert_array_equal(episodes.lengths, [3] * 8)
    np.testing.assert_array_equal(episodes.returns, [6.0] * 8)


def test_a_share_of_steps_favours_neither_short_nor_long_episodes():
    """500 lanes of 9 steps: dropping the unfinished would give 4.4 (see above), counting them all gives 5 by Wald."""
    play = make_host_evaluate(make_player(always(0), 0.0, 1), hosted(ONE_PER_STEP), shares(1, 9 * 500, 500))
    episodes = play({}, jax.random.key(0))
    assert len(episodes.returns) > 900
    assert abs(float(np.mean(episodes.lengths)) - 5) < 0.3  # standard error 2.6 / sqrt(1,100) = .08


def test_stacks_of_a_host_evaluation_never_mix_episodes():
    """Action 1 wherever a stack's older frame is not empty: so in every step but an episode's first."""
    agent = agent_that(lambda params, stack: jnp.any(stack[..., 0] != 0, axis=1).astype(int))
    environment = clockwork(fixed(3), lambda length, action: action)
    play = make_host_evaluate(make_player(agent, 0.0, 2), hosted(environment), shares(6, 0, 2))
    np.testing.assert_array_equal(play({}, jax.random.key(0)).returns, [2.0] * 6)


def test_a_host_trace_shows_states_of_one_episode():
    trace = make_host_trace(make_player(always(0), 0.0, 1), hosted(clockwork(fixed(7), lambda length, action: 1.0)), 2)
    np.testing.assert_array_equal(trace({}, jax.random.key(0)).observations[:, 1], [0, 2, 4])


# Actions


WORTH_ITS_NUMBER = clockwork(fixed(1), lambda length, action: action)  # one step, whose reward is the action


def test_epsilon_zero_takes_the_action_of_the_greatest_mean_under_the_given_parameters():
    agent = agent_that(lambda params, stack: jnp.full(len(stack), params["favourite"]))
    evaluate = make_evaluate(agent, vectorize(WORTH_ITS_NUMBER, 40), epsilon=0.0, frame_stack=1)
    for seed, favourite in enumerate((3, 0, 2)):
        episodes = evaluate({"favourite": np.int32(favourite)}, jax.random.key(seed))
        np.testing.assert_array_equal(episodes.returns, np.full(40, favourite))
        np.testing.assert_array_equal(episodes.lengths, np.ones(40))


@pytest.mark.parametrize(
    ("epsilon", "probabilities"),
    [(1.0, [0.25, 0.25, 0.25, 0.25]), (0.4, [0.1, 0.1, 0.7, 0.1])],  # .6 greedy, and .4 shared by all four
)
def test_epsilon_is_the_probability_of_a_uniformly_random_action(epsilon, probabilities):
    evaluate = make_evaluate(always(2), vectorize(WORTH_ITS_NUMBER, 4_000), epsilon, frame_stack=1)
    actions = np.asarray(evaluate({}, jax.random.key(6)).returns).astype(int)
    counts = np.bincount(actions, minlength=NUM_ACTIONS)
    assert stats.chisquare(counts, 4_000 * np.array(probabilities)).pvalue > 1e-4


def test_random_actions_are_drawn_anew_at_every_step():
    # Thirty random actions of 0..3 sum to 45 on average, variance 30 x 1.25; one that is held on gives 0, 30, 60 or 90.
    environment = vectorize(clockwork(fixed(30), lambda length, action: action), 200)
    episodes = make_evaluate(always(2), environment, epsilon=1.0, frame_stack=1)({}, jax.random.key(7))
    returns = np.asarray(episodes.returns)
    assert abs(returns.mean() - 45) < 3  # standard error sqrt(37.5 / 200) = .43
    assert 20 < returns.var() < 60


def test_agent_sees_stacked_frames():
    # The agent takes the action that is the time on its oldest frame, and earns it. Stacks of three over five steps:
    # (0 0 t0) (0 t0 t1) (t0 t1 t2) (t1 t2 t3) (t2 t3 t4), so the oldest times are 0 0 0 1 2, together 3.
    environment = vectorize(clockwork(fixed(5), lambda length, action: action), 2)
    agent = agent_that(lambda params, stack: stack[:, 1, 0].astype(jnp.int32))
    episodes = make_evaluate(agent, environment, epsilon=0.0, frame_stack=3)({}, jax.random.key(8))
    np.testing.assert_array_equal(episodes.returns, [3, 3])


# Scores


def test_summary_of_episodes():
    # (1 + 5 + 2 + 10) / 4 = 4.5; the middle two are 2 and 5; (4 + 6 + 5 + 7) / 4 = 5.5
    scores = summarize(Episodes(jnp.array([1.0, 5.0, 2.0, 10.0]), jnp.array([4, 6, 5, 7])))
    assert scores._asdict() == {
        "mean": 4.5,
        "median": 3.5,
        "minimum": 1.0,
        "maximum": 10.0,
        "mean_length": 5.5,
        "episodes": 4,
    }


# Traces

HORIZON = 7
TRACE = make_trace(always(0), vectorize(ONE_PER_STEP, 2), frame_stack=1, num_states=3, horizon=HORIZON)

# Of an episode of l steps, or of its first 7: states 0, l/3 and 2l/3, rounded down, each once.
TIMES = {
    1: [0],
    2: [0, 1],
    3: [0, 1, 2],
    4: [0, 1, 2],
    5: [0, 1, 3],
    6: [0, 2, 4],
    7: [0, 2, 4],
    8: [0, 2, 4],
    9: [0, 2, 4],
}


def test_trace_is_one_episode_in_order_from_its_first_state_and_not_beyond_its_end():
    seen = set()
    for seed in range(40):
        length, time = TRACE({}, jax.random.key(seed)).observations.T
        assert len(set(length)) == 1  # one episode; nearly every other one has another length
        assert time.tolist() == TIMES[int(length[0])]
        seen.add(int(length[0]))
    assert seen == set(TIMES)


def test_trace_repeats_with_its_key():
    first, again = (TRACE({}, jax.random.key(0)).observations for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_trace_shows_the_stacks_and_acts_greedily():
    # An action other than 3 ends the episode at once, so only a greedy agent gets to see five states.
    base = clockwork(fixed(6), lambda length, action: 0.0)

    def step(key, state, action):
        state, timestep = base.step(key, state, action)
        return state, timestep._replace(last=timestep.last | (action != 3))

    environment = vectorize(base._replace(step=step), 2)
    trace = make_trace(always(3), environment, frame_stack=3, num_states=3, horizon=20)
    stacks = trace({}, jax.random.key(0)).observations
    assert stacks.shape == (3, 3, 2)  # states 0, 2, 4 of 6; three frames; (length, time)
    np.testing.assert_array_equal(stacks[..., 0], [[0, 0, 6], [6, 6, 6], [6, 6, 6]])
    np.testing.assert_array_equal(stacks[..., 1], [[0, 0, 0], [0, 1, 2], [2, 3, 4]])


def test_an_evaluation_shares_no_key_with_a_run():
    """Both start from a small number; a run splits its key, then splits or folds what it got."""
    run, own = jax.random.split(jax.random.key(1))
    made = [*jax.random.split(run, 4), *jax.random.split(own, 4), *jax.random.split(jax.random.key(1), 8)]
    used = [evaluation_key(1), *jax.random.split(evaluation_key(1), 8)]
    pairs = {tuple(np.asarray(jax.random.key_data(key))) for key in made}
    assert not pairs & {tuple(np.asarray(jax.random.key_data(key))) for key in used}
