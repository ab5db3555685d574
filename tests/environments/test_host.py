"""Lanes over an emulator made by hand, and Gymnasium environments."""

import gymnasium
import numpy as np
import pytest

import fqf
from fqf import environments
from fqf.environments.gymnasium import GymnasiumConfig, adapt
from fqf.environments.host import Arrivals, Lanes, episode_seed
from fqf.errors import UserError


class Script:
    """Lane k plays episodes of k + 2 steps; an observation is (lane, seed of the episode, time)."""

    def __init__(self, num_lanes):
        self.seed, self.time = np.zeros(num_lanes, int), np.zeros(num_lanes, int)
        self.foretold = {}

    def observe(self):
        return np.stack([np.arange(len(self.time)), self.seed, self.time], axis=1)

    def reset(self, lanes, seeds, following):
        for lane, seed, next_seed in zip(np.flatnonzero(lanes), seeds, following, strict=True):
            assert self.foretold.get(lane, seed) == seed
            self.foretold[lane] = next_seed
        self.seed[lanes], self.time[lanes] = seeds, 0
        return self.observe()

    def step(self, action, playing):
        self.time += 1  # a finished lane too: what it does must not be seen
        last = self.time >= np.arange(len(self.time)) + 2
        return Arrivals(self.observe(), action * 1.0, last & (action > 0), last)

    def render(self):
        return None

    def close(self): ...


def test_lanes_start_episodes_with_their_own_seeds_and_count_them():
    lanes = Lanes("test/script", Script(3), 3)
    rows = [lanes.init(7)]
    rows += [lanes.step(np.array([1, 0, 2])) for _ in range(11)]
    for lane, (length, reward) in enumerate([(2, 1), (3, 0), (4, 2)]):
        for t, row in enumerate(rows):
            episode, time = divmod(t, length + 1)
            expected = (lane, episode_seed(7, lane, episode), time)
            np.testing.assert_array_equal(row.observation[lane], expected)
            assert row.reward[lane] == (reward if time else 0)
            assert row.last[lane] == (time == length)
            assert row.discount[lane] == (0 if time == length and reward else 1)
    assert sorted(lanes.episodes) == sorted([(2, 2)] * 4 + [(0, 3)] * 3 + [(8, 4)] * 2)
    assert (rows[0].reward.dtype, rows[0].discount.dtype, rows[0].last.dtype) == (np.float32, np.float32, bool)


def test_episode_seeds_differ_by_run_lane_and_number():
    seeds = {episode_seed(*place) for place in np.ndindex(5, 5, 5)}
    assert len(seeds) == 125
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_gymnasium_tells_truncation_from_termination():
    """MountainCar under random play is cut at 200 steps; CartPole falls."""
    for id, discount in (("MountainCar-v0", 1), ("CartPole-v1", 0)):
        lanes = environments.make(f"gym/{id}").make(2, False)
        timestep, rng = lanes.init(0), np.random.default_rng(0)
        while not timestep.last.any():
            timestep = lanes.step(rng.integers(0, 2, 2))
        lane = int(np.argmax(timestep.last))
        assert timestep.discount[lane] == discount
        lanes.close()


def test_gymnasium_lanes_equal_the_environment_itself():
    spec = environments.make("gym/CartPole-v1").spec
    assert (spec.observation_shape, spec.observation_dtype, spec.num_actions) == ((4,), np.float32, 2)
    lanes, env = environments.make("gym/CartPole-v1").make(1, False), gymnasium.make("CartPole-v1")
    timestep, episode = lanes.init(9), 0
    expected = env.reset(seed=episode_seed(9, 0, 0))[0]
    for action in np.random.default_rng(0).integers(0, 2, 80):
        np.testing.assert_array_equal(timestep.observation[0], expected)
        if timestep.last[0]:
            episode += 1
            expected = env.reset(seed=episode_seed(9, 0, episode))[0]
        else:
            expected = env.step(int(action))[0]
        timestep = lanes.step(np.array([action]))
    assert episode > 1


class Dice(gymnasium.Env):
    """Three actions that start at -1, images, and a step that may raise."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(0, 255, (40, 36, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3, start=-1)

    def __init__(self, render_mode=None, fails=False):
        self.render_mode, self._fails, self.seen = render_mode, fails, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.low, {}

    def step(self, action):
        if self._fails:
            raise RuntimeError("the die fell off the table")
        assert self.action_space.contains(action)
        return self.observation_space.high, float(action), False, action == 1, {}

    def render(self):
        return np.zeros((8, 9, 3), np.uint8)


def test_actions_start_where_the_space_does_and_pictures_come_when_asked_for():
    environment = adapt(Dice, "custom/dice")
    assert environment.spec.observation_dtype == np.uint8
    lanes = environment.make(2, True)
    lanes.init(0)
    timestep = lanes.step(np.array([0, 2]))
    np.testing.assert_array_equal(timestep.reward, [-1, 1])
    np.testing.assert_array_equal(timestep.last, [False, True])
    assert lanes.render().shape == (8, 9, 3)
    assert environment.make(1, False).render() is None


def test_an_episode_without_an_end_of_its_own_is_truncated():
    lanes = environments.make("gym/Acrobot-v1", GymnasiumConfig(episode_cap_steps=7)).make(2, False)
    lanes.init(0)
    rows = [lanes.step(np.zeros(2, int)) for _ in range(16)]
    assert [t for t, row in enumerate(rows) if row.last.any()] == [6, 14]  # seven steps, then a reset
    assert all(row.last.all() and row.discount.all() for row in (rows[6], rows[14]))


def test_an_environment_that_raises_is_named():
    lanes = adapt(lambda **_: Dice(fails=True), "custom/dice").make(1, False)
    lanes.init(0)
    with pytest.raises(UserError, match=r"^custom/dice raised in step: RuntimeError: the die fell off the table$"):
        lanes.step(np.array([0]))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("gym/Pendulum-v1", r"action space Box.*Discrete"),
        ("gym/Blackjack-v1", r"observation space Tuple.*need a Box"),
        ("gym/CartPoll-v1", r"unknown environment 'gym/CartPoll-v1'; did you mean 'gym/CartPole-v1'\?"),
        ("gym/no_such_module:Env-v0", r"can't import 'no_such_module'"),
        ("atari/brakeout", r"did you mean 'atari/breakout'\?"),
    ],
)
def test_what_can_not_be_played_is_told_in_one_line(env, message):
    with pytest.raises(UserError, match=message) as caught:
        environments.make(env)
    assert "\n" not in str(caught.value)


def test_an_environment_is_given_as_a_function_not_as_an_object():
    with pytest.raises(UserError, match="a function that makes the environment"):
        environments.make(Dice())


def test_a_gymnasium_environment_of_ones_own_is_trained_from_python(tmp_path):
    options = {"steps": 300, "learning_starts_steps": 100, "hidden": 8, "torso_layers": (6,), "batch_size": 8}
    options |= {"evaluation_episodes": 5, "evaluate_every_steps": 1000, "log_every_steps": 100, "lanes": 2}
    options |= {"num_fractions": 3, "quiet": True}

    def corridor():
        return gymnasium.make("CartPole-v1", max_episode_steps=20)

    run = fqf.train(corridor, runs=tmp_path, **options)
    assert run.path.parts[-3:-1] == ("fqf", "custom.corridor")
    assert run.after.episodes == 5
    assert run.after.maximum <= 20
    again = fqf.train(corridor, runs=tmp_path / "again", **options)
    files = ("metrics.jsonl", "evaluations.csv", "policy/params.safetensors")
    assert all((run.path / name).read_bytes() == (again.path / name).read_bytes() for name in files)
    assert fqf.evaluate(fqf.load(run.path), corridor, episodes=3).episodes == 3
