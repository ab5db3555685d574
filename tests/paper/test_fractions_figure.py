"""The case study of fractions: what is measured of widths made by hand, and how a run becomes data."""

import csv
import itertools
import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from fqf import cli
from fqf.config import override
from fqf.errors import UserError
from fqf.paper import fractions
from fqf.paper.fractions import Episode, compare_states, find_spikes, read_episode, write_episode
from fqf.policy import Policy
from fqf.presets import preset
from fqf.report.scores import data
from fqf.report.video import Moment
from fqf.types import EnvironmentSpec, ReturnDistribution

WIDTHS = np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]])
FACTS = {
    "agent": "fqf",
    "env": "minatar/breakout",
    "seed": 0,
    "steps": 9,
    "fraction_learning_rate": 1e-6,
    "commit": "a",
}


def read_from(directory):
    return read_episode(lambda name: (directory / name).read_bytes())


def test_how_far_states_differ():
    # tau_1 is .25, .5, .25, .25 and tau_2 .5, .75, .5, .75: means .3125 and .625; squared deviations
    # (3 (1/16)^2 + (3/16)^2) / 4 = 3/256 and (1/8)^2; both range over a quarter.
    states = compare_states(WIDTHS)
    np.testing.assert_allclose(states.mean, [0.3125, 0.625])
    np.testing.assert_allclose(states.deviation, [np.sqrt(3) / 16, 0.125])
    np.testing.assert_allclose(states.low, [0.25, 0.5])
    np.testing.assert_allclose(states.high, [0.5, 0.75])
    assert states.distance == 0.25
    same = compare_states(WIDTHS[[0, 2]])
    assert (same.deviation.max(), same.distance) == (0, 0)
    # The largest distance is that between two states, found by trying all pairs.
    widths = np.random.default_rng(0).dirichlet(np.ones(5), 7)
    taus = np.cumsum(widths, axis=1)[:, :-1]
    pairs = np.abs(taus[:, None] - taus[None, :])
    assert compare_states(widths).distance == pytest.approx(pairs.max())


def test_spikes_stand_out_from_what_is_around_them_and_apart():
    widths = np.full((40, 2), 0.5)
    widths[10:13] = [[0.6, 0.4], [0.9, 0.1], [0.8, 0.2]]
    widths[30] = [0.3, 0.7]
    assert find_spikes(widths, 2) == [11, 30]  # 12 is farther than 30, but beside 11
    assert find_spikes(widths, 1) == [11]
    assert find_spikes(np.full((40, 2), 0.5), 3) == []  # nothing moves
    assert find_spikes(np.array([[0.5, 0.5], [0.4, 0.6], [0.5, 0.5]]), 4) == [1]
    drift = np.linspace(0.2, 0.8, 40)  # its ends are farthest from the median of all
    drift[25] += 0.05
    assert find_spikes(np.stack([drift, 1 - drift], axis=1), 1) == [25]


@pytest.mark.parametrize(("size", "spread"), [(8, 0.001), (8, 0.5), (8, 2.0), (32, 0.3), (32, 3.0), (64, 0.001)])
def test_the_picture_is_legible_at_any_n(tmp_path, monkeypatch, size, spread):
    """With numbers beside the curves, and no text upon another or outside."""
    generator = np.random.default_rng(0)
    logits = spread * generator.normal(size=size) + 0.1 * min(spread, 1) * generator.normal(size=(60, size))
    widths = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    facts = FACTS | {"agent": "fqf_consistent", "env": "atari/kung_fu_master", "steps": 50_000_000}
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: figures.append(figure))
    picture = np.zeros((10, 10, 3), np.uint8)
    fractions.draw_episode(
        Episode(facts, widths, dict.fromkeys((5, 20, 35, 50), picture)), compare_states(widths), tmp_path
    )
    figure = figures[0]
    figure.draw_without_rendering()
    curves, states = figure.axes[-2:]
    low, high = curves.get_ylim()
    assert sum(low <= tick <= high for tick in curves.get_yticks()) >= 2
    for axis in (curves, states):
        assert figure.bbox.x0 <= axis.yaxis.label.get_window_extent().x0
        ticks = [label.get_window_extent() for label in axis.get_xticklabels() if label.get_text()]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(ticks))
        names = [text.get_window_extent() for text in axis.get_legend().texts]
        assert not any(name.overlaps(axis.xaxis.label.get_window_extent()) for name in names)
    (title,) = (text.get_window_extent() for text in figure.texts if "kung_fu" in text.get_text())
    assert figure.bbox.x0 <= title.x0
    assert title.x1 <= figure.bbox.x1


def test_files_give_back_what_was_seen(tmp_path):
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    write_episode(Episode(FACTS, WIDTHS, {1: picture, 3: picture + 1}), tmp_path)
    again = read_from(tmp_path)
    assert again.facts == FACTS
    np.testing.assert_array_equal(again.widths, WIDTHS)
    assert list(again.pictures) == [1, 3]
    np.testing.assert_array_equal(again.pictures[3], picture + 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_episode(again, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_nothing_in_a_file_can_run(tmp_path):
    write_episode(Episode(FACTS, WIDTHS, {}), tmp_path)
    np.savez(tmp_path / "fractions.npz", steps=np.array([print], object))
    with pytest.raises(ValueError, match="allow_pickle"):
        read_from(tmp_path)


def moments(count):
    """Fractions move once, the ball does every step."""
    for step in range(count):
        observation = np.zeros((4, 5, 2), bool)
        observation[step % 4, step % 5, 1] = True
        widths = np.array([0.5, 0.3, 0.2] if step == 6 else [0.25, 0.25, 0.5], np.float32)
        distribution = ReturnDistribution(np.tile(widths, (6, 1)), np.zeros((6, 3)))
        yield Moment(None, observation, distribution, 0, 0.0)


def test_a_run_is_played_into_data_and_a_picture(tmp_path, monkeypatch, capsys):
    options = {"num_fractions": 3, "steps": 150_000, "seed": 4, "evaluation_epsilon": 0.25}
    config = override(preset("fqf", "minatar/breakout"), options)
    policy = Policy(config, EnvironmentSpec(config.env, (4, 5, 2), np.dtype(bool), 6), {})
    asked = []
    monkeypatch.setattr(fractions, "load", lambda path: policy)
    monkeypatch.setattr(fractions, "play", lambda *how: asked.append(how[2:]) or moments(12))
    (tmp_path / "summary.json").write_text(json.dumps({"commit": "abc1234"}))
    out = tmp_path / "paper"
    arguments = ["paper", "fractions", "--run", str(tmp_path), "--out", str(out), "--seed", "7", "--max-steps", "12"]
    assert cli.main(arguments) == 0
    assert asked == [(0.25, 7, 12)]
    said = capsys.readouterr().out
    assert "on minatar/breakout after 150,000 steps (seed 4, fraction learning rate 2.5e-09, commit abc1234)" in said
    # tau_1 is .5 once and .25 eleven times: deviation .25 sqrt(11) / 12 = .0691; tau_2 .8 and .5, so .3 sqrt(11) / 12.
    assert "12 states of one episode, N = 3; over states: deviation up to 0.083, range of a fraction up to 0.3" in said
    episode = read_from(out)
    assert list(episode.pictures) == [6]
    assert episode.pictures[6].shape == (4, 5, 3)
    lit = np.argwhere(np.ptp(episode.pictures[6].reshape(20, 3), axis=1) > 0)
    assert lit.tolist() == [[2 * 5 + 1]]  # row 6 % 4, column 6 % 5, in the second channel's colour
    with (out / "fractions.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["step", "width_0", "width_1", "width_2"]
    assert rows[7] == ["6", "0.5", "0.3", "0.2"]
    with (out / "fractions_states.csv").open() as file:
        (first, _) = csv.DictReader(file)
    assert (first["i"], float(first["uniform"]), float(first["high"])) == ("1", 1 / 3, 0.5)
    assert (out / "fractions.png").read_bytes().startswith(b"\x89PNG")
    assert cli.main([*arguments, "--max-steps", "0"]) == 2
    assert capsys.readouterr().err == "fqf: max_steps is 0, but must be at least 1\n"
    for option in (["--max-steps", "5"], ["--seed", "2"], ["--epsilon", "0.5"]):
        assert cli.main(["paper", "fractions", "--out", str(tmp_path / "none"), *option]) == 2
        assert capsys.readouterr().err == (
            f"fqf: {option[0]} is for an episode that is played: name a run after --run\n"
        )
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("agent", "options", "words"),
    [
        ("dqn", {}, "is a run of dqn, which proposes no fractions: name one of fqf"),
        ("fqf", {"fractions": "uniform"}, "has uniform fractions, which are the same in all states"),
        ("fqf", {"fractions": "random"}, "has random fractions"),
    ],
)
def test_runs_without_fractions_to_see_are_refused(tmp_path, agent, options, words):
    config = override(preset(agent, "minatar/breakout"), options)
    policy = Policy(config, EnvironmentSpec(config.env, (4, 5, 2), np.dtype(bool), 6), {})
    with pytest.raises(UserError, match=words):
        fractions.refuse_without_fractions(policy, tmp_path)


def test_the_episode_that_comes_with_fqf(tmp_path, capsys):
    for name in ("one", "other"):
        assert cli.main(["paper", "fractions", "--out", str(tmp_path / name)]) == 0
    for suffix in ("png", "svg", "csv", "json", "npz"):
        one, other = ((tmp_path / name / f"fractions.{suffix}").read_bytes() for name in ("one", "other"))
        assert one == other
    episode = read_episode(data)
    assert episode.facts["num_fractions"] == episode.widths.shape[1] == 8
    assert episode.facts["env"] in capsys.readouterr().out
    np.testing.assert_allclose(episode.widths.sum(axis=1), 1, atol=1e-6)
    assert list(episode.pictures) == find_spikes(episode.widths, fractions.SPIKES)
    assert compare_states(episode.widths).distance > 0.001  # the paper: the proposal depends on the state
