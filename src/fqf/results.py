"""What a finished run leaves behind."""

from pathlib import Path
from typing import Any, NamedTuple

from fqf import environments
from fqf.evaluation import Scores, Trace
from fqf.policy import Policy
from fqf.protocols import atari_score
from fqf.rundir import RunDirectory


class Run(NamedTuple):
    """A finished run: its directory, its policy and its scores before and after."""

    path: Path
    policy: Policy
    before: Scores
    after: Scores


def write_results(
    directory: RunDirectory,
    policy: Policy,
    trace: Trace,
    counts: dict[str, int],
    evaluations: list[Scores],
    training: dict[int, Scores],
    digests: dict[str, str],
    facts: dict[str, Any],
) -> Run:
    """The policy, what the figure draws and, last of all, the summary: a run that has one is finished.

    `training` are the scores of training episodes, by agent step.
    """
    config, seconds = policy.config, directory.seconds()
    policy.save(directory.path / "policy")
    directory.write_json("distributions.json", describe(trace))
    named = {"before": evaluations[0], "after": evaluations[-1], "best": max(evaluations, key=lambda each: each.mean)}
    summary = {"agent": config.agent, "env": config.env, "seed": config.seed} | counts
    summary |= {name: scores._asdict() for name, scores in named.items()}
    summary |= {"digests": digests, "seconds": seconds, "steps_per_second": counts["steps"] / seconds}
    if environments.family(config.env) == "atari":
        frame_skip = config.environment.frame_skip
        summary["score"] = atari_score(config, evaluations, training, frame_skip)
    directory.marks()  # every line of the logs is on the disk before the run calls itself finished
    directory.write_json("summary.json", summary | facts)
    return Run(directory.path, policy, evaluations[0], evaluations[-1])


def describe(trace: Trace) -> dict[str, Any]:
    """What the figure draws: the return distributions of all actions in a few states of one episode."""
    observations, (probabilities, values) = trace
    small = observations[0].size <= 1_000
    return {
        "states": [f"state {index + 1} of {len(observations)}" for index in range(len(observations))],
        "observations": observations.astype(float).reshape(len(observations), -1).tolist() if small else None,
        "probabilities": probabilities.tolist(),
        "values": values.tolist(),
    }
