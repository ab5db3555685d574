"""Both MinAtar packages through the same games, step by step (for minatar_rules.py).

gymnax leads. The original gets the same actions, and answers from what gymnax drew in the place of its own randomness.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import jax
import numpy as np
from minatar_games import choose, compiled, keys_of

LANES = 30
NEVER = 10**9
COUNTS = {"f_bullets": "f_bullet_count", "e_bullets": "e_bullet_count", "divers": "divers_count"}
COUNTS |= {"e_fish": "e_fish_count", "e_subs": "e_subs_count"}
"""gymnax's Seaquest: how many rows count of its arrays of entities."""


class Told:
    """In the place of the original's generator: answers what gymnax drew."""

    def __init__(self, answers: list) -> None:
        self.rand = self.randint = lambda *arguments, **named: answers.pop(0)


class Found(NamedTuple):
    kinds: Counter[str]
    earliest: int
    steps: int
    episodes: int
    longest: int
    ramp: int


def side_by_side(name: str, player: str, draws: Iterable[int]) -> Found:
    """Each lane in both packages; the original is set to gymnax's state at a start, and where the two have parted."""
    (start, advance), module = compiled(name, LANES), import_module(f"minatar.environments.{name}")
    originals, generator, key = [module.Env() for _ in range(LANES)], np.random.default_rng(0), jax.random.key(0)
    actions_of, kinds, episodes, longest, ramp = originals[0].minimal_action_set(), Counter(), LANES, 0, 0
    earliest = NEVER
    (starts, observations), steps = jax.device_get(start(key)), 0
    states = [lane_of(starts, lane) for lane in range(LANES)]
    for original, state in zip(originals, states, strict=True):
        align(original, state)
    for draw in draws:
        actions = np.array([choose(name, player, each, generator, len(actions_of)) for each in observations])
        before = jax.tree.map(lambda *lanes: np.stack(lanes), *states)
        after, timesteps = jax.device_get(advance(key, draw, before, actions))
        drawn, observations = jax.device_get(draws_of(name)(key, draw, before)), timesteps.observation.copy()
        for lane, original in enumerate(originals):
            state, timestep = lane_of(after, lane), lane_of(timesteps, lane)
            original.random = Told(answers(name, states[lane], state, lane_of(drawn, lane)))
            reward, terminal = original.act(actions_of[actions[lane]])
            if kind := disagreements(original, timestep, state, reward, terminal):
                kinds[kind + circumstances(name, states[lane])] += 1
                earliest = min(earliest, int(state.time))
                align(original, state)
            longest, ramp = max(longest, int(state.time)), max(ramp, int(getattr(state, "ramp_index", 0)))
            states[lane] = state.replace(terminal=np.array(False))
            original.terminal = False
            if timestep.discount == 0 and player != "undying":
                states[lane], episodes = lane_of(starts, lane), episodes + 1
                align(original, states[lane])
                observations[lane] = original.state()
        steps += LANES
    return Found(kinds, earliest, steps, episodes, longest, ramp)


def lane_of(tree: Any, lane: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[lane], tree)


def align(original: Any, state: Any) -> None:
    for name, value in as_original(state).items():
        setattr(original, name, value)


def as_original(state: Any) -> dict[str, Any]:
    """gymnax's state as the original's attributes: names are the same, but it has arrays for lists."""
    values = {field.name: np.asarray(getattr(state, field.name)) for field in fields(state)}
    if "entities" in values:
        values["entities"] = [[x, y, r, g] if used else None for x, y, r, g, used in values["entities"].tolist()]
    if "cars" in values:
        values |= {"cars": values["cars"].tolist(), "terminate_timer": 2_500 - values["time"]}
    values |= {name: values[name][: values[count]].tolist() for name, count in COUNTS.items() if name in values}
    kept = {name: value for name, value in values.items() if name not in ("time", *COUNTS.values())}
    return {name: value if isinstance(value, list) else unwrap(value) for name, value in kept.items()}


def unwrap(value: np.ndarray) -> Any:
    return value.astype(float) if value.ndim else value.item()


@cache
def draws_of(name: str) -> Any:
    """What gymnax draws for new entities in a step, per lane."""
    draw = {"asterix": draw_asterix, "seaquest": draw_seaquest}.get(name, lambda key, state: ())
    return jax.jit(lambda key, number, states: jax.vmap(draw)(keys_of(key, number, LANES), states))


def draw_asterix(key: Any, state: Any) -> Any:
    return import_module("gymnax.environments.minatar.asterix").spawn_entity(key, state)


def draw_seaquest(key: Any, state: Any) -> Any:
    (kind, where), (side, depth) = (jax.random.split(each) for each in jax.random.split(key))
    places = [jax.random.randint(each, (), 1, 9) for each in (where, depth)]
    return jax.random.uniform(kind, (2,)), places[0], jax.random.bernoulli(side), places[1]


def answers(name: str, before: Any, after: Any, drawn: Any) -> list:
    """What the original has to draw, in its order, to get the same."""
    if name == "asterix":
        (_, _, right, gold, found), slot = drawn
        place = np.searchsorted(np.flatnonzero(before.entities[:, 4] == 0), slot)
        return [1 - right, 1 - gold, int(place) if found else 0]
    if name == "freeway":
        return [np.abs(after.cars[:, 3]), after.cars[:, 3] > 0]
    if name == "seaquest":
        enemy = [*drawn[0], int(drawn[1])] if before.e_spawn_timer == 0 else []
        return [*enemy, 1 - drawn[2], int(drawn[3])]
    return []


def disagreements(original: Any, timestep: Any, state: Any, reward: float, terminal: bool) -> str:
    """What differs after a step: in what an agent is given, or else in the state behind it."""
    seen, theirs, value_of = original.state(), timestep.observation, as_original(state)
    given = {name: (seen[..., at] != theirs[..., at]).any() for name, at in original.channels.items()}
    given |= {"reward": reward != timestep.reward, "terminal": terminal != (timestep.discount == 0)}
    hidden = {
        f"hidden {name}": not equal(getattr(original, name), value_of[name]) for name in value_of if name != "terminal"
    }
    return ", ".join(name for name, differs in (given if any(given.values()) else hidden).items() if differs)


def equal(ours: Any, theirs: Any) -> bool:
    return ours == theirs if isinstance(theirs, list) else np.array_equal(ours, theirs)


def circumstances(name: str, before: Any) -> str:
    return f" (rows free: {int((before.entities[:, 4] == 0).sum())})" if name == "asterix" else ""
