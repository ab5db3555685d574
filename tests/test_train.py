"""From one call to a whole run directory, twice the same, never overwritten silently."""

import csv
import json
import tomllib

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import fqf
from fqf.errors import Diverged
from fqf.rundir import RunDirectory
from fqf.types import EnvironmentSpec, JittableEnvironment, Timestep

pytestmark = pytest.mark.usefixtures("compile_quickly")

SMALL = {
    "steps": 400,
    "learning_starts_steps": 100,
    "num_fractions": 3,
    "hidden": 8,
    "torso_layers": (6,),
    "batch_size": 8,
    "evaluation_episodes": 5,
    "evaluate_every_steps": 200,
    "log_every_steps": 100,
    "quiet": True,
}


def train(directory, seed=0, **options):
    return fqf.train("classic/cartpole", seed=seed, runs=directory, **{**SMALL, **options})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs"))


def test_a_run_directory_is_complete(run):
    assert run.path.parts[-3:] == ("fqf", "classic.cartpole", "seed0")
    names = {"config.toml", "metrics.jsonl", "timing.jsonl", "evaluations.csv", "summary.json", "policy", "figure.png"}
    present = {path.name for path in run.path.iterdir()}
    assert names <= present
    assert any(name.startswith("events.out.tfevents") for name in present)
    assert not any(name.endswith(".partial") for name in present)
    assert (run.path / "figure.png").read_bytes().startswith(b"\x89PNG")
    config = tomllib.loads((run.path / "config.toml").read_text())
    assert (config["num_fractions"], config["discount"], config["seed"]) == (3, 0.99, 0)


def test_metrics_are_learned_quantities_and_timing_is_elsewhere(run):
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [100, 200, 300, 400]
    assert not any("second" in name for row in rows for name in row)
    wanted = {
        "return",
        "length",
        "epsilon",
        "quantile_loss",
        "fraction_loss",
        "q",
        "fraction_entropy",
        "fraction_shift",
    }
    assert wanted | {"crossing_rate", "w1_estimate", "w1_gradient_norm", "gradient_norm", "updates", "episodes"} <= set(
        rows[-1]
    )
    timing = [json.loads(line) for line in (run.path / "timing.jsonl").read_text().splitlines()]
    assert [row["step"] for row in timing] == [100, 200, 300, 400]
    assert all(row["steps_per_second"] > 0 for row in timing)


def test_evaluations_and_summary_agree(run):
    with (run.path / "evaluations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [0, 200, 400]
    summary = json.loads((run.path / "summary.json").read_text())
    assert float(rows[-1]["mean"]) == summary["after"]["mean"] == run.after.mean
    assert float(rows[0]["mean"]) == summary["before"]["mean"] == run.before.mean
    assert summary["best"]["mean"] == max(float(row["mean"]) for row in rows)
    assert summary["steps"] == 400
    # Every episode that ended, but for one whose reset is still to come, cost one row that is not an environment step.
    assert summary["steps"] - summary["environment_steps"] in (summary["episodes"], summary["episodes"] - 1)
    updates = [json.loads(line)["updates"] for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert summary["updates"] == updates[-1] > 0
    assert summary["versions"]["jax"] == jax.__version__


def test_tensorboard_holds_the_curves(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path)).Reload()
    assert {"train/quantile_loss", "train/return", "evaluation/mean"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("evaluation/mean")] == [0, 200, 400]


def test_one_seed_repeats_byte_for_byte_and_another_differs(run, tmp_path):
    again, other = train(tmp_path), train(tmp_path, seed=1)
    for name in ("metrics.jsonl", "evaluations.csv", "distributions.json", "policy/params.safetensors", "config.toml"):
        assert (again.path / name).read_bytes() == (run.path / name).read_bytes(), name
        assert (other.path / name).read_bytes() != (run.path / name).read_bytes(), name


def test_seeds_at_once_write_what_each_writes_alone(run, tmp_path):
    runs = fqf.train_seeds("classic/cartpole", seed=0, seeds=2, runs=tmp_path, **SMALL)
    assert [each.path.name for each in runs] == ["seed0", "seed1"]
    for name in ("metrics.jsonl", "evaluations.csv", "policy/params.safetensors"):
        assert (runs[0].path / name).read_bytes() == (run.path / name).read_bytes(), name


def test_an_existing_run_is_not_overwritten_silently(run, tmp_path):
    before = (run.path / "metrics.jsonl").read_bytes()
    with pytest.raises(fqf.UserError, match="holds a finished run; choose another --seed or --runs, or replace"):
        train(run.path.parents[2])
    assert (run.path / "metrics.jsonl").read_bytes() == before
    stranger = tmp_path / "fqf" / "classic.cartpole" / "seed0"
    stranger.mkdir(parents=True)
    (stranger / "thesis.txt").write_text("precious")
    with pytest.raises(fqf.UserError, match="not a run directory"):
        train(tmp_path, overwrite=True)
    assert (stranger / "thesis.txt").read_text() == "precious"


def test_bad_options_write_nothing(tmp_path):
    for options in (
        {"num_fractions": 0},
        {"lerning_rate": 1.0},
        {"batch_size": -3},
        {"env": "toy/uniform"},
        {"torso": "atari"},
    ):
        with pytest.raises(fqf.UserError):
            train(tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()


def test_policy_acts_and_tells_distributions(run):
    observation = np.array([0.0, 0.1, 0.0, -0.1], np.float32)
    distribution = run.policy.distribution(observation)
    assert distribution.values.shape == distribution.probabilities.shape == (2, 3)
    np.testing.assert_allclose(distribution.probabilities.sum(axis=1), 1.0)
    best = int(np.argmax(np.sum(distribution.probabilities * distribution.values, axis=1)))
    assert run.policy.act(observation) == best
    batch = np.stack([observation, -observation, 2 * observation])
    assert run.policy.act(batch).shape == (3,)
    assert run.policy.distribution(batch).values.shape == (3, 2, 3)
    with pytest.raises(fqf.UserError, match=r"shape \(3,\) was given; classic/cartpole has \(4,\)"):
        run.policy.act([0.0, 0.0, 0.0])


def test_a_loaded_policy_is_the_saved_one(run):
    loaded = fqf.load(run.path)
    observation = np.array([0.3, -0.1, 0.05, 0.2], np.float32)
    np.testing.assert_array_equal(loaded.distribution(observation).values, run.policy.distribution(observation).values)
    assert loaded.config == run.policy.config
    assert loaded.spec == run.policy.spec


def test_bad_policies_are_refused_in_one_line(run, tmp_path):
    def copy(name, change):
        directory = tmp_path / name / "policy"
        directory.mkdir(parents=True)
        files = {path.name: path.read_bytes() for path in (run.path / "policy").iterdir()}
        for file, content in change(files).items():
            (directory / file).write_bytes(content)
        return directory.parent

    tensors = safetensors.numpy.load((run.path / "policy" / "params.safetensors").read_bytes())
    config = (run.path / "policy" / "config.toml").read_bytes()
    cases = {
        "truncated": lambda files: files | {"params.safetensors": files["params.safetensors"][:100]},
        "garbage": lambda files: files | {"params.safetensors": b"\x80\x04pickle?"},
        "no_format": lambda files: files | {"params.safetensors": safetensors.numpy.save(tensors)},
        "other_shape": lambda files: files | {"config.toml": config.replace(b"hidden = 8", b"hidden = 9")},
        "unknown_key": lambda files: files | {"config.toml": config + b"\nhiden = 9\n"},
        "missing": lambda files: {"config.toml": config},
    }
    for name, change in cases.items():
        with pytest.raises(fqf.UserError) as error:
            fqf.load(copy(name, change))
        assert "\n" not in str(error.value), name
    with pytest.raises(fqf.UserError, match="holds no finished run"):
        fqf.load(tmp_path / "nowhere")
    (tmp_path / "scores.csv").touch()
    with pytest.raises(fqf.UserError, match=r"scores\.csv is a file: name the directory of a run"):
        fqf.load(tmp_path / "scores.csv")


def test_an_environment_object_in_place_of_an_id(tmp_path):
    environment, _ = gymnax.make("CartPole-v1")
    run = fqf.train(environment, runs=tmp_path, **SMALL)
    assert run.path.parts[-2] == "custom.CartPole-v1"
    assert fqf.load(run.path).act([0.0, 0.0, 0.0, 0.0]) in (0, 1)


def test_an_environment_of_ones_own(tmp_path):
    """Two steps long; action 1 pays. Any learner must find that within a few hundred updates."""

    def step(key, state, action):
        over = jnp.array(state == 1)
        observation = jnp.array([1.0, 0.0]) * over
        return state + 1, Timestep(observation, action.astype(jnp.float32), 1.0 - over, over)

    spec = EnvironmentSpec("mine/lever", (2,), np.dtype("float32"), 2)
    lever = JittableEnvironment(spec, lambda key: (jnp.zeros((), jnp.int32), jnp.zeros(2)), step)
    run = fqf.train(lever, runs=tmp_path, **{**SMALL, "steps": 1_500, "evaluate_every_steps": 1_500})
    assert run.after.mean == 2.0
    assert run.after.mean_length == 2.0
    loaded = fqf.load(run.path)
    assert fqf.evaluate(loaded, lever, episodes=3).mean == 2.0
    with pytest.raises(fqf.UserError, match="an environment of your own"):
        fqf.evaluate(loaded)
    with pytest.raises(fqf.UserError, match=r"epsilon is 2\.0, but must be between 0 and 1"):
        fqf.evaluate(loaded, lever, epsilon=2.0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("no space left")])
def test_a_failure_of_one_seed_stops_the_others(tmp_path, monkeypatch, error):
    """Ctrl-C too: nobody waits for a run to end that was told to stop."""
    log = RunDirectory.log

    def fail(self, row, *others):
        if self.path.name == "seed1":
            raise error
        log(self, row, *others)

    monkeypatch.setattr(RunDirectory, "log", fail)
    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        fqf.train_seeds("classic/cartpole", seeds=2, runs=tmp_path, **{**SMALL, "steps": 50_000})
    lines = (tmp_path / "fqf" / "classic.cartpole" / "seed0" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) < 400  # of 500
    assert not (tmp_path / "fqf" / "classic.cartpole" / "seed0" / "summary.json").exists()


def test_a_run_that_diverges_says_so(tmp_path):
    with pytest.raises(Diverged, match=r"is (nan|-?inf) at step \d+ of .*seed0: the run has diverged"):
        train(tmp_path, learning_rate=1e30)
    rows = (tmp_path / "fqf" / "classic.cartpole" / "seed0" / "metrics.jsonl").read_text().splitlines()
    assert all(np.isfinite(value) for row in rows for value in json.loads(row).values() if value is not None)
