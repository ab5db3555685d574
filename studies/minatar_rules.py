"""How gymnax's MinAtar differs from the original package: both played side by side, and statistics of play.

    .venv/bin/python -m pip install --no-deps --target bench/.venv/minatar MinAtar==1.0.15
    PYTHONPATH=bench/.venv/minatar .venv/bin/python studies/minatar_rules.py [--table chance] [--game asterix] [--quick]

gymnax's games are those of `minatar/*`, as fqf makes them. Tables are printed as they grow, and put into
docs/results/minatar.md between the marks there: all rows, or those of one game.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from minatar import Environment
from minatar_games import PLAYERS, Setting, choose, compiled, make
from minatar_sides import draw_asterix, lane_of, side_by_side

from fqf.environments.gymnax import MINATAR, from_package, make_minatar

PAGE = Path("docs/results/minatar.md")
GAMES = ("breakout", "asterix", "space_invaders", "freeway", "seaquest")
LIMIT = 5_000
"""Our cap on an episode where there is none: some would not end."""
STICKY = 0.1
"""The original's default."""


def row(*cells: Any) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*cells: str) -> list[str]:
    return [row("", *cells), "|---" * (len(cells) + 1) + "|"]


def cap_of(name: str) -> int:
    """How many steps gymnax gives an episode."""
    return from_package(MINATAR[name]).default_params.max_steps_in_episode


# Sizes, starts, and what is left to chance


def chance(games: Sequence[str], quick: bool) -> Iterator[str]:
    settings = (Setting("original", STICKY), Setting("original", 0.0), Setting("gymnax", 0.0))
    yield from head("actions", "channels", "cap", "starts", "original, sticky 0.1", "original, sticky 0", "gymnax")
    for name in games:
        original, spec = Environment(name), make_minatar(name).spec
        actions = f"{len(original.minimal_action_set())} / {spec.num_actions}"
        channels = f"{original.n_channels} / {spec.observation_shape[-1]}"
        starts = [len({each.tobytes() for each in make(name, setting, 100, 1).reset()}) for setting in settings[1:]]
        facts = (actions, channels, f"- / {cap_of(name):,}", " / ".join(map(str, starts)))
        yield row(name, *facts, *(len(stories(name, setting)) for setting in settings))


def stories(name: str, setting: Setting) -> set[bytes]:
    """All that was seen in 100 games of at most 100 steps, under the same actions."""
    games, generator, seen = make(name, setting, 100, 1), np.random.default_rng(0), [b""] * 100
    observations, over, num_actions = games.reset(), np.zeros(100, bool), make_minatar(name).spec.num_actions
    for _ in show(range(100), f"{name}: 100 games of {setting.package}"):
        seen = [
            story if end else story + each.tobytes() for story, end, each in zip(seen, over, observations, strict=True)
        ]
        observations, _, over = games.step(np.full(100, generator.integers(num_actions)))
    return set(seen)


# Side by side


def rules(games: Sequence[str], quick: bool) -> Iterator[str]:
    yield from head(
        "player", "steps", "episodes", "longest", "ramp reached", "steps that differ", "earliest", "in what"
    )
    for name in games:
        scripted, undying = name in PLAYERS, name not in ("breakout", "freeway")
        for player in ("random", *["scripted"] * scripted, *["undying"] * undying):
            what = f"{name}, {player}, side by side"
            found = side_by_side(name, player, show(range(100 if quick else 1_200), what))
            kinds = "; ".join(f"{count:,}: {kind}" for kind, count in found.kinds.most_common(5)) or "-"
            sums = (found.steps, found.episodes, found.longest, found.ramp, sum(found.kinds.values()))
            earliest = f"{found.earliest:,}" if found.kinds else "-"
            yield row(name, player, *(f"{each:,}" for each in sums), earliest, kinds)


def spawns(games: Sequence[str], quick: bool) -> Iterator[str]:
    """Of Asterix' eight rows some are free, an entity is due: does it appear, does another vanish?"""
    yield from head("rows free", "original: appears", "gymnax: appears", "gymnax: another vanishes")
    if "asterix" not in games:
        return
    state = lane_of(compiled("asterix", 1)[0](jax.random.key(0))[0], 0)
    for free in (0, 1, 2, 4):
        taken = state.replace(entities=state.entities.at[free:, 4].set(1))
        keys = jax.random.split(jax.random.key(free), 100_000)
        entity, slot = jax.jit(jax.vmap(draw_asterix, (0, None)))(keys, taken)
        appears, vanishes = np.mean(entity[:, 4] == 1), np.mean((entity[:, 4] == 0) & (slot >= free))
        yield row("asterix", free, f"{min(free, 1):.3f}", f"{appears:.3f}", f"{vanishes:.3f}")


# Scores


def scores(games: Sequence[str], quick: bool) -> Iterator[str]:
    cut, whole = ("return, cut", "length"), ("return, not cut", "length")
    yield from head("player", "package", "sticky", "ramp", "actions", "episodes", *cut, *whole, "were cut")
    for name in games:
        ramps = (True, False) if name in ("asterix", "space_invaders") else (True,)
        options = [
            (package, sticky, ramp) for ramp in ramps for package in ("original", "gymnax") for sticky in (0.1, 0.0)
        ]
        settings = [Setting(*each) for each in options]
        for player in ("random", *["scripted"] * (name in PLAYERS)):
            full = [Setting("original", STICKY, all_actions=True)] * (player == "random" and name != "seaquest")
            episodes = 20 if name == "freeway" else 1_000 if player == "random" else 100
            for setting in full + [each for each in settings if each.ramping or player == "random"]:
                yield score(name, player, setting, 10 if quick else episodes)


def score(name: str, player: str, setting: Setting, lanes: int) -> str:
    """One episode in every lane."""
    games, generator = make(name, setting, lanes, 2), np.random.default_rng(3)
    num_actions = 6 if setting.all_actions else make_minatar(name).spec.num_actions
    observations, over, length = games.reset(), np.zeros(lanes, bool), np.zeros(lanes, int)
    returns, cut, cap = np.zeros(lanes), np.zeros(lanes), cap_of(name)
    limit = cap if name == "freeway" else LIMIT  # it has no other end
    for step in show(range(limit), f"{name}, {player}, {setting}: {lanes} episodes"):
        length += ~over
        chosen = [
            0 if end else choose(name, player, each, generator, num_actions)
            for each, end in zip(observations, over, strict=True)
        ]
        observations, rewards, over = games.step(np.array(chosen))
        returns, cut = returns + rewards, cut + rewards * (step < cap)
        if over.all():
            break
    ramp, results = "on" if setting.ramping else "off", (cut, np.minimum(length, cap), returns, length)
    facts = (name, player, setting.package, setting.sticky, ramp, num_actions, f"{lanes:,}")
    return row(*facts, *(with_error(each) for each in results), f"{np.mean(length > cap):.1%}")


def with_error(values: np.ndarray) -> str:
    """Mean and its standard error."""
    return f"{values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}"


# The page


def show(items: Iterable, what: str) -> Iterator:
    items, told = list(items), time.monotonic()
    for number, item in enumerate(items):
        if time.monotonic() - told > 1:
            told = time.monotonic()
            print(f"\r{what}: {number:,} of {len(items):,}\033[K", end="", file=sys.stderr, flush=True)
        yield item
    print("\r\033[K", end="", file=sys.stderr, flush=True)


TABLES = {"chance": chance, "rules": rules, "spawns": spawns, "scores": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=TABLES, help="only this one")
    parser.add_argument("--game", choices=GAMES, help="only this one")
    parser.add_argument("--quick", action="store_true", help="a look; the page is left alone")
    arguments = parser.parse_args()
    for name in [arguments.table] if arguments.table else TABLES:
        games, lines = [arguments.game] if arguments.game else GAMES, []
        for line in TABLES[name](games, arguments.quick):
            print(line, flush=True)
            lines.append(line)
        if not arguments.quick:
            write(name, games, lines)


def write(name: str, games: Sequence[str], lines: list[str]) -> None:
    before, rest = PAGE.read_text().split(f"<!-- {name} -->\n")
    old, after = rest.split(f"<!-- end of {name} -->")
    kept = [line for line in old.splitlines()[2:] if game_of(line) not in games]
    table = [*lines[:2], *sorted(kept + lines[2:], key=lambda line: GAMES.index(game_of(line)))]
    PAGE.write_text(f"{before}<!-- {name} -->\n" + "\n".join(table) + f"\n<!-- end of {name} -->{after}")


def game_of(line: str) -> str:
    return line.split("|")[1].strip()


if __name__ == "__main__":
    main()
