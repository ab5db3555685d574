"""Which runs belong together: one agent with the same options, on one game, by one protocol."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from fqf.errors import UserError
from fqf.report.records import RunRecord

# What makes scores comparable: the game as it is played, and how it is scored.
GAME_OPTIONS = (
    *("protocol", "noop_max", "sticky_probability", "life_loss", "fire_on_reset", "full_action_space"),
    *("frame_skip", "episode_cap_frames", "episode_cap_steps"),
)
SCORE_OPTIONS = (
    *("score", "score_window_episodes", "evaluation_epsilon"),
    *("evaluation_steps", "evaluation_episodes", "evaluation_lanes"),
)
BUDGET_OPTIONS = ("steps", "evaluate_every_steps")
"""May differ between games, not within one."""
EXPLORATION_OPTIONS = ("exploration_epsilon", "exploration_decay_steps")
"""May differ between agents (Rainbow explores by noise), not within one."""
PROTOCOL_OPTIONS = GAME_OPTIONS + SCORE_OPTIONS + BUDGET_OPTIONS + EXPLORATION_OPTIONS
NO_OPTIONS = ("agent", "env", "seed", "log_every_steps")
"""What never makes a variant."""

Cells: TypeAlias = dict[str, dict[str, list[RunRecord]]]
"""Runs by group's label, then by environment; seeds in order."""


class Difference(NamedTuple):
    """Two runs that should not stand in one table."""

    option: str
    one: RunRecord
    other: RunRecord

    def __str__(self) -> str:
        values = (show(each.config.get(self.option)) for each in (self.one, self.other))
        first, second = (f"{value} in {each.path}" for value, each in zip(values, self[1:], strict=True))
        return f"{self.option} is {first}, but {second}"


def family(env: str) -> str:
    return env.split("/")[0]


def by(runs: Iterable[RunRecord], *names: str) -> dict[Any, list[RunRecord]]:
    """Runs by some options of their configs; `family` is one."""
    parts: dict[Any, list[RunRecord]] = {}
    for run in runs:
        key = tuple(family(run.env) if name == "family" else run.config.get(name) for name in names)
        parts.setdefault(key, []).append(run)
    return parts


def differences(runs: Sequence[RunRecord]) -> list[Difference]:
    """Where runs disagree about a protocol: within a game, among an agent's runs of it, among all Atari games."""
    found: dict[str, Difference] = {}
    for parts, options in (
        (by(runs, "env"), GAME_OPTIONS + SCORE_OPTIONS + BUDGET_OPTIONS),
        (by(runs, "env", "agent"), EXPLORATION_OPTIONS),
        (by((run for run in runs if family(run.env) == "atari"), "family"), GAME_OPTIONS + SCORE_OPTIONS),
    ):
        for members in parts.values():
            for option in options:
                other = next((run for run in members if differ(members[0], run, option)), None)
                if other is not None:
                    found.setdefault(option, Difference(option, members[0], other))
    return list(found.values())


def differ(one: RunRecord, other: RunRecord, option: str) -> bool:
    return one.config.get(option) != other.config.get(option)


def refuse_mixed(found: Sequence[Difference]) -> None:
    if found:
        more = f" (and {', '.join(each.option for each in found[1:])})" if len(found) > 1 else ""
        raise UserError(
            f"these runs have different protocols: {found[0]}{more}; name runs of one protocol, or add --mixed to set "
            "them side by side as groups of their own"
        )


def variants(runs: Sequence[RunRecord]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The options by which each agent's runs differ within a family: on one game, or on several, as games of a family
    share their presets. (Not Gymnasium's: theirs depend on what a game shows.)"""
    shared = [run for run in runs if family(run.env) in ("atari", "minatar", "classic", "toy")]
    found: dict[tuple[str, str], set[str]] = {}
    for members in (*by(runs, "agent", "env").values(), *by(shared, "agent", "family").values()):
        options = {option for run in members for option in run.config}
        varying = {option for option in options if any(differ(members[0], run, option) for run in members)}
        key = (members[0].config["agent"], family(members[0].env))
        found.setdefault(key, set()).update(varying.difference(PROTOCOL_OPTIONS, NO_OPTIONS))
    return {key: tuple(sorted(options)) for key, options in found.items()}


def group(runs: Sequence[RunRecord], mixed: Iterable[Difference] = ()) -> dict[str, Cells]:
    """By family of environments. Protocols that differ, if that was asked for, are told apart like variants."""
    told, apart = variants(runs), tuple(each.option for each in mixed)
    if "protocol" in apart:  # its name says the rest, but for what was changed beside it
        changed = [each.option for part in by(runs, "protocol").values() for each in differences(part)]
        apart = ("protocol", *dict.fromkeys(changed))
    families: dict[str, Cells] = {}
    for run in sorted(runs, key=lambda run: (run.env, run.config["seed"], str(run.path))):
        options = told[run.config["agent"], family(run.env)] + tuple(name for name in apart if name in run.config)
        cells = families.setdefault(family(run.env), {})
        cells.setdefault(label(run.config, options), {}).setdefault(run.env, []).append(run)
    return {name: dict(sorted(families[name].items(), key=lambda item: natural(item[0]))) for name in sorted(families)}


def label(config: Mapping[str, Any], options: Iterable[str]) -> str:
    return " ".join([config["agent"], *(f"{name}={show(config.get(name))}" for name in options)])


def show(value: Any) -> str:
    """As in a config file, but short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "x".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else "-" if value is None else str(value)


def natural(text: str) -> list[tuple[int, str]]:
    """Sorts 8 before 32."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]
