"""The study's tables of scores: of games, of kinds of runs beside each other, and over all games."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean

import numpy as np
from scipy.stats import t
from study_kinds import Kinds

from fqf.paper.style import by_agent
from fqf.report.analysis import Group, common_games, games_of, span_scale
from fqf.report.groups import Cells
from fqf.report.records import RunRecord
from fqf.report.statistics import CONFIDENCE, Estimate, Scores, estimate, has_interval, iqm, optimality_gap
from fqf.report.statistics import mean as game_mean

INTERVALS = (
    "Intervals of differences are Welch's (t, over seeds). Those of aggregates over games are the middle 95 % of a "
    "stratified bootstrap over seeds, which with three seeds is too narrow: they hold the truth in 73 to 79 % of cases "
    "([both simulated](../report.md#intervals))."
)
COMPARED = "fqf"
"""The agent that all others are compared with, over all games."""
Score = Callable[[RunRecord], float]


def last(run: RunRecord) -> float:
    return run.score("last")


def over_the_run(run: RunRecord) -> float:
    """The mean of a run's evaluations, which says how early it learned and jumps less than the last of them."""
    return mean(run.trained)


SCORES: Mapping[str, Score] = {
    "last score": last,
    "mean over a run's evaluations": over_the_run,
}


def summed_up(scores: Sequence[float]) -> str:
    """Their mean, their range, and how many they are."""
    if not scores:
        return "-"
    spread = f" ({min(scores):.1f} to {max(scores):.1f})" if len(scores) > 1 else ""
    return f"{mean(scores):.1f}{spread}, {len(scores)}"


def table_of_kinds(kinds: Kinds, least: str | None = None) -> Iterable[str]:
    """Their scores and, where one is named to compare the others with, what they are ahead of it."""
    compared = [f"{name} minus that of *{least}*" for name in SCORES] if least else []
    yield "| | " + " | ".join([*(f"{name}: mean (range), seeds" for name in SCORES), *compared]) + " |"
    yield "|---|" + "---|" * (len(SCORES) + len(compared))
    for name, runs in kinds.items():
        cells = [summed_up([score(run) for run in runs]) for score in SCORES.values()]
        if least:
            cells += [minus([runs], [kinds[least]], score) if name != least else "" for score in SCORES.values()]
        yield f"| {name} | " + " | ".join(cells) + " |"


def table_of_advantages(
    ours: Mapping[int, Sequence[RunRecord]], theirs: Mapping[int, Sequence[RunRecord]]
) -> Iterable[str]:
    """By N; and how much larger the advantage is at the smallest N than at the largest."""
    least, most = min(ours), max(ours)
    rows = {f"N = {n}": ([ours[n]], [theirs[n]]) for n in ours}
    rows[f"N = {least} minus N = {most}"] = [ours[least], theirs[most]], [theirs[least], ours[most]]
    yield "| `fqf` minus `iqn` | " + " | ".join(SCORES) + " |"
    yield "|---|" + "---|" * len(SCORES)
    for name, (plus, taken) in rows.items():
        yield f"| {name} | " + " | ".join(minus(plus, taken, score) for score in SCORES.values()) + " |"


def minus(plus: Sequence[Sequence[RunRecord]], taken: Sequence[Sequence[RunRecord]], score: Score) -> str:
    """Mean scores of kinds of runs, added up, minus others', with an interval."""
    kinds = [*plus, *taken]
    if not all(kinds):
        return "-"
    signs = [1] * len(plus) + [-1] * len(taken)
    return interval(welch([np.array([score(run) for run in runs]) for runs in kinds], signs))


def welch(kinds: Scores, weights: Sequence[float]) -> Estimate:
    """A weighted sum of means and its t interval, degrees of freedom after Welch and Satterthwaite; three seeds are too
    few for a bootstrap."""
    value = float(sum(weight * each.mean() for weight, each in zip(weights, kinds, strict=True)))
    if not has_interval(kinds):
        return Estimate(value, None, None)
    variances = np.square(weights) * [each.var(ddof=1) / len(each) for each in kinds]
    if not variances.any():
        return Estimate(value, value, value)
    free = np.array([len(each) - 1 for each in kinds])
    freedom = variances.sum() ** 2 / np.sum(variances**2 / free)
    half = float(t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(variances.sum()))
    return Estimate(value, value - half, value + half)


def table_of_games(cells: Cells) -> Iterable[str]:
    if not cells:
        yield "No run has finished yet."
        return
    games = games_of(cells)
    for name, score in SCORES.items():
        yield f"| {name}: mean (range), seeds | " + " | ".join(game.split("/")[1] for game in games) + " |"
        yield "|---|" + "---|" * len(games)
        for agent, found in cells.items():
            texts = [summed_up([score(run) for run in found.get(game, ())]) for game in games]
            yield f"| `{agent}` | " + " | ".join(texts) + " |"
        yield ""


def by_seed(runs: Sequence[RunRecord]) -> Cells:
    """Finished runs by agent, in the paper's order, and environment."""
    cells: Cells = {}
    for run in sorted((run for run in runs if run.finished), key=lambda run: run.config["seed"]):
        cells.setdefault(run.config["agent"], {}).setdefault(run.env, []).append(run)
    return {agent: cells[agent] for agent in by_agent(cells)}


def of_common_seeds(cells: Cells) -> tuple[Cells, list[int]]:
    """The runs with seeds that all agents have on all games: with more seeds of one game, it would weigh more."""
    games = games_of(cells)
    there = [{run.config["seed"] for run in found.get(game, ())} for found in cells.values() for game in games]
    seeds = set.intersection(*there) if there else set()
    kept = {
        agent: {game: [run for run in runs if run.config["seed"] in seeds] for game, runs in found.items()}
        for agent, found in cells.items()
    }
    return kept, sorted(seeds)


def aggregates(cells: Cells) -> Iterable[str]:
    """Over all games, 0 being the untrained policy and 1 the best agent's mean; and without each of them, which shows
    whether it decides alone."""
    cells, seeds = of_common_seeds(cells)
    if not seeds:
        yield "No seed has finished with all agents on all games yet."
        return
    yield f"Over {', '.join(games_of(cells))}, seeds {', '.join(map(str, seeds))}, which all have; 0 is the untrained"
    yield "policy, 1 the best agent's mean of these seeds: numbers of two tables can't be compared. The ends of this"
    yield "scale are taken as known."
    for kind, score in SCORES.items():
        groups = [Group(agent, scores_of(found, score)) for agent, found in cells.items()]
        scale = span_scale(cells, groups)
        games = common_games(groups, scale)
        columns = {"IQM": (iqm, games), "mean": (game_mean, games), "optimality gap": (optimality_gap, games)}
        if len(games) > 1:
            rest = {game: [other for other in games if other != game] for game in games}
            columns |= {f"IQM without {game.split('/')[1]}": (iqm, others) for game, others in rest.items()}
        titles = [*columns, f"mean minus that of `{COMPARED}`"]
        yield from ("", f"| {kind} | " + " | ".join(titles) + " |", "|---|" + "---|" * len(titles))
        normal = {
            group.label: {
                game: np.array([scale.normalize(game, each) for each in group.scores[game]]) for game in games
            }
            for group in groups
        }
        for label, found in normal.items():
            texts = [interval(estimate(what, [found[game] for game in of], 0)) for what, of in columns.values()]
            texts.append(ahead(found, normal.get(COMPARED)) if label != COMPARED else "")
            yield f"| `{label}` | " + " | ".join(texts) + " |"


def ahead(found: Mapping[str, np.ndarray], compared: Mapping[str, np.ndarray] | None) -> str:
    """By how much in the mean over games."""
    if compared is None:
        return "-"
    share = 1 / len(found)
    return interval(welch([*found.values(), *compared.values()], [share] * len(found) + [-share] * len(found)))


def scores_of(found: Mapping[str, Sequence[RunRecord]], score: Score) -> dict[str, np.ndarray]:
    """By game, a number per run."""
    return {game: np.array([score(run) for run in runs]) for game, runs in found.items()}


def interval(estimate: Estimate) -> str:
    ends = "" if estimate.low is None else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    return f"{estimate.value:.2f}{ends}"
