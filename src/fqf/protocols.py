"""What a protocol reports: the scores of training episodes at fixed frames, and an Atari run's score in one record."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fqf.config import RunConfig, flatten
from fqf.environments.atari import PROTOCOLS
from fqf.evaluation import Episodes, Scores, summarize
from fqf.presets import preset
from fqf.report.scores import TABLE, human_normalized
from fqf.types import FinishedEpisode

FIXED_FRAMES = (10_000_000, 50_000_000, 100_000_000, 200_000_000)
"""Where Machado et al. 2018 report (section 5.2)."""


class TrainingScores:
    """The returns of the training episodes themselves, for protocols that report them."""

    def __init__(self, config: RunConfig[Any, Any]) -> None:
        options = flatten(config)
        self._wanted = options.get("score") == "training"
        self._window = options.get("score_window_episodes", 0)
        self._recent: list[FinishedEpisode] = []
        self.scores: dict[int, Scores] = {}
        """By agent step."""

    def add(self, episodes: Sequence[FinishedEpisode]) -> None:
        if self._wanted:
            self._recent += episodes
            self._recent = self._recent[-self._window :] if self._window else self._recent

    def take(self, step: int) -> Scores | None:
        """The score to report at this step: of the last episodes, or of all that ended since the last report."""
        if not self._recent:
            return None
        totals, lengths = zip(*self._recent, strict=True)
        self.scores[step] = summarize(Episodes(jnp.array(totals), jnp.array(lengths)))
        if not self._window:
            self._recent = []
        return self.scores[step]

    def ledger(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"recent": self._recent, "reported": list(self.scores.items())}

    def restore(self, ledger: dict[str, Any]) -> None:
        self._recent = [FinishedEpisode(float(total), int(length)) for total, length in ledger["recent"]]
        self.scores = {int(step): Scores(*score) for step, score in ledger["reported"]}


def protocol_changes(config: RunConfig[Any, Any]) -> dict[str, Any]:
    """What a run has otherwise than its protocol says, by option."""
    options = flatten(config)
    expected = flatten(preset(config.agent, config.env, options["protocol"]))
    return {name: options[name] for name in PROTOCOLS[options["protocol"]] if options[name] != expected[name]}


def atari_score(
    config: RunConfig[Any, Any], evaluations: Sequence[Scores], training: dict[int, Scores], frame_skip: int
) -> dict[str, Any]:
    """Best and last score, and what they mean: by which protocol, and beside which table."""
    kind = config.environment.score
    means = [score.mean for score in (evaluations[1:] if kind == "evaluation" else training.values())]
    at_frames = {step * frame_skip: score.mean for step, score in training.items()}
    game = config.env.split("/")[1]
    return {
        "protocol": config.environment.protocol,
        "changed": protocol_changes(config),
        "of": "evaluations of the frozen policy" if kind == "evaluation" else "training episodes",
        "last": means[-1] if means else None,
        "best": max(means, default=None),
        "at_fixed_frames": {str(frames): at_frames[frames] for frames in FIXED_FRAMES if frames in at_frames},
        "human_normalized_percent": {
            "last": human_normalized(game, means[-1]) if means else None,
            "best": human_normalized(game, max(means)) if means else None,
        },
        "table": TABLE,
    }
