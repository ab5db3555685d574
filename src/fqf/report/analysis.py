"""From groups of runs to the numbers of a report: scores per game on a common scale, and aggregates over games."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fqf.report import statistics
from fqf.report.groups import Cells
from fqf.report.scores import PLAYERS, TABLE, published
from fqf.report.statistics import Estimate

KINDS = ("last", "best")
FEW_SEEDS = 5
HUMAN = f"0 % is random play, 100 % the human of the table: {TABLE}"
SPAN = (
    "0 % is the untrained policy (mean over all runs of the game in this report), 100 % the highest mean last score "
    "that a group of this report reached: so these percentages can't be compared with another report's"
)
THRESHOLDS = 201


class Scale(NamedTuple):
    """What 0 and 1 mean, by environment; games without are left out of all aggregates."""

    rule: str
    without: str
    """Why a game may have no scale."""
    ends: dict[str, tuple[float, float]]

    def normalize(self, env: str, score: float) -> float:
        low, high = self.ends[env]
        return (score - low) / (high - low)


class Group(NamedTuple):
    """The scores of some runs of one kind, by environment, each as one number per run."""

    label: str
    scores: dict[str, np.ndarray]
    is_published: bool = False

    def seeds(self, games: Sequence[str]) -> tuple[int, int]:
        """The least and the most that a game has."""
        numbers = [len(self.scores[game]) for game in games]
        return min(numbers), max(numbers)


class Aggregates(NamedTuple):
    """One kind of score over the games that all groups have."""

    kind: str
    games: tuple[str, ...]
    groups: tuple[Group, ...]
    estimates: dict[str, dict[str, Estimate]]
    """By group, then by statistic."""
    thresholds: np.ndarray
    profiles: dict[str, tuple[np.ndarray, np.ndarray | None]]
    """By group: shares, and their band."""
    improvements: dict[tuple[str, str], Estimate]
    """By pair: the chance that the first is better."""


class Section(NamedTuple):
    """All that a report says about one family of environments."""

    family: str
    cells: Cells
    scale: Scale
    groups: dict[str, list[Group]]
    """By kind of score; published ones last."""
    aggregates: dict[str, Aggregates]
    """By kind of score; empty where there is no game that all groups have finished."""


def human_scale(envs: Sequence[str]) -> Scale:
    rows = {env: published().get(env.split("/")[1]) for env in envs}
    return Scale(
        HUMAN,
        "is not in the table of human scores",
        {env: (row["random"], row["human"]) for env, row in rows.items() if row},
    )


def span_scale(cells: Cells, groups: Sequence[Group]) -> Scale:
    ends = {}
    for env in games_of(cells):
        runs = [run for games in cells.values() for run in games.get(env, [])]
        untrained = [run.untrained for run in runs if run.untrained is not None]
        means = [float(group.scores[env].mean()) for group in groups if env in group.scores]
        if untrained and means and max(means) > np.mean(untrained):
            ends[env] = (float(np.mean(untrained)), max(means))
    return Scale(SPAN, "has no group that ended above the untrained policy", ends)


def make_section(family: str, cells: Cells, with_paper: bool, seed: int, resamples: int) -> Section:
    scale, envs = make_scale(cells, family), games_of(cells)
    groups = {kind: score_groups(cells, kind) for kind in KINDS}
    games = common_games(groups["last"], scale)
    if with_paper and family == "atari":
        groups = {kind: found + paper_groups(envs) for kind, found in groups.items()}
    made = {kind: aggregate(kind, groups[kind], games, scale, seed, resamples) for kind in KINDS} if games else {}
    return Section(family, cells, scale, groups, made)


def games_of(cells: Cells) -> list[str]:
    return sorted({env for games in cells.values() for env in games})


def make_scale(cells: Cells, family: str) -> Scale:
    return human_scale(games_of(cells)) if family == "atari" else span_scale(cells, score_groups(cells, "last"))


def score_groups(cells: Cells, kind: str) -> list[Group]:
    """Of finished runs only: an unfinished one has no last score yet, and a best one of fewer chances."""
    groups = []
    for label, games in cells.items():
        scores = {env: np.array([run.score(kind) for run in runs if run.finished]) for env, runs in games.items()}
        groups.append(Group(label, {env: found for env, found in scores.items() if len(found)}))
    return groups


def paper_groups(envs: Sequence[str]) -> list[Group]:
    """The paper's raw scores, one seed each."""
    rows = {env: published()[env.split("/")[1]] for env in envs if env.split("/")[1] in published()}
    return [
        Group(f"{name}, published", {env: np.array([row[player]]) for env, row in rows.items()}, True)
        for player, name in PLAYERS.items()
    ]


def common_games(groups: Sequence[Group], scale: Scale) -> tuple[str, ...]:
    """A group that lacks the hard games must not look better for it."""
    sets = [set(group.scores) for group in groups if group.scores]
    return tuple(sorted(set.intersection(*sets) & set(scale.ends))) if sets else ()


def aggregate(
    kind: str, groups: Sequence[Group], games: tuple[str, ...], scale: Scale, seed: int, resamples: int
) -> Aggregates:
    chosen = tuple(group for group in groups if group.scores)
    matrices = {
        group.label: [np.array([scale.normalize(env, score) for score in group.scores[env]]) for env in games]
        for group in chosen
    }
    estimates = {
        label: {
            name: statistics.estimate(statistic, scores, seed, resamples)
            for name, statistic in statistics.STATISTICS.items()
        }
        for label, scores in matrices.items()
    }
    thresholds = profile_thresholds([matrices[group.label] for group in chosen if not group.is_published])
    profiles = {
        label: (statistics.profile(scores, thresholds), statistics.profile_band(scores, thresholds, seed, resamples))
        for label, scores in matrices.items()
    }
    pairs = [pair for pair in itertools.combinations(chosen, 2) if not all(group.is_published for group in pair)]
    improvements = {
        (one, other): statistics.estimate_improvement(matrices[one], matrices[other], seed, resamples)
        for one, other in ((one.label, other.label) for one, other in pairs)
    }
    return Aggregates(kind, games, chosen, estimates, thresholds, profiles, improvements)


def profile_thresholds(matrices: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """From where nearly all runs are above to where few are; single giants would leave no room for the rest."""
    everything = np.concatenate([game for scores in matrices for game in scores])
    low, high = float(min(0.0, np.percentile(everything, 1))), float(max(1.0, np.percentile(everything, 90)))
    return np.linspace(low, high, THRESHOLDS)


def above(group: Group, bars: Mapping[str, float]) -> tuple[int, int]:
    """Games in which the mean over seeds is above the bar (a tie is not), and games that have both."""
    games = [env for env in group.scores if env in bars]
    return sum(float(group.scores[env].mean()) > bars[env] for env in games), len(games)


def human_bars(envs: Sequence[str], player: str = "human") -> dict[str, float]:
    rows = {env: published().get(env.split("/")[1]) for env in envs}
    return {env: row[player] for env, row in rows.items() if row}


def seed_words(group: Group, games: Sequence[str]) -> str:
    """How many runs an interval rests on, and what that means for it."""
    least, most = group.seeds(games)
    if group.is_published:
        return "one score per game, so no interval"
    number = f"{least} seed{'s' if least > 1 else ''}" if least == most else f"{least} to {most} seeds"
    if least == 1:
        return f"{number} per game, so no interval"
    if least < FEW_SEEDS:
        return f"{number} per game: few, so a rough interval"
    return f"{number} per game"


def left_out(groups: Sequence[Group], games: Sequence[str], scale: Scale) -> Iterator[str]:
    """Why the aggregates do not have all games, in sentences."""
    every = sorted({env for group in groups for env in group.scores} - set(games))
    for env in every:
        if env not in scale.ends:
            yield f"{env} {scale.without}."
        else:
            lacking = [group.label for group in groups if group.scores and env not in group.scores]
            yield f"{env} has no finished run of {', '.join(lacking)}."
    for group in groups:
        if not group.scores:
            yield f"{group.label} has no finished run."
