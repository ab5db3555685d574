"""What every environment owes the driver; gym's equations, MinAtar's shapes and the laws of the toys."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments.classic_control.cartpole import CartPole
from scipy import stats

from fqf.environments import FAMILIES, IDS, family, make, vectorize
from fqf.errors import UserError
from fqf.laws import LAWS
from fqf.types import Timestep

LANES = 3  # no observation has an axis of 3
STEPS = {"minatar/freeway": 2_505, "classic/acrobot": 505, "minatar/seaquest": 70}  # enough for an episode's end
DETERMINISTIC = ("minatar/space_invaders",)  # gymnax has no sticky actions, and nothing else in this game is random

every_id = pytest.mark.parametrize("id", [id for id in IDS if family(id) in FAMILIES])
pytestmark = pytest.mark.usefixtures("compile_quickly")


@functools.cache
def player(id: str):
    environment = vectorize(make(id), LANES)

    def play(key, actions):
        state, first = environment.init(key)
        _, rows = jax.lax.scan(environment.step, state, actions)
        return jax.tree.map(lambda row, rows: jnp.concatenate([row[None], rows]), first, rows)

    return jax.jit(play)


def play(id: str, seed: int, actions: np.ndarray) -> Timestep:
    """Rows [T + 1, E]: the first one, and one per action [T, E]; row t + 1 is the arrival after action t."""
    return jax.tree.map(np.asarray, player(id)(jax.random.key(seed), np.int32(actions)))


def constant(id: str, action: int) -> np.ndarray:
    return np.full((STEPS.get(id, 300), LANES), action)


@functools.cache
def random_actions(id: str) -> np.ndarray:
    """The same in all lanes, so that only their keys can tell lanes apart."""
    steps, num_actions = STEPS.get(id, 300), make(id).spec.num_actions
    return np.repeat(np.random.default_rng(0).integers(0, num_actions, (steps, 1)), LANES, axis=1)


@functools.cache
def random_play(id: str) -> Timestep:
    return play(id, 0, random_actions(id))


def equal(a: Timestep, b: Timestep) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def lane(rows: Timestep, index: int) -> Timestep:
    return jax.tree.map(lambda leaf: leaf[:, index], rows)


# The contract, for every id


@every_id
def test_shapes_and_types_match_the_spec(id):
    spec, rows = make(id).spec, random_play(id)
    num_rows = len(random_actions(id)) + 1
    assert spec.id == id
    assert LANES not in spec.observation_shape
    assert rows.observation.shape == (num_rows, LANES, *spec.observation_shape)
    assert rows.observation.dtype == spec.observation_dtype
    for leaf, dtype in ((rows.reward, np.float32), (rows.discount, np.float32), (rows.last, np.bool_)):
        assert leaf.shape == (num_rows, LANES)
        assert leaf.dtype == dtype
    assert np.all(np.isfinite(rows.observation))
    assert np.all(np.isfinite(rows.reward))


@every_id
def test_first_rows_carry_no_reward_and_no_end(id):
    rows = random_play(id)
    first = np.concatenate([np.ones((1, LANES), bool), rows.last[:-1]])
    assert first[1:].any()  # some lane started a second episode
    assert np.all(rows.reward[first] == 0)
    assert np.all(rows.discount[first] == 1)
    assert not np.any(rows.last[first])


@every_id
def test_discount_is_zero_only_where_an_episode_ends(id):
    rows = random_play(id)
    assert np.all((rows.discount == 1) | ((rows.discount == 0) & rows.last))


@every_id
def test_step_after_the_last_row_ignores_its_action(id):
    rows, actions = random_play(id), random_actions(id)
    ignored = rows.last[:-1]
    assert ignored.any()
    others = (actions + 1) % max(2, make(id).spec.num_actions)
    assert equal(play(id, 0, np.where(ignored, others, actions)), rows)


@pytest.mark.parametrize("id", ["classic/cartpole", "minatar/breakout", "toy/bandit"])
def test_all_other_steps_heed_their_action(id):
    rows, actions = random_play(id), random_actions(id)
    others = (actions + 1) % make(id).spec.num_actions
    assert not equal(play(id, 0, np.where(rows.last[:-1], actions, others)), rows)


@every_id
def test_same_key_repeats_exactly_and_another_key_differs(id):
    assert equal(play(id, 0, random_actions(id)), random_play(id))
    assert equal(play(id, 1, random_actions(id)), random_play(id)) == (id in DETERMINISTIC)


@every_id
def test_lanes_that_act_alike_differ(id):
    rows = random_play(id)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert equal(lane(rows, one), lane(rows, other)) == (id in DETERMINISTIC)


def test_lane_does_not_feel_the_actions_of_another():
    rows, actions = random_play("classic/cartpole"), random_actions("classic/cartpole").copy()
    actions[:, 1] = 1 - actions[:, 1]
    changed = play("classic/cartpole", 0, actions)
    assert equal(lane(changed, 0), lane(rows, 0))
    assert equal(lane(changed, 2), lane(rows, 2))
    assert not equal(lane(changed, 1), lane(rows, 1))


def test_every_episode_of_a_lane_starts_anew():
    rows = random_play("classic/cartpole")
    starts = rows.observation[1:, 0][rows.last[:-1, 0]]
    assert len(starts) > 3
    assert len(np.unique(starts, axis=0)) == len(starts)
    assert np.all(np.abs(starts) <= 0.05)  # CartPole-v1 starts in [-.05, .05] in all four


def test_single_lane_environment_keeps_its_axis():
    environment = vectorize(make("toy/uniform"), 1)
    state, first = jax.eval_shape(environment.init, jax.random.key(0))
    _, second = jax.eval_shape(environment.step, state, jnp.zeros(1, jnp.int32))
    assert first.observation.shape == second.observation.shape == (1, 1)
    assert first.last.shape == second.last.shape == (1,)


# Ends of episodes


def gym_cartpole(observation: np.ndarray, action: int) -> np.ndarray:
    """One Euler step of CartPole-v1, from Barto, Sutton and Anderson (1983) as gym writes it, in float64."""
    x, x_dot, theta, theta_dot = observation.astype(np.float64)
    force = 10.0 if action == 1 else -10.0
    gravity, mass_pole, total_mass, half_length, tau = 9.8, 0.1, 1.1, 0.5, 0.02
    pole = mass_pole * half_length
    temp = (force + pole * theta_dot**2 * np.sin(theta)) / total_mass
    denominator = half_length * (4 / 3 - mass_pole * np.cos(theta) ** 2 / total_mass)
    theta_acceleration = (gravity * np.sin(theta) - np.cos(theta) * temp) / denominator
    x_acceleration = temp - pole * theta_acceleration * np.cos(theta) / total_mass
    return np.array(
        [x + tau * x_dot, x_dot + tau * x_acceleration, theta + tau * theta_dot, theta_dot + tau * theta_acceleration]
    )


def test_cartpole_moves_as_gyms_does():
    actions = np.zeros_like(constant("classic/cartpole", 0))
    actions[::2] = [1, 1, 0]  # right, left, right, ... keeps the pole up for 20 steps; the third lane the other way
    actions[1::2] = [0, 0, 1]
    rows = play("classic/cartpole", 2, actions)
    assert not rows.last[:21].any()
    for index in range(LANES):
        expected = rows.observation[0, index]
        for t in range(20):
            expected = gym_cartpole(expected, actions[t, index])
            np.testing.assert_allclose(rows.observation[t + 1, index], expected, rtol=1e-4, atol=1e-5)
    assert np.all(rows.reward[1:21] == 1)


@pytest.mark.parametrize("action", [0, 1])
def test_terminated_cartpole_shows_its_true_final_observation(action):
    rows = play("classic/cartpole", 3, constant("classic/cartpole", action))

    def fallen(observation):  # 2.4 units from the middle or 12 degrees from upright
        return np.abs(observation[0]) > 2.4 or np.abs(observation[2]) > 12 * np.pi / 180

    for index in range(LANES):
        end = np.argmax(rows.last[:, index])
        observation = rows.observation[:, index]
        assert rows.last[end, index]
        assert [fallen(row) for row in observation[: end + 1]] == [False] * end + [True]
        np.testing.assert_allclose(observation[end], gym_cartpole(observation[end - 1], action), rtol=1e-4, atol=1e-5)
        assert rows.discount[end, index] == 0
        assert rows.reward[end, index] == 1  # the step into the fall still counts
        assert np.all(rows.discount[:end, index] == 1)


def test_mountain_car_left_alone_is_truncated_after_exactly_200_steps():
    rows = play("classic/mountain_car", 4, constant("classic/mountain_car", 1))
    for index in range(LANES):
        np.testing.assert_array_equal(np.flatnonzero(rows.last[:, index]), [200])  # row 0 is the first, 401 too far
    assert np.all(rows.discount == 1)
    # The final row moves on from row 199 (velocity -= .0025 cos 3x); row 201 stands still at a new start.
    position, velocity = rows.observation[199].T
    velocity = velocity - 0.0025 * np.cos(3 * position)
    np.testing.assert_allclose(rows.observation[200], np.stack([position + velocity, velocity], axis=1), atol=1e-6)
    assert np.all(np.abs(rows.observation[200, :, 1]) > 1e-5)
    assert np.all(rows.observation[201, :, 1] == 0)


@pytest.mark.parametrize("id", ["toy/uniform", "toy/normal", "toy/exponential", "toy/laplace"])
def test_endless_toys_are_truncated_after_exactly_100_steps(id):
    rows = random_play(id)
    for index in range(LANES):
        np.testing.assert_array_equal(np.flatnonzero(rows.last[:, index]), [100, 201])  # row 101 is the next first
    assert np.all(rows.discount == 1)


@pytest.mark.parametrize(("id", "limit"), [("classic/acrobot", 500), ("minatar/freeway", 2_500)])
def test_games_without_an_end_are_truncated_at_their_limit(id, limit):
    rows = random_play(id)
    np.testing.assert_array_equal(np.argwhere(rows.last), [[limit, index] for index in range(LANES)])
    assert np.all(rows.discount == 1)


# MinAtar's channels, from its paper's table of games
@pytest.mark.parametrize(
    ("name", "channels", "num_actions"),
    [("asterix", 4, 5), ("breakout", 4, 3), ("freeway", 7, 3), ("seaquest", 10, 6), ("space_invaders", 6, 4)],
)
def test_minatar_games_show_boolean_channels_on_a_grid_of_ten(name, channels, num_actions):
    spec, rows = make(f"minatar/{name}").spec, random_play(f"minatar/{name}")
    assert spec.observation_shape == (10, 10, channels)
    assert spec.observation_dtype == np.bool_
    assert spec.num_actions == num_actions
    assert rows.observation.dtype == np.bool_
    share = rows.observation.mean(axis=(0, 1, 2, 3))  # how often a cell of each channel is on
    assert share.shape == (channels,)
    assert np.all(share < 1)
    assert np.sum(share > 0) >= channels - 1  # a random player may never see one of them
    assert np.all(rows.observation.any(axis=(2, 3, 4)))


# The laws of the toys

RETURNS, HORIZON = 20_000, 40  # beyond 40 steps less than 2^-39 of a reward is left


@functools.cache
def simulator(id: str):
    """Steps from the one state there is, all at once: [T, episodes]."""
    environment = make(id)

    def simulate(key, action):
        reset_key, steps_key = jax.random.split(key)
        state, _ = environment.reset(reset_key)
        keys = jax.random.split(steps_key, (HORIZON, RETURNS))
        return jax.vmap(jax.vmap(lambda step_key: environment.step(step_key, state, action)[1]))(keys)

    return jax.jit(simulate)


@functools.cache
def returns(id: str, action: int = 0) -> np.ndarray:
    """One return per episode at gamma = 1/2, in float64, where 40 fair bits are as good as a uniform number."""
    rows = simulator(id)(jax.random.key(10 + action), np.int32(action))
    rewards, discounts = np.float64(rows.reward), np.float64(rows.discount)
    weights = np.cumprod(np.concatenate([np.ones((1, RETURNS)), 0.5 * discounts[:-1]]), axis=0)  # 0 after the end
    return np.sum(weights * rewards, axis=0)


UNIFORM, NORMAL = stats.uniform(0, 2), stats.norm(0, (4 / 3) ** 0.5)
EXPONENTIAL, LAPLACE = stats.expon(), stats.laplace()
CONTINUOUS = [
    ("toy/uniform", 0, UNIFORM),
    ("toy/normal", 0, NORMAL),
    ("toy/exponential", 0, EXPONENTIAL),
    ("toy/laplace", 0, LAPLACE),
    ("toy/bandit", 0, UNIFORM),
    ("toy/bandit", 1, EXPONENTIAL),
]


@pytest.mark.parametrize(("id", "action", "law"), CONTINUOUS)
def test_returns_of_a_toy_follow_its_law(id, action, law):
    assert stats.kstest(returns(id, action), law.cdf).pvalue > 1e-4
    taus = np.array([0.03, 0.2, 0.5, 0.6, 0.95])
    np.testing.assert_allclose(LAWS[id][action].quantile(taus), law.ppf(taus), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("id", "action", "law"), CONTINUOUS)
def test_returns_of_a_toy_tell_its_law_from_one_ten_per_cent_wider(id, action, law):
    """So that the test above can fail: stretched about 0, every law is refused."""
    assert stats.kstest(1.1 * returns(id, action), law.cdf).pvalue < 1e-4


@pytest.mark.parametrize(
    ("id", "action", "tau", "quantile"),
    [
        ("toy/uniform", 0, 0.25, 0.5),
        ("toy/normal", 0, 0.975, 2.2631716),  # 1.9599640 x sqrt(4/3) = 1.9599640 x 1.1547005
        ("toy/exponential", 0, 0.5, np.log(2)),
        ("toy/laplace", 0, 0.75, np.log(2)),  # each half is an exponential: -ln(2 (1 - tau))
        ("toy/laplace", 0, 0.25, -np.log(2)),
        ("toy/bandit", 0, 0.25, 0.5),
        ("toy/bandit", 1, 0.5, np.log(2)),
        # T <= 1, 2, 3 with probability .25, .4375, .578125; the return after T rewards is 1, 1.5, 1.75
        ("toy/geometric", 0, 0.2, 1.0),
        ("toy/geometric", 0, 0.3, 1.5),
        ("toy/geometric", 0, 0.5, 1.75),
    ],
)
def test_quantiles_of_the_laws_by_hand(id, action, tau, quantile):
    np.testing.assert_allclose(LAWS[id][action].quantile(tau), quantile, rtol=1e-7)


def test_returns_of_the_geometric_toy_are_its_atoms():
    # T rewards with probability (3/4)^(T-1) / 4, worth 1 + 1/2 + ... = 2 (1 - 2^-T); the tail from T = 12 is (3/4)^11
    lengths = np.arange(1, 12)
    atoms, probabilities = 2 * (1 - 0.5**lengths), 0.75 ** (lengths - 1) / 4
    observed = np.array([np.sum(returns("toy/geometric") == atom) for atom in atoms])
    beyond = np.sum(returns("toy/geometric") > atoms[-1])
    assert observed.sum() + beyond == RETURNS  # nothing between the atoms
    expected = RETURNS * np.append(probabilities, 0.75**11)
    assert stats.chisquare(np.append(observed, beyond), expected).pvalue > 1e-4


def test_bandit_arms_have_equal_means_and_unequal_spreads():
    narrow, wide = returns("toy/bandit", 0), returns("toy/bandit", 1)
    # standard errors sqrt(1/3 / 20,000) = .004 and sqrt(1 / 20,000) = .007; variances 4/12 and 1
    np.testing.assert_allclose([narrow.mean(), wide.mean()], [1, 1], atol=0.03)
    np.testing.assert_allclose([narrow.var(), wide.var()], [1 / 3, 1], rtol=0.1)


def test_every_toy_has_a_law_for_each_action():
    assert {id: len(laws) for id, laws in LAWS.items()} == {
        id: make(id).spec.num_actions for id in IDS if id.startswith("toy/")
    }


# Names


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("classic/cartpol", "classic/cartpole"),
        ("minatar/breakot", "minatar/breakout"),
        ("exponential", "toy/exponential"),
    ],
)
def test_unknown_id_is_refused_in_one_line_with_the_nearest_valid_one(wrong, right):
    with pytest.raises(UserError) as error:
        make(wrong)
    assert repr(wrong) in str(error.value)
    assert repr(right) in str(error.value)
    assert "\n" not in str(error.value)
    assert not any(repr(id) in str(error.value) for id in IDS if id != right)


def test_id_like_no_other_is_answered_with_where_to_look():
    with pytest.raises(UserError, match=r"^unknown environment '\?'; `fqf environments` lists them all$"):
        make("?")


def test_own_environments_are_taken_as_they_are():
    own = make("toy/uniform")
    assert make(own) is own
    adapted = make(CartPole())
    assert adapted.spec == make("classic/cartpole").spec._replace(id="custom/CartPole-v1")
