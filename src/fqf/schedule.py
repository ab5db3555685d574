"""A run as stretches between which Python wakes up; they follow from the config alone."""

from typing import Any, NamedTuple

from fqf.config import RunConfig, num_periods, periods, warm_up_steps


class Chunk(NamedTuple):
    """A stretch of the run during which Python sleeps."""

    warm_up: bool
    vector_step: int
    """Where it starts."""
    length: int
    """Vector steps of a warm-up, periods otherwise."""
    steps: int
    """Agent steps."""
    evaluate: bool
    """Whether the policy is evaluated after it."""


def schedule(config: RunConfig[Any, Any]) -> list[Chunk]:
    """The whole run: the warm-up, then chunks that end where a log line or an evaluation is due."""
    lanes, warm_up = config.lanes, warm_up_steps(config)
    per_period = periods(config.update_period_steps, lanes)[0] * lanes

    def due(every: int) -> set[int]:
        ends = (-(-(step - warm_up) // per_period) for step in range(every, config.steps + 1, every))
        return {end for end in ends if 0 < end < total}

    total = num_periods(config)
    evaluations = due(config.evaluate_every_steps) | {total}
    chunks, begin = [Chunk(True, 0, warm_up // lanes, warm_up, False)], 0
    for end in sorted(due(config.log_every_steps) | evaluations):
        start = (warm_up + begin * per_period) // lanes
        chunks.append(Chunk(False, start, end - begin, (end - begin) * per_period, end in evaluations))
        begin = end
    return chunks
