"""Atari 2600 games on ale-py's vectorised emulator, by the published protocols."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv

from fqf.environments.host import Arrivals, Lanes
from fqf.types import EnvironmentSpec, HostEnvironment

ALEInterface.setLoggerMode(LoggerMode.Error)
GAMES = tuple(sorted(roms.get_all_rom_ids()))
SIDE = 84


@dataclass(frozen=True)
class AtariConfig:
    """How a game is played and scored. --protocol sets all of it; an option given beside it overrides that one."""

    protocol: Literal["paper", "machado", "dopamine"] = "paper"
    """Published protocol; docs/protocols.md has their table."""
    noop_max: int = 30
    """An episode starts with up to so many no-ops, their number drawn from its seed."""
    sticky_probability: float = 0.0
    """Chance per frame that the emulator repeats the last action in place of the new one."""
    life_loss: bool = False
    """Whether a lost life ends the return (the episode goes on)."""
    fire_on_reset: bool = False
    """Whether an episode starts with FIRE, where the game has it."""
    full_action_space: bool = False
    """All 18 actions, not only those that do something in the game."""
    frame_skip: int = 4
    """Emulator frames per agent step; the last two are max-pooled."""
    episode_cap_frames: int = 108_000
    """Frames after which an episode is truncated: half an hour of play."""
    score: Literal["evaluation", "training"] = "evaluation"
    """What is reported: the frozen policy's evaluations, or the returns of the training episodes themselves."""
    score_window_episodes: int = 0
    """Training scores are the mean of so many last episodes; 0: of all that ended since the last report."""


# What a protocol fixes, of the emulator and of the run. Paper: FQF section 4, and the authors' code on Dopamine.
# Machado: Machado et al. 2018, section 5. Dopamine: its published baselines (Castro et al. 2018).
PROTOCOLS: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "paper": {
            "noop_max": 30,
            "sticky_probability": 0.0,
            "episode_cap_frames": 108_000,
            "score": "evaluation",
            "score_window_episodes": 0,
            "evaluation_epsilon": 0.001,
        },
        "machado": {
            "noop_max": 0,
            "sticky_probability": 0.25,
            "episode_cap_frames": 18_000,
            "score": "training",
            "score_window_episodes": 100,
            "evaluation_epsilon": 0.01,
        },
        "dopamine": {
            "noop_max": 0,
            "sticky_probability": 0.25,
            "episode_cap_frames": 108_000,
            "score": "training",
            "score_window_episodes": 0,
            "evaluation_epsilon": 0.001,
        },
    }
)
# The same in all three.
for _protocol in PROTOCOLS.values():
    _protocol |= {"life_loss": False, "fire_on_reset": False, "full_action_space": False, "frame_skip": 4}
    _protocol |= {"exploration_epsilon": 0.01, "evaluation_steps": 125_000, "evaluate_every_steps": 250_000}
    _protocol |= {"exploration_decay_steps": 250_000, "clip_rewards": True, "frame_stack": 4, "steps": 50_000_000}


def make_atari(game: str, config: AtariConfig) -> HostEnvironment:
    emulators = _emulators(game, 1, config)
    spec = EnvironmentSpec(f"atari/{game}", (SIDE, SIDE), np.dtype("uint8"), len(emulators.ale.get_action_set()))
    emulators.close()

    def make(num_lanes: int, visible: bool) -> Lanes:
        emulators = [Atari(game, num_lanes, config, visible) for _ in range(2 if num_lanes == 1 else 1)]
        return Lanes(spec.id, Understudied(*emulators) if num_lanes == 1 else emulators[0], num_lanes)

    return HostEnvironment(spec, make, config.frame_skip)


def _emulators(game: str, num_lanes: int, config: AtariConfig, colour: bool = False) -> AtariVectorEnv:
    """Frames come one by one and rewards as they are: stacks are made from the replay, clipping is the learner's."""
    height, width = (SIDE, SIDE) if not colour else (210, 160)
    return AtariVectorEnv(
        game,
        num_lanes,
        max_num_frames_per_episode=config.episode_cap_frames,
        repeat_action_probability=config.sticky_probability,
        full_action_space=config.full_action_space,
        img_height=height,
        img_width=width,
        grayscale=not colour,
        stack_num=1,
        frameskip=config.frame_skip,
        maxpool=True,
        noop_max=config.noop_max,
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
        use_fire_reset=config.fire_on_reset,
    )


class Atari:
    """An `Emulator`. ale-py starts a new episode by itself on the step after an end, from a seed that is not ours:
    that step only keeps the lanes together, and `reset` starts the episode again from its own seed."""

    def __init__(self, game: str, num_lanes: int, config: AtariConfig, visible: bool = False) -> None:
        self._emulators, self._life_loss = _emulators(game, num_lanes, config), config.life_loss
        # The same seeds and actions give the same game: a twin in colour shows what the first lane plays.
        self._twin = _emulators(game, 1, config, colour=True) if visible else None
        self._picture: np.ndarray | None = None
        self._started = False
        self._lives = np.zeros(num_lanes, int)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray, following: np.ndarray) -> np.ndarray:
        options = {"reset_mask": lanes} if self._started else None
        observation: np.ndarray
        observation, info = self._emulators.reset(seed=seeds, options=options)
        if self._twin is not None and lanes[0]:
            self._picture = self._twin.reset(seed=seeds[:1])[0][0, 0]
        self._started, self._lives = True, info["lives"].copy()
        return observation[:, 0]

    def step(self, action: np.ndarray, playing: np.ndarray) -> Arrivals:
        observation, reward, terminated, truncated, info = self._emulators.step(action)
        if self._twin is not None:
            self._picture = self._twin.step(action[:1])[0][0, 0]
        lost = info["lives"] < self._lives if self._life_loss else False
        self._lives = info["lives"].copy()
        return Arrivals(observation[:, 0], reward, terminated | lost, terminated | truncated)

    def render(self) -> np.ndarray | None:
        return self._picture

    def close(self) -> None:
        self._emulators.close()
        if self._twin is not None:
            self._twin.close()


class Understudied:
    """An `Emulator` of one lane on two emulators by turns: while one plays, the other makes the next episode ready.

    For a seed of its own an episode needs the game loaded anew, which takes ale-py as long as 200 steps of play; most
    of that goes into a table of colours that is not used (docs/decisions/0010-speed.md).
    """

    def __init__(self, first: Atari, second: Atari) -> None:
        self._playing, self._waiting = first, second
        self._thread = ThreadPoolExecutor(1)
        self._ready: Future[np.ndarray] | None = None
        self._seeds = np.zeros(0)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray, following: np.ndarray) -> np.ndarray:
        if self._ready is not None:
            observation = self._ready.result()
            self._playing, self._waiting = self._waiting, self._playing
        if self._ready is None or not np.array_equal(seeds, self._seeds):  # not what was foretold: another run
            observation = self._playing.reset(lanes, seeds, following)
        self._seeds, self._ready = following, self._thread.submit(self._waiting.reset, lanes, following, following)
        return observation

    def step(self, action: np.ndarray, playing: np.ndarray) -> Arrivals:
        return self._playing.step(action, playing)

    def render(self) -> np.ndarray | None:
        return self._playing.render()

    def close(self) -> None:
        self._thread.shutdown()
        self._playing.close()
        self._waiting.close()
