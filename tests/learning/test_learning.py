"""Agents learn what they must, and the tests that say so fail when the loss has the wrong sign."""

import numpy as np
import pytest

import fqf
from fqf.agents import AGENTS, Entry
from fqf.laws import EXPONENTIAL, UNIFORM, compare

# Exponential law, N = 8: uniform fractions allow W1 0.1511, the optimum is 0.1178.
FRACTIONS_BAR, STAIRCASE_BAR = 0.120, 0.130


@pytest.fixture
def flipped(monkeypatch):
    """FQF that climbs its loss."""
    original = AGENTS["fqf_consistent"]

    def make(*arguments):
        agent = original.make(*arguments)

        def loss(*inputs):
            output = agent.loss(*inputs)
            return output._replace(loss=-output.loss)

        return agent._replace(loss=loss)

    monkeypatch.setitem(AGENTS, "flipped", Entry(original.config, make))
    return "flipped"


def exponential(agent, directory, seeds=5, **options):
    runs = fqf.train_seeds("toy/exponential", agent, seeds=seeds, runs=directory, quiet=True, **options)
    return [measure(run, EXPONENTIAL) for run in runs]


def measure(run, law):
    distribution = run.policy.distribution(np.ones(1))
    if not np.all(np.isfinite(distribution.values)):
        return compare(law.quantile, distribution.probabilities[0], np.full(8, np.inf))
    return compare(law.quantile, distribution.probabilities[0], distribution.values[0])


def passed(results):
    return sum(each.fractions <= FRACTIONS_BAR and each.w1 <= STAIRCASE_BAR for each in results)


SHORT = {"steps": 5_120 + 64 * 4_000, "evaluation_episodes": 2}


def test_fqf_learns_an_exact_law_in_short(tmp_path):
    """4,000 updates: fractions are on their way from 0.1511 and the staircase is near the truth."""
    (result,) = exponential("fqf_consistent", tmp_path, seeds=1, **SHORT)
    assert result.fractions < 0.13
    assert result.w1 < 0.16


def test_the_short_test_fails_with_the_sign_flipped(flipped, tmp_path):
    (result,) = exponential(flipped, tmp_path, seeds=1, **SHORT)
    assert not result.w1 < 0.16
    assert not result.fractions < 0.13


@pytest.mark.slow
def test_consistent_fqf_finds_the_optimal_fractions_of_an_exponential_return(tmp_path):
    results = exponential("fqf_consistent", tmp_path)
    assert passed(results) >= 4, results


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"fractions": "uniform"}], ids=["as printed", "uniform"])
def test_fqf_as_printed_and_uniform_fractions_do_not(options, tmp_path):
    results = exponential("fqf", tmp_path, **options)
    assert passed(results) == 0, results


@pytest.mark.slow
def test_fractions_of_a_uniform_return_stay_uniform(tmp_path):
    """The optimum is i/N, W1 = 1/(2N) = 0.0625; noise may cost a few percent, and no edge strays by half a width."""
    runs = fqf.train_seeds("toy/uniform", "fqf_consistent", seeds=2, runs=tmp_path, quiet=True)
    for run in runs:
        widths = run.policy.distribution(np.ones(1)).probabilities[0]
        assert np.max(np.abs(np.cumsum(widths) - np.arange(1, 9) / 8)) < 1 / 16
        assert measure(run, UNIFORM).fractions < 1.05 / 16
