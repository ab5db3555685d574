"""Scores of runs, for tables and curves: what can't be used is named, and nothing is put in its place."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fqf.agents import AGENTS
from fqf.environments.atari import PROTOCOLS
from fqf.errors import UserError, nearest
from fqf.paper.style import by_agent
from fqf.presets import changed
from fqf.report.groups import Cells, differences, family, group, show, variants
from fqf.report.records import RunRecord
from fqf.report.runs import load
from fqf.report.scores import protocol_words, published

RESULTS = Path("results")
"""Where the project keeps the scores of its own studies, which a checkout has, and an installed package does not."""


class NoRuns(UserError):
    """No runs were named, and there are none to take in their place."""


class Scores(NamedTuple):
    """What the Atari runs of one protocol have."""

    protocol: str
    games: dict[str, dict[str, list[float]]]
    """Scores of all seeds, by agent and game."""
    left_out: list[str]
    """Runs, and why."""


def own_file(name: str) -> Path:
    return RESULTS / f"{name}.csv"


class Found(NamedTuple):
    runs: list[RunRecord]
    left_out: list[str]
    """What was passed over, and why."""
    places: str
    """Where all this was read."""


def read_runs(paths: Sequence[Path], usual: str, *more: str) -> Found:
    """Runs from directories and files of collected scores, or else from the project's own file of some name, with more
    from others that are there."""
    own = [own_file(usual), *(path for path in map(own_file, more) if path.is_file())]
    if not paths and not own[0].is_file():
        raise NoRuns(f"there is no {own[0]} here: name runs, or files of collected scores, after --runs")
    places = paths or own
    runs, skipped = load(places)
    left_out = [f"{path} ({why})" for path, why in skipped]
    words = ", ".join(map(str, places))
    if not runs:
        why = f": {left_out[0]}" if left_out else ""
        raise UserError(f"no run with scores in {words}{why}")
    return Found(runs, left_out, words)


def only_finished(runs: Sequence[RunRecord], left_out: list[str]) -> list[RunRecord]:
    """An unfinished run has no last score yet; it is added to what was left out."""
    left_out += [f"{run.path} (not finished)" for run in runs if not run.finished]
    found = [run for run in runs if run.finished]
    if not found:
        raise UserError(f"none of these runs is finished: {left_out[0]}")
    return found


def refuse_protocols(runs: Sequence[RunRecord], what: str) -> None:
    for difference in differences(runs):
        raise UserError(f"one {what} takes one protocol, but {difference}")


class Chosen(NamedTuple):
    runs: list[RunRecord]
    agents: list[str]
    """In the order in which they were named; all of them in the paper's."""
    missing: list[str]
    """Those of them that have no runs."""


def chosen(runs: Sequence[RunRecord], agents: str) -> Chosen:
    """The runs of some agents, with commas between their names, or of all."""
    there = by_agent({run.config["agent"] for run in runs})
    wanted = there if agents == "all" else [agent.strip() for agent in agents.split(",") if agent.strip()]
    for agent in wanted:
        if agent not in there and agent not in AGENTS:
            raise UserError(f"agents has {agent!r}; {nearest(agent, AGENTS)}")
    found = [run for run in runs if run.config["agent"] in wanted]
    if not found:
        raise UserError(f"agents is {agents!r}, but the runs are of {', '.join(there)}")
    return Chosen(found, wanted, [agent for agent in wanted if agent not in there])


def cells_of(runs: Sequence[RunRecord]) -> Cells:
    """By label of their kind, then by environment; all families of environments together, agents in the paper's
    order."""
    cells: Cells = {}
    for families in group(runs).values():
        for label, games in families.items():
            cells.setdefault(label, {}).update(games)
    return {label: cells[label] for label in by_agent(cells)}


def how_scored(runs: Sequence[RunRecord]) -> str:
    """The protocol in words: its name on Atari, elsewhere what an evaluation was."""
    said = []
    for run in runs:
        if family(run.env) == "atari":
            protocol = str(run.config.get("protocol"))
            others = {name: value for name, value in changed(run.config).items() if name in PROTOCOLS.get(protocol, ())}
            said.append(f"protocol {protocol_words({'protocol': protocol, 'changed': others})}")
        else:
            epsilon = run.config.get("evaluation_epsilon")
            at = "" if epsilon is None else f" at epsilon {show(epsilon)}"
            said.append(f"evaluations of {run.episodes[-1]} episodes{at}")
    return "; ".join(dict.fromkeys(said))


def seeds_in_words(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    if found == [1]:
        return "one seed"
    return f"{found[0]} seeds" if len(found) == 1 else f"{found[0]} to {found[-1]} seeds"


def lacking(means: Mapping[str, Mapping[str, float]], envs: Sequence[str]) -> list[str]:
    """Every agent's games without a finished run, in words."""
    without = {label: [env for env in envs if env not in games] for label, games in means.items()}
    return [f"no finished run of {label} on {', '.join(games)}" for label, games in without.items() if games]


# Atari's own


def read_scores(paths: Sequence[Path], which: str) -> Scores:
    """Of all finished Atari runs of the table's games: of one protocol, and of one kind of each agent, or they could
    not stand in one table."""
    found, skipped = load(paths)
    unfit = [(run.path, why) for run in found if (why := why_not(run))]
    runs = [run for run in found if not why_not(run)]
    left_out = [f"{path} ({why})" for path, why in (*skipped, *unfit)]
    if not runs:
        why = f": {left_out[0]}" if left_out else ""
        raise UserError(f"no finished Atari run of the paper's games in {', '.join(map(str, paths))}{why}")
    refuse_protocols(runs, "table")
    for (agent, _), options in variants(runs).items():
        if options:
            raise UserError(
                f"one table takes one kind of {agent}, but these differ by {', '.join(options)}: name runs of one"
            )
    games: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        games.setdefault(run.config["agent"], {}).setdefault(game_of(run), []).append(run.score(which))
    return Scores(how_scored(runs), games, left_out)


def game_of(run: RunRecord) -> str:
    return run.env.partition("/")[2]


def why_not(run: RunRecord) -> str:
    """Why a run is in no table of Atari scores; nothing if it is."""
    if family(run.env) != "atari" or game_of(run) not in published():
        return f"{run.env} is not a game of the paper's table"
    return "" if run.finished else "not finished"
