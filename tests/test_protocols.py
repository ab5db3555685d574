"""What a protocol reports, and an Atari run from start to report."""

import json

import jax
import numpy as np
import pytest

import fqf
from fqf.agents import AGENTS, make_agent
from fqf.cli import main
from fqf.commands.playing import score_line
from fqf.config import override
from fqf.cycle import run_keys
from fqf.evaluation import Scores
from fqf.presets import preset
from fqf.protocols import TrainingScores, atari_score, protocol_changes
from fqf.report.scores import aggregate, human_normalized, published
from fqf.types import FinishedEpisode

pytestmark = pytest.mark.usefixtures("compile_quickly")

TINY = {
    "steps": 280,
    "learning_starts_steps": 200,
    "replay_capacity": 400,
    "evaluation_steps": 40,
    "evaluation_lanes": 2,
    "episode_cap_frames": 80,
    "evaluate_every_steps": 100_000,
    "log_every_steps": 40,
    "batch_size": 4,
    "hidden": 16,
    "quiet": True,
}
FOUR = {"num_fractions": 4, "num_quantiles": 4, "num_target_quantiles": 4, "num_action_quantiles": 4, "num_atoms": 5}


def pong(agent, runs, **options):
    own = set(FOUR) & set(vars(AGENTS[agent].config))
    return fqf.train("atari/pong", agent, runs=runs, **{**TINY, **{name: FOUR[name] for name in own}, **options})


def episodes(*totals):
    return [FinishedEpisode(total, 10) for total in totals]


def test_dopamine_reports_the_episodes_since_the_last_report():
    scores = TrainingScores(preset("fqf", "atari/pong", "dopamine"))
    scores.add(episodes(1, 2))
    scores.add(episodes(6))
    assert scores.take(100).mean == 3
    assert scores.take(150) is None
    scores.add(episodes(8))
    assert (scores.take(200).mean, scores.scores[200].episodes) == (8, 1)


def test_machado_reports_the_last_hundred_episodes():
    scores = TrainingScores(preset("fqf", "atari/pong", "machado"))
    scores.add(episodes(*[1000] * 5))
    scores.add(episodes(*range(100)))
    assert scores.take(100).mean == 49.5
    scores.add(episodes(*[100] * 50))
    assert scores.take(200).mean == (100 * 50 + sum(range(50, 100))) / 100


def test_the_paper_reports_evaluations_only():
    scores = TrainingScores(preset("fqf", "atari/pong", "paper"))
    scores.add(episodes(1))
    assert scores.take(100) is None


def score(mean):
    return Scores(mean, mean, mean, mean, 1.0, 1)


def test_best_and_last_and_fixed_frames():
    """Pong's random score is -20.7, the human's 14.6: a score of -2.1 is 100 * 18.6 / 35.3 percent."""
    paper = preset("fqf", "atari/pong")
    report = atari_score(paper, [score(-21.0), score(-2.1), score(-9.0)], {}, 4)
    assert (report["protocol"], report["last"], report["best"], report["changed"]) == ("paper", -9.0, -2.1, {})
    np.testing.assert_allclose(report["human_normalized_percent"]["best"], 100 * 18.6 / 35.3)
    assert "Yang et al. 2019" in report["table"]
    machado = override(preset("fqf", "atari/pong", "machado"), {"sticky_probability": 0.1})
    training = {2_250_000: score(2.0), 2_500_000: score(3.0), 2_750_000: score(4.0), 12_500_012: score(5.0)}
    report = atari_score(machado, [score(0.0)], training, 4)
    first, second = {"frames": 10_000_000, "score": 3.0}, {"frames": 50_000_048, "score": 5.0}
    assert report["at_fixed_frames"] == {"10000000": first, "50000000": second}
    assert (report["last"], report["of"], report["changed"]) == (5.0, "training episodes", {"sticky_probability": 0.1})


def test_an_agent_without_epsilon_has_not_changed_the_protocol():
    assert protocol_changes(preset("rainbow", "atari/pong", "dopamine")) == {}


def test_aggregates_of_the_papers_own_scores():
    """FQF's median of 272 % over 55 games is the paper's Table 1; its random and human players are 0 and 100 %."""
    fqf_scores = {game: row["fqf"] for game, row in published().items()}
    assert round(aggregate(fqf_scores).median) == 272
    assert aggregate(fqf_scores).games == 55
    for player, percent in (("random", 0.0), ("human", 100.0)):
        total = aggregate({game: row[player] for game, row in published().items()})
        np.testing.assert_allclose((total.mean, total.median, total.above_human), (percent, percent, 0), atol=1e-9)
    assert human_normalized("air_raid", 5.0) is None


@pytest.mark.parametrize(
    "agent", [pytest.param(name, marks=() if name == "fqf" else pytest.mark.slow) for name in AGENTS]
)
def test_every_agent_plays_pong(agent, tmp_path):
    """20 updates that move every matrix."""
    run = pong(agent, tmp_path)
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["updates"] == 20
    assert rows[-1]["gradient_norm"] > 0
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["score"]["protocol"] == "paper"
    changed = {"evaluation_steps", "episode_cap_frames", "evaluate_every_steps", "steps"}
    assert set(summary["score"]["changed"]) == changed
    assert summary["frames"] == 4 * summary["environment_steps"]
    learner_key = run_keys(jax.random.split(jax.random.key(0))[0]).learner
    start = make_agent(run.policy.config, run.policy.spec).init(learner_key)
    moved = jax.tree.map(lambda x, y: bool(np.any(x != y)), start, run.policy.params)
    assert all(moved for path, moved in jax.tree_util.tree_leaves_with_path(moved) if "kernel" in str(path[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 4])
def test_a_seed_gives_the_same_bytes_twice(lanes, tmp_path):
    """Observations, rewards and parameters, with sticky actions on."""
    runs = [pong("fqf", tmp_path / name, protocol="dopamine", lanes=lanes) for name in ("one", "again")]
    for name in ("metrics.jsonl", "evaluations.csv", "policy/params.safetensors"):
        one, again = ((run.path / name).read_bytes() for run in runs)
        assert one == again, name


def test_lanes_and_training_scores(tmp_path, capsys):
    """Four lanes: as many updates per step; under `dopamine` the training episodes are the score."""
    run = pong("fqf", tmp_path, protocol="dopamine", lanes=4, episode_cap_frames=80, evaluate_every_steps=240)
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["updates"] == 20
    assert summary["score"]["of"] == "training episodes"
    rows = (run.path / "evaluations.csv").read_text().splitlines()
    training = [row for row in rows if ",training," in row]
    assert len(training) == 2
    assert float(training[0].split(",")[-1]) > 0
    assert main(["scores", str(run.path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "fqf, dopamine, but episode_cap_frames 80, " in out
    assert "above human in 0 of 1 games" in out
    assert "Yang et al. 2019" in out
    line = score_line(summary["score"])
    assert line.startswith("protocol dopamine, but episode_cap_frames 80, ")
    assert "% human), best" in line


def test_scores_of_what_is_no_atari_run(tmp_path, capsys):
    for content, message in (("{}", "is not an Atari run"), ("{", "holds no finished run")):
        (tmp_path / "summary.json").write_text(content)
        assert main(["scores", str(tmp_path)]) == 2
        assert message in capsys.readouterr().err
    assert main(["scores"]) == 2
