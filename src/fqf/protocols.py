"""What a protocol reports: the scores of training episodes at fixed frames, and an Atari run's score in one record."""

from collections.abc import Sequence
from typing import Any

import numpy as np

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
        self.scores[step] = summarize(Episodes(np.array(totals, np.float32), np.array(lengths)))
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


def at_or_after(frames: int, training: dict[int, Scores], frame_skip: int) -> dict[str, Any] | None:
    """The first report that is not before some frames, and where it was: reports end with a period of updates."""
    step = min((step for step in training if step * frame_skip >= frames), default=None)
    return None if step is None else {"frames": step * frame_skip, "score": training[step].mean}


def atari_score(
    config: RunConfig[Any, Any], evaluations: Sequence[Scores], training: dict[int, Scores], frame_skip: int
) -> dict[str, Any]:
    """Best and last score, and what they mean: by which protocol, and beside which table."""
    kind = config.environment.score
    means = [score.mean for score in (evaluations[1:] if kind == "evaluation" else training.values())]
    at_frames = {frames: at_or_after(frames, training, frame_skip) for frames in FIXED_FRAMES}
    game = config.env.split("/")[1]
    return {
        "protocol": config.environment.protocol,
        "changed": protocol_changes(config),
        "of": "evaluations of the frozen policy" if kind == "evaluation" else "training episodes",
        "last": means[-1] if means else None,
        "best": max(means, default=None),
        "at_fixed_frames": {str(frames): report for frames, report in at_frames.items() if report is not None},
        "human_normalized_percent": {
            "last": human_normalized(game, means[-1]) if means else None,
            "best": human_normalized(game, max(means)) if means else None,
        },
        "table": TABLE,
    }
