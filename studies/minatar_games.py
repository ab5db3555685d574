"""The games of both MinAtar packages, many lanes at a time, and players for them (for minatar_rules.py).

`reset()` gives the lanes' observations, `step(actions)` the next ones, rewards, and which lanes' games are over; a cap
is not the end of a game, and a lane that has ended stays so. Actions are indices into the minimal set, or all six.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from minatar import Environment

from fqf.environments.gymnax import make_minatar

RANDOMLY = 0.01
"""How often the scripted player acts at random."""

jax.config.update("jax_cpu_enable_async_dispatch", False)  # each step is waited for: half the time on busy cores


class Games(NamedTuple):
    reset: Callable[[], np.ndarray]
    step: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Setting(NamedTuple):
    package: str
    sticky: float
    ramping: bool = True
    all_actions: bool = False


def make(name: str, setting: Setting, lanes: int, seed: int) -> Games:
    return (make_original if setting.package == "original" else make_gymnax)(name, setting, lanes, seed)


def make_original(name: str, setting: Setting, lanes: int, seed: int) -> Games:
    environments = [Environment(name, setting.sticky, setting.ramping) for _ in range(lanes)]
    actions_of = range(6) if setting.all_actions else environments[0].minimal_action_set()

    seen = [environment.state() for environment in environments]

    def reset():
        for lane, environment in enumerate(environments):
            environment.seed(seed * lanes + lane)
            environment.reset()
            seen[lane] = environment.state()
        return np.stack(seen)

    def step(actions):
        rewards = np.zeros(lanes)
        for lane, environment in enumerate(environments):
            if not environment.env.terminal:
                rewards[lane], _ = environment.act(actions_of[actions[lane]])
                seen[lane] = environment.state()
        return np.stack(seen), rewards, np.array([environment.env.terminal for environment in environments])

    return Games(reset, step)


def make_gymnax(name: str, setting: Setting, lanes: int, seed: int) -> Games:
    """gymnax has no sticky actions: they are added here, from action 0 on. Without a ramp, the state says so."""
    start, advance = compiled(name, lanes)
    generator, key = np.random.default_rng(seed), jax.random.key(seed)
    flat = {"asterix": {"ramp_timer": np.full(lanes, 10**9)}, "space_invaders": {"ramping": np.full(lanes, False)}}
    now: dict[str, Any] = {"draw": 0, "actions": np.zeros(lanes, int), "over": np.zeros(lanes, bool)}

    def reset():
        state, observations = start(key)
        now["state"] = state if setting.ramping else state.replace(**flat[name])
        return np.asarray(observations)

    def step(actions):
        now["draw"] += 1
        now["actions"] = np.where(generator.random(lanes) < setting.sticky, now["actions"], actions)
        now["state"], timestep = advance(key, now["draw"], now["state"], now["actions"])
        rewards = np.where(now["over"], 0.0, timestep.reward)
        now["over"] = now["over"] | (np.asarray(timestep.discount) == 0)
        return np.asarray(timestep.observation), rewards, now["over"]

    return Games(reset, step)


@cache
def compiled(name: str, lanes: int) -> tuple[Callable, Callable]:
    environment = make_minatar(name)
    start = jax.jit(lambda key: jax.vmap(environment.reset)(jax.random.split(key, lanes)))
    step = jax.vmap(environment.step)
    return start, jax.jit(lambda key, draw, state, actions: step(keys_of(key, draw, lanes), state, actions))


def keys_of(key: Any, draw: int, lanes: int) -> Any:
    return jax.random.split(jax.random.fold_in(key, draw), lanes)


# Players. An observation's cells are [row, column, channel]


def follow_ball(observation: np.ndarray, generator: np.random.Generator) -> int:
    """Breakout. Actions: stay, left, right."""
    ball, paddle = (int(observation[..., channel].any(0).argmax()) for channel in (1, 0))
    return (0, 2, 1)[np.sign(ball - paddle)]


def fetch_gold(observation: np.ndarray, generator: np.random.Generator) -> int:
    """Asterix: towards gold, off cells that an enemy is on or beside. Actions: stay, left, up, right, down."""
    enemy = np.pad(observation[..., 1], ((0, 0), (1, 1)))
    danger = enemy[:, :-2] | enemy[:, 1:-1] | enemy[:, 2:]
    player, gold = np.argwhere(observation[..., 0])[0], np.argwhere(observation[..., 3])

    def fear(action: int) -> tuple[bool, int, float]:
        there = np.clip(player + ((0, 0), (0, -1), (-1, 0), (0, 1), (1, 0))[action], [1, 0], [8, 9])
        return bool(danger[tuple(there)]), min(np.abs(gold - there).sum(1), default=0), generator.random()

    return min(range(5), key=fear)


def dodge_and_fire(observation: np.ndarray, generator: np.random.Generator) -> int:
    """Space Invaders: never where a bullet lands next. Actions: stay, left, right, fire."""
    column, landing = int(observation[9, :, 0].argmax()), observation[8, :, 5]
    safe = np.flatnonzero(~landing[np.clip([column, column - 1, column + 1, column], 0, 9)])
    return 3 if 3 in safe and generator.random() < 0.5 else int(generator.choice(safe if len(safe) else 4))


def go_up(observation: np.ndarray, generator: np.random.Generator) -> int:
    """Freeway. Actions: stay, up, down."""
    return 1


PLAYERS = {"breakout": follow_ball, "asterix": fetch_gold, "space_invaders": dodge_and_fire, "freeway": go_up}


def choose(name: str, player: str, observation: np.ndarray, generator: np.random.Generator, num_actions: int) -> int:
    if player == "scripted" and generator.random() >= RANDOMLY:
        return PLAYERS[name](observation, generator)
    return int(generator.integers(num_actions))
