"""What Python counts of the seeds of one program, beside their state; written with every checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fqf.config import RunConfig
from fqf.evaluation import Scores
from fqf.protocols import TrainingScores
from fqf.schedule import Chunk


@dataclass
class Ledger:
    position: int
    """Chunks of the schedule that have been played."""
    episodes: np.ndarray
    """That have ended, by seed."""
    evaluations: list[list[Scores]]
    """By seed; the first is of the untrained policy."""
    training: TrainingScores

    def entry(self, index: int) -> dict[str, Any]:
        """One seed's, fit for JSON."""
        return {
            "position": self.position,
            "episodes": int(self.episodes[index]),
            "evaluations": self.evaluations[index],
            "training": self.training.ledger(),
        }


def new_ledger(configs: Sequence[RunConfig[Any, Any]]) -> Ledger:
    return Ledger(0, np.zeros(len(configs), int), [[] for _ in configs], TrainingScores(configs[0]))


def read_ledger(
    configs: Sequence[RunConfig[Any, Any]], chunks: Sequence[Chunk], entries: Sequence[Mapping[str, Any]]
) -> Ledger:
    """From the entries of all seeds; raises whatever is wrong with them."""
    ledger = new_ledger(configs)
    (ledger.position,) = {int(entry["position"]) for entry in entries}
    ledger.episodes = np.array([int(entry["episodes"]) for entry in entries])
    ledger.evaluations = [[Scores(*score) for score in entry["evaluations"]] for entry in entries]
    ledger.training.restore(entries[0]["training"])
    if not 0 < ledger.position <= len(chunks):
        raise ValueError(f"it is said to be {ledger.position} chunks into a run of {len(chunks)}")
    return ledger


def agent_steps(chunks: Sequence[Chunk], position: int) -> int:
    return sum(chunk.steps for chunk in chunks[:position])


def periods_played(chunks: Sequence[Chunk], position: int) -> int:
    return sum(chunk.length for chunk in chunks[:position] if not chunk.warm_up)
