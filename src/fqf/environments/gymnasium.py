"""Any Gymnasium environment with a discrete action space and a box of observations, by id or as a function."""

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from fqf.environments.host import Arrivals, Lanes
from fqf.errors import UserError, nearest
from fqf.types import EnvironmentSpec, HostEnvironment

MakeEnv = Callable[..., gymnasium.Env[Any, Any]]
"""Makes the environment; called with render_mode="rgb_array" for a video, if its metadata has that mode."""


@dataclass(frozen=True)
class GymnasiumConfig:
    """How a Gymnasium environment is played."""

    episode_cap_steps: int = 27_000
    """Steps after which an episode is truncated, if the environment has not ended it: evaluations must end."""


def make_gymnasium(id: str, config: GymnasiumConfig | None = None) -> HostEnvironment:
    """`id` is Gymnasium's own, such as LunarLander-v3, or module:Name-v0 to import a module that registers it."""
    module, _, name = id.rpartition(":")
    if module:
        here = str(Path.cwd())
        if here not in sys.path:  # as `python -m` has it, and an installed command has not
            sys.path.insert(0, here)
        try:
            importlib.import_module(module)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"can't import {module!r}, which is to register gym/{id}: {reason}") from None
    if name not in gymnasium.registry:
        near = nearest(name, tuple(gymnasium.registry))
        found = near.startswith("did you mean")
        advice = near.replace("'", "'gym/", 1) if found else "gymnasium.pprint_registry() lists those there are"
        raise UserError(f"unknown environment 'gym/{id}'; {advice}")
    return adapt(functools.partial(_make, name), f"gym/{id}", config)


def _make(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium warns of newer versions of what was asked for by name
            return gymnasium.make(name, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"gym/{name} needs a package that is not installed: {error}") from None
    except Exception as error:
        raise UserError(f"gym/{name} can't be made: {type(error).__name__}: {error}") from None


def adapt(make: MakeEnv, id: str, config: GymnasiumConfig | None = None) -> HostEnvironment:
    """A function that makes the environment, for lanes of it."""
    cap, one = (config or GymnasiumConfig()).episode_cap_steps, make()
    try:
        spec = EnvironmentSpec(id, *_observations(one, id), _num_actions(one, id))
        pictures = "rgb_array" in (one.metadata or {}).get("render_modes", ())
    finally:
        one.close()

    def make_lanes(num_lanes: int, visible: bool) -> Lanes:
        options = {"render_mode": "rgb_array"} if visible and pictures else {}
        return Lanes(id, Gymnasium([make(**options) for _ in range(num_lanes)], spec, cap), num_lanes)

    return HostEnvironment(spec, make_lanes)


def _num_actions(env: gymnasium.Env[Any, Any], id: str) -> int:
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise UserError(f"{id} has the action space {space}; these agents choose among a finite number: Discrete(n)")
    return int(space.n)


def _observations(env: gymnasium.Env[Any, Any], id: str) -> tuple[tuple[int, ...], np.dtype]:
    space = env.observation_space
    if not isinstance(space, gymnasium.spaces.Box) or not space.shape:
        raise UserError(f"{id} has the observation space {space}; the networks need a Box, a vector or an image")
    kept = space.dtype is not None and space.dtype in (np.uint8, np.bool_)
    return tuple(space.shape), np.dtype(space.dtype if kept else np.float32)


class Gymnasium:
    """An `Emulator`: one environment per lane, stepped in turn."""

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]], spec: EnvironmentSpec, cap: int) -> None:
        self._envs, self._cap, self._length = envs, cap, np.zeros(len(envs), int)
        self._first_actions = [getattr(env.action_space, "start", 0) for env in envs]
        self._observation = np.zeros((len(envs), *spec.observation_shape), spec.observation_dtype)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray, following: np.ndarray) -> np.ndarray:
        self._length[lanes] = 0
        for lane, seed in zip(np.flatnonzero(lanes).tolist(), seeds, strict=True):
            self._observation[lane] = self._envs[lane].reset(seed=int(seed))[0]
        return self._observation.copy()

    def step(self, action: np.ndarray, playing: np.ndarray) -> Arrivals:
        reward = np.zeros(len(self._envs))
        terminated, truncated = np.zeros((2, len(self._envs)), bool)
        for lane in np.flatnonzero(playing).tolist():
            self._observation[lane], reward[lane], terminated[lane], truncated[lane], _ = self._envs[lane].step(
                int(action[lane] + self._first_actions[lane])
            )
        self._length += playing
        return Arrivals(
            self._observation.copy(), reward, terminated, terminated | truncated | (self._length >= self._cap)
        )

    def render(self) -> np.ndarray | None:
        picture: Any = self._envs[0].render() if self._envs[0].render_mode == "rgb_array" else None
        return None if picture is None else np.asarray(picture, np.uint8)

    def close(self) -> None:
        for env in self._envs:
            env.close()
