"""Agents learn what they must, and the tests that say so fail when the loss has the wrong sign."""

import numpy as np
import pytest

import fqf
from fqf.agents import AGENTS, Entry
from fqf.errors import Diverged
from fqf.laws import EXPONENTIAL, UNIFORM, compare

# Exponential law, N = 8: uniform fractions allow W1 0.1511, the optimum is 0.1178.
FRACTIONS_BAR, STAIRCASE_BAR = 0.120, 0.130


@pytest.fixture
def flip(monkeypatch):
    """Makes an agent that climbs its loss, and gives its name."""

    def flip(name):
        original = AGENTS[name]

        def make(*arguments):
            agent = original.make(*arguments)

            def loss(*inputs):
                output = agent.loss(*inputs)
                return output._replace(loss=-output.loss)

            return agent._replace(loss=loss)

        monkeypatch.setitem(AGENTS, "flipped", Entry(original.config, make))
        return "flipped"

    return flip


def exponential(agent, directory, seeds=5, **options):
    runs = fqf.train_seeds("toy/exponential", agent, seeds=seeds, runs=directory, quiet=True, **options)
    return [measure(run, EXPONENTIAL) for run in runs]


def measure(run, law):
    distribution = run.policy.distribution(np.ones(1))
    return compare(law.quantile, distribution.probabilities[0], distribution.values[0])


def passed(results):
    return sum(each.fractions <= FRACTIONS_BAR and each.w1 <= STAIRCASE_BAR for each in results)


SHORT = {"steps": 5_120 + 64 * 4_000, "evaluation_episodes": 2}


def test_fqf_learns_an_exact_law_in_short(tmp_path):
    """4,000 updates: fractions are on their way from 0.1511 and the staircase is near the truth."""
    (result,) = exponential("fqf_consistent", tmp_path, seeds=1, **SHORT)
    assert result.fractions < 0.13
    assert result.w1 < 0.16


def test_the_short_test_fails_with_the_sign_flipped(flip, tmp_path):
    try:
        (result,) = exponential(flip("fqf_consistent"), tmp_path, seeds=1, **SHORT)
    except Diverged:
        return
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


@pytest.mark.slow
def test_fractions_hold_after_200_000_updates(tmp_path):
    results = exponential("fqf_consistent", tmp_path, seeds=2, steps=5_120 + 64 * 200_000)
    assert all(result.fractions <= 0.125 for result in results), results


def cartpole(agent, directory, seeds):
    return [run.after.mean for run in fqf.train_seeds("classic/cartpole", agent, seeds=seeds, runs=directory)]


@pytest.mark.slow
def test_fqf_solves_cartpole(tmp_path):
    """Seeds 0 to 4; the preset was chosen on 1000 and above."""
    scores = cartpole("fqf", tmp_path, seeds=5)
    assert sum(score >= 475 for score in scores) >= 4, scores


BREAKOUT = {"steps": 100_000, "evaluate_every_steps": 100_000}


@pytest.mark.slow
def test_fqf_learns_breakout(tmp_path):
    """A random policy gets about 0.5."""
    assert fqf.train("minatar/breakout", "fqf", runs=tmp_path, **BREAKOUT).after.mean >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("env", "options", "bar"), [("classic/cartpole", {}, 475), ("minatar/breakout", BREAKOUT, 3)])
def test_games_are_not_learned_with_the_sign_flipped(env, options, bar, flip, tmp_path):
    try:
        run = fqf.train(env, flip("fqf"), runs=tmp_path, **options)
    except Diverged:
        return
    assert run.after.mean < bar
