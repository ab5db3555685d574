"""The toy figure's numbers, of staircases made by hand; training on the law is tested elsewhere."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fqf.config import override, to_toml
from fqf.errors import UserError
from fqf.laws import EXPONENTIAL
from fqf.paper import toy
from fqf.policy import Policy
from fqf.presets import preset
from fqf.results import Run
from fqf.rundir import run_path
from fqf.types import EnvironmentSpec

EQUAL = (np.full(4, 0.25), EXPONENTIAL.quantile(np.array([0.125, 0.375, 0.625, 0.875])))


def test_samples_are_of_the_law():
    samples = toy.sampled_returns(4_000, 0)
    assert samples.shape == (4_000,)
    assert stats.kstest(samples, "expon").pvalue > 0.01
    assert not np.array_equal(samples, toy.sampled_returns(4_000, 1))
    # E|empirical - exact| falls as 1 / sqrt(n); at 4,000 it is about 0.016, and the midpoint rule adds less than 0.001.
    assert 0.002 < toy.w1_to_law(EXPONENTIAL.quantile, samples) < 0.05


def test_w1_to_samples_by_hand():
    # Atoms 0 and 3 with probabilities 1/4 and 3/4; samples 0, 1, 2, 4. By quarters of the fractions: |0 - 0|, |3 - 1|,
    # |3 - 2|, |3 - 4|, so (0 + 2 + 1 + 1) / 4.
    w1 = toy.w1_to_samples(np.array([0.25, 0.75]), np.array([0.0, 3.0]), np.array([4.0, 0.0, 2.0, 1.0]))
    assert w1 == pytest.approx(1.0)


def test_w1_to_law_by_hand():
    # Uniform[0, 2] in two steps has quantiles 0.5 and 1.5 in their middles: (|0.5 - 0| + |1.5 - 3|) / 2.
    assert toy.w1_to_law(lambda tau: 2 * tau, np.array([3.0, 0.0])) == 1.0


def test_the_data_behind_the_figure(tmp_path):
    found = {"equal": EQUAL, "shifted": (EQUAL[0], EQUAL[1] + 10)}
    for name in ("one", "other"):
        toy.draw_toy(found, np.array([1.0, 2.0]), tmp_path / name)
    with (tmp_path / "one" / "toy_w1.csv").open() as file:
        rows = {row["agent"]: row for row in csv.DictReader(file)}
    # Equal steps of the exponential law at N = 4: the sum of |integrals| telescopes over halves, with F = -ln(1 - t).
    halves = np.arange(9) / 8
    antiderivative = halves + np.append((1 - halves[:-1]) * np.log(1 - halves[:-1]), 0.0)
    integrals = np.diff(antiderivative)
    assert float(rows["equal"]["w1_exact"]) == pytest.approx(np.sum(integrals[1::2] - integrals[::2]), rel=1e-6)
    # Where a staircase lies above the law, W1 is the difference of the means; the last step, at 10 + 2.08, does, but
    # for a share of e^-12 of the fractions.
    above = float(rows["shifted"]["mean"]) - 1
    assert float(rows["shifted"]["w1_exact"]) == pytest.approx(above, abs=1e-4)
    assert float(rows["shifted"]["w1_monte_carlo"]) == pytest.approx(float(rows["shifted"]["mean"]) - 1.5)
    for suffix in ("png", "svg", "csv"):
        assert (tmp_path / "one" / f"toy.{suffix}").read_bytes() == (tmp_path / "other" / f"toy.{suffix}").read_bytes()


def test_every_agent_has_the_same_number_of_atoms():
    for name, (agent, settings) in toy.agents(5).items():
        counts = {key: value for key, value in settings.items() if key.startswith("num_")}
        assert counts, (name, agent)
        assert set(counts.values()) == {5}, (name, agent)


def test_a_run_that_is_there_is_not_repeated(tmp_path, monkeypatch):
    """Nor erased, whoever's it is, unless that is asked for; one that was stopped goes on."""
    config = override(preset("fqf", toy.ENV), {"num_fractions": 3})
    options = toy.Options(out=tmp_path, num_fractions=3)
    path = run_path(toy.runs_of(options), config)
    path.mkdir(parents=True)
    (path / "config.toml").write_text(to_toml(config))
    (path / "summary.json").write_text("{}")
    spec = EnvironmentSpec(toy.ENV, (1,), np.dtype("float32"), 1)
    loaded, trained, resumed = (Policy(config, spec, {}) for _ in range(3))
    launched = []
    monkeypatch.setattr(toy, "load", lambda path: loaded)
    monkeypatch.setattr(toy, "launch", lambda config, how: launched.append(how) or [Run(path, trained, None, None)])
    monkeypatch.setattr(toy, "resume", lambda paths: [Run(*paths, resumed, None, None)])
    assert toy.trained("fqf", {"num_fractions": 3}, options) is loaded
    assert toy.trained("fqf", {"num_fractions": 3}, replace(options, retrain=True)) is trained
    assert toy.trained("fqf", {"num_fractions": 4}, replace(options, num_fractions=4)) is trained
    assert [(how.runs.name, how.overwrite) for how in launched] == [("n3", True), ("n4", False)]
    with pytest.raises(UserError, match=r"seed0 holds a run with other options: .* replace it with --retrain"):
        toy.trained("fqf", {"num_fractions": 3, "huber_kappa": 0.5}, options)
    (path / "summary.json").unlink()
    assert toy.trained("fqf", {"num_fractions": 3}, options) is resumed
