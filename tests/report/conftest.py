"""Run directories without any training: the project's own configs and writers, scores by formula."""

import json
from dataclasses import replace

import pytest

from fqf.config import override, to_toml
from fqf.evaluation import Scores
from fqf.presets import preset
from fqf.rundir import evaluation_line, run_path

FACTS = {"commit": "abc1234", "device": "cpu", "machine": "Linux x86_64", "threads": 2}
FACTS |= {"versions": {"python": "3.11.7", "fqf": "0.2.0", "jax": "0.10.2"}}


@pytest.fixture
def write_run(tmp_path):
    """`write_run(agent, env, seed, scores, **options)` writes a run whose evaluations had these mean scores, the first
    of them untrained; `finished=False` stops it halfway."""

    def write(agent, env, seed, scores, finished=True, runs=tmp_path / "runs", **options):
        config = replace(override(preset(agent, env, options.get("protocol")), options), seed=seed)
        path = run_path(runs, config)
        path.mkdir(parents=True)
        (path / "config.toml").write_text(to_toml(config))
        every = config.steps // (len(scores) - 1)
        frozen = getattr(config.environment, "score", "evaluation") == "evaluation"
        lines = [evaluation_line(None)]
        for number, mean in enumerate(scores):
            step = config.steps * number // (len(scores) - 1)
            labels = {"step": step, "source": "train", "seed": seed, "epsilon": config.evaluation_epsilon}
            values = Scores(mean if frozen else mean - 1.0, mean, mean - 2.0, mean + 2.0, 100.0, 10)
            lines.append(evaluation_line(labels, values))
            if number and not frozen:
                lines.append(evaluation_line(labels | {"source": "training"}, values._replace(mean=mean)))
        if not finished:
            lines = lines[: 1 + (len(lines) - 1) // 2 + 1]
        (path / "evaluations.csv").write_text("".join(lines), newline="")
        (path / "timing.jsonl").write_text(json.dumps({"step": every, "seconds": 61.0, "steps_per_second": 9.0}) + "\n")
        if finished:
            steps, skip = config.steps, getattr(config.environment, "frame_skip", 1)
            summary = {"agent": agent, "env": env, "seed": seed, "steps": steps, "frames": skip * (steps - 100)}
            summary |= {"seconds": 3600.0 + seed, "steps_per_second": steps / 3600}
            (path / "summary.json").write_text(json.dumps(summary | FACTS))
        return path

    return write
