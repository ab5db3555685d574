"""Moving pictures of an episode."""

import numpy as np
import pytest
from PIL import Image

import fqf
from fqf import environments
from fqf.cli import main
from fqf.record import play
from fqf.report.video import Moment, write_gif
from fqf.types import ReturnDistribution

pytestmark = pytest.mark.usefixtures("compile_quickly")
SMALL = {"steps": 200, "learning_starts_steps": 100, "num_fractions": 3, "hidden": 8, "batch_size": 8}
SMALL |= {"evaluation_episodes": 2, "evaluate_every_steps": 1000, "log_every_steps": 100, "quiet": True}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fqf.train("minatar/breakout", runs=tmp_path_factory.mktemp("runs"), **SMALL)


def test_record_writes_a_gif_with_one_frame_per_step(run, capsys):
    assert main(["record", str(run.path), "--max-steps", "4", "--seed", "2"]) == 0
    assert "4 steps in" in capsys.readouterr().out
    with Image.open(run.path / "episode.gif") as gif:
        assert gif.n_frames == 4
        pictures = [np.asarray(gif.convert("RGB")) for _ in map(gif.seek, range(4))]
    assert not np.array_equal(pictures[0], pictures[3])
    assert not list(run.path.glob("*.partial"))


def test_moments_are_those_of_one_episode(run):
    moments = list(play(run.policy, environments.make("minatar/breakout"), 0.0, seed=3, max_steps=500))
    assert 0 < len(moments) <= 500
    assert moments[0].score == 0
    again = list(play(run.policy, environments.make("minatar/breakout"), 0.0, seed=3, max_steps=500))
    assert [moment.action for moment in moments] == [moment.action for moment in again]
    expected = run.policy.distribution(moments[5].observation)
    np.testing.assert_allclose(moments[5].distribution.values, expected.values, rtol=1e-5, atol=1e-6)
    assert moments[5].action == run.policy.act(moments[5].observation)


def test_a_vector_is_drawn_as_bars(tmp_path):
    distribution = ReturnDistribution(np.full((2, 3), 1 / 3), np.arange(6.0).reshape(2, 3))
    moments = [Moment(None, np.array([0.5, -1.0]), distribution, 1, 0.0)] * 2
    assert write_gif(moments, "test", tmp_path / "bars.gif", 50) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--out", "x.mp4"], "name it x.gif"), (["--max-steps", "0"], "at least 1"), (["--epsilom", "0"], "--epsilon")],
)
def test_bad_options_are_one_line(run, capsys, arguments, message):
    assert main(["record", str(run.path), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
