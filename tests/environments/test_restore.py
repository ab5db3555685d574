"""Lanes that stand again where they stood: every unfinished episode is played again from its seed and its actions."""

import json

import gymnasium
import numpy as np
import pytest

from fqf import environments
from fqf.environments.atari import AtariConfig
from fqf.types import HostEnvironment, HostLanes, Timestep


def play(lanes: HostLanes, rng: np.random.Generator, num_lanes: int, num_actions: int, steps: int) -> list[Timestep]:
    return [lanes.step(rng.integers(0, num_actions, num_lanes)) for _ in range(steps)]


def assert_same(first: list[Timestep], second: list[Timestep]) -> None:
    for one, other in zip(first, second, strict=True):
        for leaf, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(leaf, same)


def check_restored(environment: HostEnvironment, num_lanes: int, before: int, after: int) -> None:
    """Play on, in the old lanes and in new ones that were put where the old ones stood."""
    num_actions = environment.spec.num_actions
    rng = np.random.default_rng(3)
    old = environment.make(num_lanes, False)
    old.init(11)
    stood = play(old, rng, num_lanes, num_actions, before)[-1].observation
    memento = json.loads(json.dumps(old.memento()))
    new = environment.make(num_lanes, False)
    np.testing.assert_array_equal(new.restore(memento), stood)
    actions = np.random.default_rng(4), np.random.default_rng(4)
    old.episodes.clear()
    assert_same(
        *(play(lanes, rng, num_lanes, num_actions, after) for lanes, rng in zip((old, new), actions, strict=True))
    )
    assert old.episodes == new.episodes
    assert old.episodes  # an episode ended, so totals, seeds and numbers of episodes were compared, too
    old.close()
    new.close()


@pytest.mark.parametrize("game", ["breakout", "pong", "qbert"])
@pytest.mark.parametrize("before", [1, 137])
def test_atari_with_sticky_actions_no_ops_and_lost_lives(game, before):
    config = AtariConfig(sticky_probability=0.25, noop_max=30, life_loss=True, episode_cap_frames=400)
    check_restored(environments.make(f"atari/{game}", config), num_lanes=3, before=before, after=220)


@pytest.mark.parametrize("before", [1, 61, 150])
def test_gymnasium_environments(before):
    check_restored(environments.make("gym/CartPole-v1"), num_lanes=3, before=before, after=80)


def test_a_lane_that_has_just_ended_starts_its_next_episode():
    environment = environments.make("gym/CartPole-v1")
    lanes = environment.make(2, False)
    lanes.init(5)
    while not (timestep := lanes.step(np.zeros(2, int))).last.any():
        pass
    again = environment.make(2, False)
    np.testing.assert_array_equal(again.restore(lanes.memento()), timestep.observation)
    assert_same([lanes.step(np.ones(2, int))], [again.step(np.ones(2, int))])


class Unruly(gymnasium.Env):
    """Not even the seed tells what it will do."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    wild = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        return self.wild.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.wild.uniform(-1, 1, 2).astype(np.float32), 0.0, False, False, {}


def test_an_environment_that_does_not_repeat_itself_does_not_stand_where_it_stood():
    environment = environments.make(Unruly)
    lanes = environment.make(1, False)
    lanes.init(0)
    here = lanes.step(np.zeros(1, int)).observation
    assert not np.array_equal(environment.make(1, False).restore(lanes.memento()), here)
