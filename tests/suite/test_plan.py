"""Plans as data: what they become, and what is refused before anything starts."""

import tomllib

import pytest

from fqf.agents import AGENTS
from fqf.environments.gymnax import MINATAR
from fqf.errors import UserError
from fqf.report.scores import published
from fqf.suite.orders import resolve
from fqf.suite.plan import SuiteRun, expand, find_plan, make_plan, ready_made, to_toml

SAID = {"agents": ["fqf", "iqn"], "envs": ["minatar/breakout", "classic/cartpole"], "seeds": 3, "steps": 40_000}


def plan(**said):
    return make_plan("grid", {**SAID, **said}, "plan grid")


def test_a_plan_becomes_runs_seed_by_seed():
    runs = expand(plan())
    assert len(runs) == 2 * 2 * 3
    assert [run.id for run in runs[:5]] == [
        "fqf/minatar.breakout/seed0",
        "iqn/minatar.breakout/seed0",
        "fqf/classic.cartpole/seed0",
        "iqn/classic.cartpole/seed0",
        "fqf/minatar.breakout/seed1",
    ]
    assert {run.steps for run in runs} == {40_000}
    assert [run.seed for run in expand(plan(seeds=[7, 3]))][::4] == [7, 3]


def test_options_of_an_agent_and_an_environment_come_after_those_for_all_and_the_variant_last():
    options = {"hidden": 1, "batch_size": 2, "fqf": {"hidden": 3}, "classic/cartpole": {"hidden": 4, "n_step": 5}}
    variants = {"small": {"batch_size": 6, "fqf": {"n_step": 7}}, "large": {}}
    found = {run.id: dict(run.options) for run in expand(plan(options=options, variants=variants, seeds=1))}
    assert len(found) == 8
    assert found["large/iqn/minatar.breakout/seed0"] == {"hidden": 1, "batch_size": 2}
    assert found["large/fqf/classic.cartpole/seed0"] == {"hidden": 4, "batch_size": 2, "n_step": 5}
    assert found["small/iqn/classic.cartpole/seed0"] == {"hidden": 4, "batch_size": 6, "n_step": 5}
    assert found["small/fqf/classic.cartpole/seed0"] == {"hidden": 4, "batch_size": 6, "n_step": 7}


def test_no_two_runs_share_a_directory_whatever_the_variant():
    for name in ready_made():
        runs = expand(make_plan(*find_plan(name), name))
        assert len({run.id for run in runs}) == len(runs)


@pytest.mark.parametrize(
    ("name", "count"),
    # games x seeds x agents (x variants): 55 x 3 x 2, 6 x 3 x 2 x 3, 5 x 5 x 1 x 4, 5 x 5 x 10, 2 x 2 x 2
    [("atari55", 330), ("atari6", 108), ("fractions", 100), ("minatar", 250), ("smoke", 8)],
)
def test_ready_made_plans_are_what_they_are_said_to_be(name, count):
    runs = expand(make_plan(*find_plan(name), name))
    assert len(runs) == count
    if name.startswith("atari"):
        assert {run.steps * 4 for run in runs} == {200_000_000}
        games = {run.env.removeprefix("atari/") for run in runs}
        assert games == set(published()) if name == "atari55" else len(games) == 6 and games < set(published())
    if name == "minatar":
        assert {run.agent for run in runs} == set(AGENTS)
    if name in ("minatar", "fractions"):
        assert {run.env for run in runs} == {f"minatar/{game}" for game in MINATAR}


def test_every_ready_made_plan_is_listed():
    assert set(ready_made()) == {"atari55", "atari6", "fractions", "minatar", "smoke"}


def test_the_table_over_n_has_the_same_n_for_both_agents():
    configs = resolve(expand(make_plan(*find_plan("atari6"), "atari6")), "atari6")
    for run, config in configs.items():
        n = int(run.variant.removeprefix("n"))
        algorithm = config.algorithm
        sizes = [algorithm.num_fractions] if run.agent == "fqf" else [algorithm.num_quantiles]
        assert sizes + ([algorithm.num_target_quantiles] if run.agent == "iqn" else []) == [n] * (
            1 if run.agent == "fqf" else 2
        )


def test_a_plan_written_and_read_again_is_the_same():
    for name in ready_made():
        first = make_plan(*find_plan(name), name)
        assert make_plan(name, tomllib.loads(to_toml(first)), name) == first


def test_configs_are_those_that_train_would_read():
    options = {"torso_layers": [5, 6], "checkpoint_minutes": 3, "learning_rate": 1}
    (run,) = expand(plan(agents=["dqn"], envs=["classic/cartpole"], seeds=[4], options=options))
    config = resolve([run], "plan grid")[run]
    assert (config.agent, config.env, config.seed, config.steps) == ("dqn", "classic/cartpole", 4, 40_000)
    assert config.network.torso_layers == (5, 6)
    assert config.learning_rate == 1.0
    assert run == SuiteRun(
        "dqn",
        "classic/cartpole",
        4,
        40_000,
        options=(("torso_layers", (5, 6)), ("checkpoint_minutes", 3), ("learning_rate", 1)),
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"agnets": ["fqf"]}, "unknown key 'agnets' in plan grid; did you mean 'agents'?"),
        ({"agents": []}, "plan grid has no agents: the plan is empty"),
        ({"envs": ""}, "plan grid has no envs: the plan is empty"),
        ({"seeds": []}, "plan grid has no seeds: the plan is empty"),
        ({"seeds": 0}, "seeds is 0, but must be a whole number, at least 1"),
        ({"seeds": [1, 1]}, "seeds names 1 twice"),
        ({"seeds": [-1]}, "a seed is -1, but must be a whole number, at least 0"),
        ({"agents": ["fqf", "fqf"]}, "agents names 'fqf' twice"),
        ({"agents": ["fqq"]}, "unknown agent 'fqq' in plan grid; did you mean 'fqf'?"),
        ({"envs": ["minatar/brekout"]}, "unknown environment 'minatar/brekout'; did you mean 'minatar/breakout'?"),
        ({"envs": 3}, "envs is 3, but must be a list of names"),
        ({"steps": 1.5}, "steps is 1.5, but must be a whole number, at least 1"),
        ({"cpus": 0}, "cpus is 0, but must be a whole number, at least 1"),
        ({"memory_gb": "much"}, "memory_gb is 'much', but must be a number, 0 or more"),
        ({"gpus": -0.5}, "gpus is -0.5, but must be a number, 0 or more"),
        ({"retries": -1}, "retries is -1, but must be a whole number, at least 0"),
        ({"options": 3}, "options is 3, but must be a table"),
        ({"options": {"seed": 3}}, "options in plan grid sets seed, which the plan or the command line does"),
        (
            {"options": {"fqf": {"runs": "x"}}},
            "options in plan grid sets runs, which the plan or the command line does",
        ),
        ({"options": {"fqq": {}}}, "options.fqq in plan grid is for no agent or environment of the plan; did you mean"),
        ({"options": {"fqf": {"iqn": {}}}}, "options.fqf.iqn in plan grid is a table too deep"),
        ({"variants": {"a/b": {}}}, "variant 'a/b' in plan grid can't name a directory"),
        ({"variants": {"suite": {}}}, "variant 'suite' in plan grid can't name a directory"),
        ({"variants": {"dqn": {}}}, "variant 'dqn' in plan grid can't name a directory"),
    ],
)
def test_mistakes_in_a_plan_are_one_line(said, words):
    with pytest.raises(UserError) as error:
        plan(**said)
    assert words in str(error.value)


def test_a_plan_says_for_how_many_steps():
    with pytest.raises(UserError, match="does not say for how many steps: add steps, such as steps = 1_000_000"):
        make_plan("grid", {key: value for key, value in SAID.items() if key != "steps"}, "plan grid")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lerning_rate": 1}, "fqf on minatar/breakout: unknown key 'lerning_rate' in plan grid; did you mean"),
        ({"num_quantiles": 8}, "num_quantiles in plan grid is not an option of this agent; it is one of qr_dqn, iqn"),
        ({"learning_rate": -1}, "fqf on minatar/breakout: learning_rate is -1.0, but must be 0 or more"),
        ({"checkpoint_minutes": 0}, "checkpoint_minutes is 0.0, but must be greater than 0"),
        ({"priority_exponent": 0.6}, "--priority-exponent has no effect on uniform replay"),
        ({"hidden": "wide"}, "hidden is 'wide', but must be a whole number"),
    ],
)
def test_options_that_train_would_refuse_are_refused_before_anything_starts(options, words):
    with pytest.raises(UserError) as error:
        resolve(expand(plan(options=options)), "plan grid")
    assert words in str(error.value)
