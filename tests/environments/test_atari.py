"""Atari: pixel for pixel what a plain emulator gives, the same from the same seed, and played as the protocol says."""

import dataclasses

import cv2
import numpy as np
import pytest
from reference.plain_atari import PlainAtari

from fqf import environments
from fqf.config import flatten
from fqf.environments.atari import GAMES, PROTOCOLS, AtariConfig, make_atari
from fqf.presets import preset
from fqf.report.scores import published

PLAIN = AtariConfig(noop_max=0)


def play(lanes, actions, seed=3):
    """All timesteps of a sequence of actions, [T + 1]."""
    timesteps = [lanes.init(seed)]
    timesteps += [lanes.step(action.astype(np.int32)) for action in actions]
    lanes.close()
    return timesteps


def random_actions(num_steps, num_lanes, num_actions):
    return np.random.default_rng(0).integers(0, num_actions, (num_steps, num_lanes))


@pytest.mark.parametrize("game", ["breakout", "ms_pacman", "pong", "seaquest", "space_invaders"])
def test_preprocessing_is_that_of_a_plain_emulator(game):
    """Every frame of an episode but the last, whose two newest screens ale-py mixes with older ones when the game ends
    within the four; its value is never asked for, as the return ends there."""
    environment, plain = make_atari(game, PLAIN), PlainAtari(game)
    lanes, expected = environment.make(1, False), plain.reset()
    timestep, score, plain_score, compared = lanes.init(5), 0.0, 0, 0
    rng = np.random.default_rng(1)
    while not timestep.last[0] and compared < 400:
        np.testing.assert_array_equal(timestep.observation[0], expected)
        action = rng.integers(environment.spec.num_actions)
        timestep = lanes.step(np.array([action], np.int32))
        expected, reward, over = plain.step(action)
        score, plain_score, compared = score + timestep.reward[0], plain_score + reward, compared + 1
        assert over == timestep.last[0] == (timestep.discount[0] == 0)
    assert score == plain_score
    assert compared > 150
    lanes.close()


def test_the_same_seed_gives_the_same_game_in_one_lane_and_in_four():
    """With sticky actions on, over the ends of episodes; lanes differ from one another, and so do seeds."""
    environment = make_atari("breakout", AtariConfig(sticky_probability=0.25))
    actions = random_actions(220, 4, 4)
    four, again, one = (play(environment.make(n, False), actions[:, :n]) for n in (4, 4, 1))
    other = play(environment.make(1, False), actions[:, :1], seed=4)
    assert any(timestep.last[0] for timestep in one)
    for a, b, c in zip(four, again, one, strict=True):
        for x, y, z in zip(a, b, c, strict=True):
            np.testing.assert_array_equal(x, y)
            np.testing.assert_array_equal(x[:1], z)
    assert any(not np.array_equal(a.observation[0], a.observation[1]) for a in four[20:])
    assert any(not np.array_equal(a.observation, b.observation) for a, b in zip(one[20:], other[20:], strict=True))


def test_rows_between_episodes():
    """o ... o* | o: the row after `last` is a first one, with reward 0 and discount 1, in its lane only."""
    environment = make_atari("breakout", PLAIN)
    timesteps = play(environment.make(3, False), random_actions(300, 3, 4))
    ends = [(t, lane) for t in range(300) for lane in range(3) if timesteps[t].last[lane]]
    assert len({t for t, _ in ends}) > 1
    for t, lane in ends:
        first = timesteps[t + 1]
        assert (first.reward[lane], first.discount[lane], first.last[lane]) == (0, 1, False)
        assert timesteps[t].discount[lane] == 0
    episodes = play_and_count(environment)
    assert len(episodes) == len(ends)


def play_and_count(environment):
    lanes = environment.make(3, False)
    play(lanes, random_actions(300, 3, 4))
    return lanes.episodes


def test_one_lane_plays_by_turns_on_two_emulators_what_it_plays_beside_another():
    """Of two lanes each is reset in its place; a lone one was made ready before. A second run was not foreseen."""
    environment = make_atari("breakout", AtariConfig(sticky_probability=0.25))
    alone, pair = environment.make(1, False), environment.make(2, False)
    on_stage = []
    for seed in (5, 6):
        one, two, ends = alone.init(seed), pair.init(seed), 0
        for action in random_actions(700, 2, 4):
            on_stage.append(alone._emulator._playing)
            one, two = alone.step(action[:1]), pair.step(action)
            ends += one.last[0]
            for found, expected in zip(one, two, strict=True):
                np.testing.assert_array_equal(found, expected[:1])
        assert ends >= 2
    assert len(set(on_stage)) == 2
    for lanes in (alone, pair):
        lanes.close()


def test_sticky_actions_are_what_the_protocol_says():
    """Without them two seeds differ by nothing (no no-ops either); with them they soon do."""
    actions = random_actions(60, 1, 6)
    for probability, same in ((0.0, True), (0.25, False)):
        environment = make_atari("pong", AtariConfig(noop_max=0, sticky_probability=probability))
        one, other = (play(environment.make(1, False), actions, seed) for seed in (1, 2))
        assert all(np.array_equal(a.observation, b.observation) for a, b in zip(one, other, strict=True)) is same


def frames_at_start(config, seeds=range(20)):
    """Emulator frames already played when an episode begins."""
    lanes = make_atari("pong", config).make(1, False)
    emulators = lanes._emulator._playing._emulators
    return [int(emulators.reset(seed=np.array([seed]))[1]["episode_frame_number"][0]) for seed in seeds]


def test_no_ops_frame_skip_and_cap_are_the_emulators_own():
    assert frames_at_start(AtariConfig(noop_max=0), range(5)) == [0] * 5
    noops = frames_at_start(AtariConfig(noop_max=30))
    assert 0 <= min(noops) < 10 < 20 < max(noops) <= 30
    environment = make_atari("pong", AtariConfig(noop_max=0, frame_skip=3, episode_cap_frames=30))
    timesteps = play(environment.make(1, False), np.zeros((11, 1), int))
    assert [t for t, timestep in enumerate(timesteps) if timestep.last[0]] == [10]
    assert timesteps[10].discount[0] == 1  # cut, not lost
    assert environment.frame_skip == 3


def test_fire_and_the_full_set_of_actions():
    assert make_atari("breakout", PLAIN).spec.num_actions == 4
    assert make_atari("breakout", AtariConfig(full_action_space=True)).spec.num_actions == 18
    still = np.zeros((3, 1), int)
    waiting, fired = (
        play(make_atari("breakout", AtariConfig(noop_max=0, fire_on_reset=fire)).make(1, False), still)
        for fire in (False, True)
    )
    assert not np.array_equal(waiting[-1].observation, fired[-1].observation)  # the ball is on its way


def test_a_lost_life_ends_the_return_but_not_the_episode_if_asked_for():
    actions = random_actions(300, 1, 4)
    for life_loss, ends in ((False, 0), (True, 4)):
        environment = make_atari("breakout", AtariConfig(noop_max=0, life_loss=life_loss))
        timesteps = play(environment.make(1, False), actions)
        first = next(t for t, timestep in enumerate(timesteps) if timestep.last[0])
        assert sum(timestep.discount[0] == 0 for timestep in timesteps[:first]) == ends


@pytest.mark.parametrize(
    ("protocol", "sticky", "noops", "cap"),
    [("paper", 0.0, True, 108_000), ("machado", 0.25, False, 18_000), ("dopamine", 0.25, False, 108_000)],
)
def test_a_protocol_reaches_the_emulator(protocol, sticky, noops, cap):
    """Read off the emulator itself, or off how it plays."""
    config = preset("fqf", "atari/pong", protocol).environment
    lanes = environments.make("atari/pong", config).make(1, False)
    emulator = lanes._emulator._playing._emulators.ale
    starts = frames_at_start(config)
    assert (max(starts) > 10) is noops
    assert len(emulator.get_action_set()) == 6
    # Two seeds from the same start differ by sticky actions alone.
    still = dataclasses.replace(config, noop_max=0)
    one, other = (play(make_atari("pong", still).make(1, False), random_actions(60, 1, 6), seed) for seed in (1, 2))
    same = all(np.array_equal(a.observation, b.observation) for a, b in zip(one, other, strict=True))
    assert same is (sticky == 0)
    assert (config.sticky_probability, config.episode_cap_frames, config.frame_skip) == (sticky, cap, 4)
    assert (config.life_loss, config.fire_on_reset, config.full_action_space) == (False, False, False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_sets_all_that_it_names(protocol):
    options = flatten(preset("fqf", "atari/pong", protocol))
    assert {name: options[name] for name in PROTOCOLS[protocol]} == PROTOCOLS[protocol]
    assert set(flatten(AtariConfig())) - {"protocol"} <= set(PROTOCOLS[protocol])
    assert (options["protocol"], options["frame_stack"], options["clip_rewards"]) == (protocol, 4, True)
    expected = {"paper": (0.0, 30, 108_000), "machado": (0.25, 0, 18_000), "dopamine": (0.25, 0, 108_000)}
    assert (
        tuple(options[name] for name in ("sticky_probability", "noop_max", "episode_cap_frames")) == expected[protocol]
    )


def test_every_game_of_the_paper_is_there():
    assert len(published()) == 55
    assert set(published()) <= set(GAMES)
    assert all(f"atari/{game}" in environments.IDS for game in GAMES)


def test_a_visible_lane_shows_its_own_game():
    """The picture in colour is that of the same frame: its luminance, resized, is the grey one but for rounding."""
    lanes = make_atari("breakout", PLAIN).make(1, True)
    lanes.init(0)
    for action in random_actions(100, 1, 4):
        timestep = lanes.step(action.astype(np.int32))
    picture = lanes.render()
    assert (picture.shape, picture.dtype) == ((210, 160, 3), np.uint8)
    grey = cv2.resize((picture @ [0.299, 0.587, 0.114]).astype(np.uint8), (84, 84), interpolation=cv2.INTER_AREA)
    assert np.abs(grey.astype(int) - timestep.observation[0]).mean() < 2
    assert timestep.observation[0].mean() > 10
    lanes.close()
