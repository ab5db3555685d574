"""The numbers of a report as tidy tables: one row per observation, written as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fqf.report.analysis import Section, above, games_of, human_bars
from fqf.report.dopamine import dopamine_curves
from fqf.report.records import Skipped
from fqf.report.scores import TABLE

Rows: TypeAlias = Iterable[dict[str, Any]]


def to_csv(rows: Rows) -> bytes | None:
    """Numbers in full; what is not there is empty. None without rows."""
    found = list(rows)
    if not found:
        return None
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue().encode()


def tables(sections: Sequence[Section], skipped: Sequence[Skipped], with_dopamine: bool) -> dict[str, Rows]:
    return {
        "runs": runs_table(sections, skipped),
        "curves": curves_table(sections, with_dopamine),
        "scores": scores_table(sections),
        "aggregates": aggregates_table(sections),
        "above": above_table(sections),
        "profiles": profiles_table(sections),
        "improvements": improvements_table(sections),
    }


def runs_table(sections: Sequence[Section], skipped: Sequence[Skipped]) -> Iterator[dict[str, Any]]:
    for section in sections:
        for label, games in section.cells.items():
            for env, runs in games.items():
                for run in runs:
                    yield {
                        "path": posix(run.path),
                        "state": "finished" if run.finished else "unfinished",
                        "why": "",
                        "group": label,
                        "env": env,
                        "seed": run.config["seed"],
                        "steps": run.curve.steps[-1],
                        "budget_steps": run.config["steps"],
                        "last": run.score("last"),
                        "best": run.score("best"),
                        "seconds": run.seconds,
                        "commit": run.summary.get("commit"),
                    }
    empty = dict.fromkeys(("group", "env", "seed", "steps", "budget_steps", "last", "best", "seconds", "commit"))
    for each in skipped:
        yield {"path": posix(each.path), "state": "skipped", "why": each.why, **empty}


def posix(path: Path) -> str:
    return path.as_posix()


def curves_table(sections: Sequence[Section], with_dopamine: bool) -> Iterator[dict[str, Any]]:
    def row(source: str, group: str, env: str, seed: int | str, frames: int, score: float) -> dict[str, Any]:
        return {"source": source, "group": group, "env": env, "seed": seed, "frames": frames, "score": score}

    for section in sections:
        for label, games in section.cells.items():
            for env, runs in games.items():
                for run in runs:
                    for step, score in zip(*run.curve, strict=True):
                        yield row("run", label, env, run.config["seed"], step * run.frame_skip, score)
        for env in games_of(section.cells) if with_dopamine and section.family == "atari" else ():
            for curve in dopamine_curves().get(env.split("/")[1], []):
                for name, scores in (("mean", curve.mean), ("minimum", curve.minimum), ("maximum", curve.maximum)):
                    for frames, score in zip(curve.frames, scores, strict=True):
                        yield row("dopamine", curve.agent, env, name, round(1_000_000 * frames), score)


def scores_table(sections: Sequence[Section]) -> Iterator[dict[str, Any]]:
    for section in sections:
        for kind, groups in section.groups.items():
            for group in groups:
                for env, scores in group.scores.items():
                    normalized = (
                        100 * section.scale.normalize(env, scores.mean()) if env in section.scale.ends else None
                    )
                    yield {
                        "group": group.label,
                        "source": TABLE if group.is_published else "runs",
                        "env": env,
                        "kind": kind,
                        "seeds": len(scores),
                        "mean": scores.mean(),
                        "minimum": scores.min(),
                        "maximum": scores.max(),
                        "normalized_percent": normalized,
                    }


def aggregates_table(sections: Sequence[Section]) -> Iterator[dict[str, Any]]:
    for section in sections:
        for kind, made in section.aggregates.items():
            for group in made.groups:
                least, most = group.seeds(made.games)
                for name, estimate in made.estimates[group.label].items():
                    yield {
                        "family": section.family,
                        "kind": kind,
                        "group": group.label,
                        "statistic": name,
                        "percent": 100 * estimate.value,
                        "low": percent(estimate.low),
                        "high": percent(estimate.high),
                        "games": len(made.games),
                        "least_seeds": least,
                        "most_seeds": most,
                    }


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def above_table(sections: Sequence[Section]) -> Iterator[dict[str, Any]]:
    """Games above human and above DQN: the table's on Atari, elsewhere the DQN of the report, if it has one."""
    for section in sections:
        for kind, groups in section.groups.items():
            for name, bars in bars_of(section, kind).items():
                for group in groups:
                    games, of = above(group, bars)
                    yield {
                        "family": section.family,
                        "kind": kind,
                        "group": group.label,
                        "above": name,
                        "games": games,
                        "of": of,
                    }


def bars_of(section: Section, kind: str) -> dict[str, dict[str, float]]:
    """Scores to be above of, by whose they are."""
    if section.family == "atari":
        envs = games_of(section.cells)
        return {"human": human_bars(envs), "published DQN": human_bars(envs, "dqn")}
    own = next((group for group in section.groups[kind] if group.label == "dqn"), None)
    return {"DQN": {env: float(scores.mean()) for env, scores in own.scores.items()}} if own else {}


def profiles_table(sections: Sequence[Section]) -> Iterator[dict[str, Any]]:
    for section in sections:
        for kind, made in section.aggregates.items():
            for label, (shares, band) in made.profiles.items():
                for index, threshold in enumerate(made.thresholds):
                    yield {
                        "family": section.family,
                        "kind": kind,
                        "group": label,
                        "threshold_percent": 100 * threshold,
                        "share": shares[index],
                        "low": None if band is None else band[0, index],
                        "high": None if band is None else band[1, index],
                    }


def improvements_table(sections: Sequence[Section]) -> Iterator[dict[str, Any]]:
    for section in sections:
        for kind, made in section.aggregates.items():
            for (one, other), estimate in made.improvements.items():
                yield {
                    "family": section.family,
                    "kind": kind,
                    "first": one,
                    "second": other,
                    "percent": 100 * estimate.value,
                    "low": percent(estimate.low),
                    "high": percent(estimate.high),
                }
