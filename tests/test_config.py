"""One flat namespace of options, checked before anything is written."""

import dataclasses

import pytest

from fqf.agents import AGENTS, check_names
from fqf.config import RunConfig, check, flatten, num_periods, num_updates, override, periods, read_toml, to_toml
from fqf.environments import IDS, NoOptions, family
from fqf.environments.atari import PROTOCOLS
from fqf.errors import UserError
from fqf.presets import FOR_AGENTS, PRESETS, preset
from fqf.schedule import schedule


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("env", [id for id in IDS if family(id) != "atari"] + ["atari/pong", "gym/CartPole-v1"])
def test_every_preset_is_valid_and_survives_toml(agent, env, tmp_path):
    config = preset(agent, env)
    check(config)
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config))
    assert override(preset(agent, env), read_toml(path)) == config


def test_presets_name_options_that_exist():
    """`override` passes over names of other parts, so a typo would be silent."""
    known = {name for entry in AGENTS.values() for name in flatten(RunConfig(entry.config, NoOptions()))}
    for name, options in PRESETS.items():
        assert set(options) <= known, name
    for protocol, options in PROTOCOLS.items():
        assert set(options) <= set(flatten(preset("fqf", "atari/pong"))), protocol
    for agent, entry in AGENTS.items():
        own = set(flatten(RunConfig(entry.config, NoOptions())))
        assert set(entry.settings) | set(entry.rates) <= own, agent
        for name, agents in FOR_AGENTS.items():
            assert set(agents.get(agent, {})) <= own, (name, agent)


def test_the_shortest_run_has_one_update():
    config = override(preset("fqf", "classic/cartpole"), {"steps": 1_004})
    check(config)
    assert [chunk.length for chunk in schedule(config)] == [1_000, 1]


def test_names_are_unique_across_the_parts():
    config = preset("fqf", "atari/pong")
    parts = [config, config.network, config.algorithm, config.environment]
    names = [
        item.name for part in parts for item in dataclasses.fields(part) if not dataclasses.is_dataclass(item.type)
    ]
    assert len(names) == len(set(names))


def test_defaults_are_the_papers():
    """FQF section 4 and its hyper-parameter sheet."""
    options = flatten(RunConfig(AGENTS["fqf"].config, NoOptions()))
    paper = {"num_fractions": 32, "learning_rate": 5e-5, "batch_size": 32, "discount": 0.99, "steps": 50_000_000}
    paper |= {"fraction_learning_rate": 2.5e-9, "exploration_epsilon": 0.01, "evaluation_epsilon": 0.001, "n_step": 1}
    paper |= {"target_weights": "equal", "value_fractions": "midpoints", "target_fractions": "current"}
    assert {name: options[name] for name in paper} == paper
    assert AGENTS["fqf_consistent"].config.target_weights == "widths"
    assert AGENTS["fqf_consistent"].config.value_fractions == "midpoints_and_edges"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_fractions": 0}, ["num_fractions is 0", "at least 1"]),
        ({"batch_size": 200_000}, ["batch_size is 200000", "at most replay_capacity (100000)"]),
        ({"learning_rate": -1.0}, ["learning_rate is -1.0", "0 or more"]),
        ({"fraction_learning_rate": -1e-9}, ["fraction_learning_rate is -1e-09", "0 or more"]),
        ({"discount": 1.5}, ["discount is 1.5", "between 0 and 1"]),
        ({"huber_kappa": 0.0}, ["huber_kappa is 0.0", "greater than 0"]),
        ({"lanes": 3, "update_period_steps": 2, "steps": 1_007}, ["steps is 1007", "at least 1008"]),
        ({"lanes": 0}, ["lanes is 0", "at least 1"]),
        ({"steps": 10}, ["steps is 10", "at least 1004, for one update after learning_starts_steps"]),
        ({"steps": 1_003}, ["steps is 1003", "at least 1004"]),
        ({"lanes": 64, "steps": 1_087}, ["steps is 1087", "at least 1088"]),
        ({"importance_exponent": 1.5}, ["importance_exponent is 1.5", "between 0 and 1"]),
        ({"final_rate_share": 1.1}, ["final_rate_share is 1.1", "between 0 and 1"]),
        ({"learning_starts_steps": 3}, ["learning_starts_steps is 3", "at least 64"]),
        ({"learning_rate": float("nan")}, ["learning_rate is nan", "finite"]),
        ({"torso_layers": ()}, ["torso_layers", "at least one layer"]),
        ({"evaluation_episodes": 0}, ["evaluation_episodes is 0", "at least 1"]),
    ],
)
def test_impossible_values_are_refused_in_one_line(options, words):
    config = override(preset("fqf", "classic/cartpole"), {"batch_size": 64} | options)
    with pytest.raises(UserError) as error:
        check(config)
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": "many"}, ["steps is 'many'", "whole number"]),
        ({"steps": 1.5}, ["steps is 1.5", "whole number"]),
        ({"steps": True}, ["steps is True", "whole number"]),
        ({"learning_rate": "fast"}, ["learning_rate is 'fast'", "a number"]),
        ({"fractions": "proposd"}, ["did you mean 'proposed'?"]),
        ({"torso_layers": [64, "x"]}, ["list of whole numbers"]),
        ({"env": 3}, ["env is 3", "a text"]),
    ],
)
def test_values_of_the_wrong_type_are_refused(options, words):
    with pytest.raises(UserError) as error:
        override(preset("fqf", "classic/cartpole"), options)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_unknown_names_get_the_nearest():
    config = preset("fqf", "classic/cartpole")
    with pytest.raises(UserError, match=r"unknown key 'lerning_rate' in my.toml; did you mean 'learning_rate'"):
        check_names({"lerning_rate": 1}, flatten(config), "my.toml")
    with pytest.raises(UserError, match="unknown agent 'fqff'; did you mean 'fqf'"):
        preset("fqff", "classic/cartpole")
    with pytest.raises(UserError, match="did you mean 'minatar/breakout'"):
        preset("fqf", "minatar/brekout")


def test_an_option_of_other_agents_names_them():
    valid = flatten(preset("dqn", "classic/cartpole"))
    words = "num_atoms in my.toml is not an option of this agent; it is one of c51, rainbow"
    with pytest.raises(UserError, match=words):
        check_names({"num_atoms": 7}, valid, "my.toml")


@pytest.mark.parametrize("env", ["classic/cartpole", "minatar/breakout"])
def test_what_an_agent_is_survives_every_family(env):
    rainbow = flatten(preset("rainbow", env))
    assert (rainbow["replay"], rainbow["double"], rainbow["exploration_epsilon"]) == ("prioritized", True, 0.0)
    assert flatten(preset("prioritized", env))["priority_exponent"] == 0.6
    assert flatten(preset("dqn", env))["replay"] == "uniform"
    assert not flatten(preset("fqf", env))["double"]


def test_bad_toml_is_one_line(tmp_path):
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(UserError, match=r"bad.toml is not valid TOML"):
        read_toml(tmp_path / "bad.toml")
    with pytest.raises(UserError, match="No such file"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize(("lanes", "period"), [(1, 1), (1, 4), (4, 4), (8, 4), (64, 64)])
def test_schedule_covers_the_run_exactly_once(lanes, period):
    options = {"steps": 10_000, "lanes": lanes, "update_period_steps": period, "learning_starts_steps": 1_003}
    options |= {"log_every_steps": 700, "evaluate_every_steps": 1_900}
    config = override(preset("fqf", "classic/cartpole"), options)
    chunks = schedule(config)
    assert chunks[0].warm_up
    assert not any(chunk.warm_up for chunk in chunks[1:])
    position = 0
    for chunk in chunks:
        assert chunk.vector_step * lanes == position
        assert chunk.length > 0
        position += chunk.steps
    assert 10_000 - max(lanes, period) < position <= 10_000
    assert sum(chunk.length for chunk in chunks[1:]) == num_periods(config)
    assert num_updates(config) == (position - chunks[0].steps) // period
    assert chunks[-1].evaluate
    evaluated = [end for end, chunk in zip(_ends(chunks), chunks, strict=True) if chunk.evaluate]
    assert [end // 1_900 for end in evaluated[:-1]] == [1, 2, 3, 4, 5][: len(evaluated) - 1]


def _ends(chunks):
    position = 0
    for chunk in chunks:
        position += chunk.steps
        yield position


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_atoms": 1}, "num_atoms is 1, but must be at least 2"),
        ({"v_max": -200.0}, "v_max is -200.0, but must be more"),
    ],
)
def test_impossible_grids_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        check(override(preset("c51", "classic/cartpole"), options))


@pytest.mark.parametrize(
    ("period", "lanes", "vector_steps", "updates"),
    [(4, 1, 4, 1), (4, 2, 2, 1), (4, 8, 1, 2), (4, 3, 4, 3), (6, 4, 3, 2)],
)
def test_any_number_of_lanes_keeps_the_ratio_of_updates_to_steps(period, lanes, vector_steps, updates):
    assert periods(period, lanes) == (vector_steps, updates)
    assert vector_steps * lanes == updates * period
