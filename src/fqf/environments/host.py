"""Lanes that play outside compiled programs: episodes, their seeds and their ends, whatever emulates them."""

import threading
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import jax
import numpy as np

from fqf.errors import Stopped, UserError
from fqf.types import Environment, FinishedEpisode, HostEnvironment, HostLanes, Timestep


class Arrivals(NamedTuple):
    """What the lanes that play have reached; rows of lanes that do not are ignored."""

    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    """The return ends here. The episode too, unless the protocol counts a lost life as one."""
    last: np.ndarray
    """The episode ends here, by termination or truncation."""


@runtime_checkable
class Emulator(Protocol):
    """Several copies of one environment, without automatic resets."""

    def reset(self, lanes: np.ndarray, seeds: np.ndarray, following: np.ndarray) -> np.ndarray:
        """Start an episode in every lane of a mask, each with its own seed; observations of all lanes. The seeds of
        the episodes that will follow in these lanes are known, for those who can make ready what is not yet played."""

    def step(self, action: np.ndarray, playing: np.ndarray) -> Arrivals: ...

    def render(self) -> np.ndarray | None: ...

    def close(self) -> None: ...


class Lanes:
    """The contract of `HostLanes` over an emulator: the step after `last` is a reset, whatever the action.

    Every episode has its own seed, so that an unfinished one can be played again from its actions alone.
    """

    def __init__(self, id: str, emulator: Emulator, num_lanes: int) -> None:
        self.episodes: list[FinishedEpisode] = []
        self._id, self._emulator, self._num_lanes = id, emulator, num_lanes

    def init(self, seed: int) -> Timestep:
        self._seed, self._episode = seed, np.zeros(self._num_lanes, int)
        self._total, self._last = np.zeros(self._num_lanes), np.ones(self._num_lanes, bool)
        self._actions: list[list[int]] = [[] for _ in range(self._num_lanes)]
        return self._start(None)

    def step(self, action: np.ndarray) -> Timestep:
        playing = ~self._last
        arrivals = self._emulate(action, playing) if playing.any() else None
        for taken, one in zip(self._actions, action.tolist(), strict=True):
            taken.append(one)
        if arrivals is None or not playing.all():
            return self._start(arrivals)
        reward = arrivals.reward.astype(np.float32)
        self._total = self._total + reward
        return self._arrive(arrivals.observation, reward, arrivals.terminated, arrivals.last)

    def _start(self, arrivals: Arrivals | None) -> Timestep:
        """New episodes in the lanes whose last one has ended; the others, if there are any, have arrived as usual."""
        first = self._last
        observation = self._reset(first)
        self._episode += first
        for lane in np.flatnonzero(first):
            self._actions[lane] = []
        reward = np.zeros(self._num_lanes, np.float32)
        terminated, last = np.zeros((2, self._num_lanes), bool)
        if arrivals is not None:
            rows = first.reshape(-1, *(1,) * (observation.ndim - 1))
            observation = np.where(rows, observation, arrivals.observation)
            reward[~first] = arrivals.reward[~first]
            terminated, last = arrivals.terminated & ~first, arrivals.last & ~first
        self._total = np.where(first, 0, self._total + reward)
        return self._arrive(observation, reward, terminated, last)

    def _arrive(self, observation: Any, reward: Any, terminated: np.ndarray, last: Any) -> Timestep:
        """NumPy's arrays stand in for JAX's until a compiled function takes them."""
        if last.any():
            for lane in np.flatnonzero(last):
                self.episodes.append(FinishedEpisode(float(self._total[lane]), len(self._actions[lane])))
        self._last, discount = last, (~terminated).astype(np.float32)
        return Timestep(observation, reward, cast(Any, discount), last)

    def _emulate(self, action: np.ndarray, playing: np.ndarray) -> Arrivals:
        try:
            return self._emulator.step(action, playing)
        except Exception as error:
            raise UserError(f"{self._id} raised in step: {type(error).__name__}: {error}") from error

    def _reset(self, lanes: np.ndarray) -> np.ndarray:
        """Start the episodes that `_episode` counts next."""
        numbers = [(int(lane), int(self._episode[lane])) for lane in np.flatnonzero(lanes)]
        seeds = np.array([episode_seed(self._seed, lane, number) for lane, number in numbers])
        following = np.array([episode_seed(self._seed, lane, number + 1) for lane, number in numbers])
        try:
            return self._emulator.reset(lanes, seeds, following)
        except Exception as error:
            raise UserError(f"{self._id} raised in reset: {type(error).__name__}: {error}") from error

    def memento(self) -> dict[str, Any]:
        arrays = {"episode": self._episode, "last": self._last, "total": self._total}
        return {"seed": self._seed, "actions": self._actions} | {name: each.tolist() for name, each in arrays.items()}

    def restore(self, memento: dict[str, Any]) -> np.ndarray:
        """Every lane plays its unfinished episode again: those begun later wait for their turn, so that all arrive
        together.

            lane 0:   reset a0 a1 a2 a3 |
            lane 1:     ... .. reset a0 |       what it does before its reset is of no account
        """
        self._seed, self._actions = memento["seed"], [list(taken) for taken in memento["actions"]]
        self._last, self._total = np.array(memento["last"]), np.array(memento["total"])
        self._episode = np.array(memento["episode"]) - 1  # to be started once more
        taken = np.array([len(actions) for actions in self._actions])
        horizon = int(taken.max())
        begun, observation = horizon - taken, self._reset(np.ones(self._num_lanes, bool))
        for time in range(horizon):
            action = [
                actions[time - start] if time >= start else 0
                for actions, start in zip(self._actions, begun, strict=True)
            ]
            observation = self._emulate(np.array(action), begun <= time).observation
            if (starting := begun == time + 1).any():
                rows = starting.reshape(-1, *(1,) * (observation.ndim - 1))
                observation = np.where(rows, self._reset(starting), observation)
        self._episode += 1
        return observation

    def render(self) -> np.ndarray | None:
        try:
            return self._emulator.render()
        except Exception as error:
            raise UserError(f"{self._id} raised in render: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        self._emulator.close()


def episode_seed(seed: int, lane: int, episode: int) -> int:
    """31 bits that follow from the run's seed, the lane and the number of the episode in it."""
    return int(np.random.SeedSequence((seed, lane, episode)).generate_state(1)[0]) >> 1


class Stoppable:
    """`HostLanes` that raise `Stopped` instead of playing on, once an event is set."""

    def __init__(self, lanes: HostLanes, stop: threading.Event) -> None:
        self._lanes, self._stop = lanes, stop
        self.episodes, self.init, self.render, self.close = lanes.episodes, lanes.init, lanes.render, lanes.close
        self.memento, self.restore = lanes.memento, lanes.restore

    def step(self, action: np.ndarray) -> Timestep:
        if self._stop.is_set():
            raise Stopped
        return self._lanes.step(action)


def stoppable(environment: HostEnvironment, stop: threading.Event) -> HostEnvironment:
    return environment._replace(make=lambda num_lanes, visible: Stoppable(environment.make(num_lanes, visible), stop))


class Tally:
    """Returns and lengths of the episodes that lanes play. (`Lanes`, which can be resumed, derives both.)"""

    def __init__(self, num_lanes: int) -> None:
        self._total, self._length = np.zeros(num_lanes), np.zeros(num_lanes, int)
        self._first = np.zeros(num_lanes, bool)

    def add(self, arrival: Timestep) -> list[tuple[int, FinishedEpisode]]:
        """The episodes that end with it, by lane; the step after an end is a reset, and counts for nothing."""
        self._total = np.where(self._first, 0, self._total + arrival.reward)
        self._length = np.where(self._first, 0, self._length + 1)
        self._first = np.asarray(arrival.last)
        ended = np.flatnonzero(self._first).tolist()
        return [(lane, FinishedEpisode(float(self._total[lane]), int(self._length[lane]))) for lane in ended]


class Hosted:
    """`HostLanes` of an environment that could also run inside a compiled program: for videos, and for tests."""

    def __init__(self, environment: Environment) -> None:
        self.episodes: list[FinishedEpisode] = []
        self._init, self._step = jax.jit(environment.init), jax.jit(environment.step)
        self._actions: list[list[int]] = []

    def init(self, seed: int) -> Timestep:
        self._seed, self._actions = seed, []
        self._state, timestep = self._init(jax.random.key(seed))
        return self._begin(timestep)

    def _begin(self, timestep: Timestep) -> Timestep:
        self._tally = Tally(len(timestep.last))
        return jax.tree.map(np.asarray, timestep)

    def step(self, action: np.ndarray) -> Timestep:
        self._actions.append(action.tolist())
        self._state, timestep = self._step(self._state, action)
        timestep = jax.tree.map(np.asarray, timestep)
        self.episodes.extend(episode for _, episode in self._tally.add(timestep))
        return timestep

    def memento(self) -> dict[str, Any]:
        return {"seed": self._seed, "actions": self._actions}

    def restore(self, memento: dict[str, Any]) -> np.ndarray:
        timestep = self.init(memento["seed"])
        for action in memento["actions"]:
            timestep = self.step(np.array(action))
        self.episodes.clear()
        return np.asarray(timestep.observation)

    def render(self) -> None:
        return None

    def close(self) -> None: ...
