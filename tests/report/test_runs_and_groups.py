"""Which directories a report takes, what it makes of broken ones, and which runs it puts together."""

import json

import pytest

from fqf.errors import UserError
from fqf.report.groups import differences, group, refuse_mixed
from fqf.report.runs import load

SCORES = [1.0, 5.0, 3.0]


def labels(runs, mixed=()):
    return {
        name: {label: sorted(games) for label, games in cells.items()} for name, cells in group(runs, mixed).items()
    }


def test_runs_are_found_at_any_depth_once(write_run, tmp_path):
    path = write_run("fqf", "minatar/breakout", 0, SCORES)
    (path / "policy").mkdir()
    (path / "policy" / "config.toml").write_text("not a run")
    write_run("dqn", "minatar/breakout", 3, SCORES)
    runs, skipped = load([tmp_path, path, path.parent])
    assert sorted(run.config["agent"] for run in runs) == ["dqn", "fqf"]
    assert skipped == []
    run = next(run for run in runs if run.path == path)
    assert run.curve == ((0, 150_000, 300_000), (1.0, 5.0, 3.0))
    assert (run.score("last"), run.score("best"), run.untrained) == (3.0, 5.0, 1.0)


def test_the_untrained_policy_is_never_the_best(write_run, tmp_path):
    write_run("fqf", "minatar/breakout", 0, [9.0, 2.0, 1.0])
    (run,), _ = load([tmp_path])
    assert run.score("best") == 2.0


def test_training_scores_are_read_where_the_protocol_reports_them(write_run, tmp_path):
    write_run("fqf", "atari/pong", 0, [-21.0, 4.0, 3.0], protocol="dopamine", steps=1_000_000)
    (run,), _ = load([tmp_path])
    assert run.curve == ((500_000, 1_000_000), (4.0, 3.0))  # evaluations have one less, and step 0
    assert run.untrained is None


def test_an_unfinished_run_goes_as_far_as_its_whole_lines(write_run, tmp_path):
    path = write_run("fqf", "minatar/breakout", 0, [1.0, 2.0, 3.0, 4.0, 5.0], finished=False)
    with (path / "evaluations.csv").open("a") as file:
        file.write("225000,train,0,0.001,4.")
    (run,), skipped = load([tmp_path])
    assert not run.finished
    assert run.curve == ((0, 75_000, 150_000), (1.0, 2.0, 3.0))
    assert run.seconds == 61.0
    assert skipped == []


def break_config(path):
    (path / "config.toml").write_text("agent = ")


def break_names(path):
    (path / "config.toml").write_text('agent = "fqf"\nenv = "minatar/breakout"\nseed = "0"\n')


def half_summary(path):
    text = (path / "summary.json").read_text()
    (path / "summary.json").write_text(text[: len(text) // 2])


def strange_summary(path):
    (path / "summary.json").write_text("[]")


def no_config(path):
    (path / "config.toml").unlink()


def no_scores(path):
    (path / "evaluations.csv").unlink()


def only_untrained(path):
    lines = (path / "evaluations.csv").read_text().splitlines(keepends=True)
    (path / "evaluations.csv").write_text("".join(lines[:2]))


def infinite(path):
    text = (path / "evaluations.csv").read_text()
    (path / "evaluations.csv").write_text(text.replace(",5.0,5.0", ",inf,5.0"))


def backwards(path):
    text = (path / "evaluations.csv").read_text()
    (path / "evaluations.csv").write_text(text.replace("300000,", "1000,"))


def no_steps(path):
    text = (path / "config.toml").read_text()
    (path / "config.toml").write_text(text.replace("steps = 300000", "steps = 0", 1))


def with_a_date(path):
    text = (path / "config.toml").read_text()
    (path / "config.toml").write_text(f"when = 2020-01-01\n{text}")


def binary(path):
    (path / "evaluations.csv").write_bytes(b"\xff\xfe\n\x00" * 9)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (break_config, "config.toml is not valid TOML"),
        (break_names, "config.toml has no seed"),
        (half_summary, "summary.json is half-written or damaged"),
        (strange_summary, "summary.json is not a run's"),
        (no_steps, "config.toml is not a run's"),
        (with_a_date, "config.toml is not a run's"),
        (no_config, "config.toml can't be read: No such file or directory"),
        (no_scores, "evaluations.csv can't be read: No such file or directory"),
        (only_untrained, "no score of a trained policy"),
        (infinite, "evaluations.csv has a score that is not finite"),
        (backwards, "evaluations.csv has steps out of order"),
        (binary, "evaluations.csv is damaged"),
    ],
)
def test_a_broken_run_is_listed_and_skipped(write_run, tmp_path, spoil, why):
    good, bad = (write_run("fqf", "minatar/breakout", seed, SCORES) for seed in (0, 1))
    spoil(bad)
    runs, skipped = load([tmp_path])
    assert [run.path for run in runs] == [good]
    assert skipped == [(bad, why)]


def test_a_copy_of_a_run_counts_once_and_the_finished_one_does(write_run, tmp_path):
    first = write_run("fqf", "minatar/breakout", 0, SCORES, runs=tmp_path / "a", finished=False)
    second = write_run("fqf", "minatar/breakout", 0, SCORES, runs=tmp_path / "b", log_every_steps=500)
    runs, skipped = load([tmp_path])
    assert [run.path for run in runs] == [second]
    assert skipped == [(first, f"the same config and seed as {second}")]


def test_a_directory_without_runs_is_listed_and_a_missing_one_is_an_error(write_run, tmp_path):
    write_run("fqf", "minatar/breakout", 0, SCORES)
    (tmp_path / "empty").mkdir()
    assert load([tmp_path / "runs", tmp_path / "empty"])[1] == [(tmp_path / "empty", "holds no run")]
    with pytest.raises(UserError, match="nowhere is not a directory: name run directories"):
        load([tmp_path / "nowhere"])


def test_variants_are_told_apart_by_what_differs(write_run, tmp_path):
    for number in (8, 32):
        for seed in range(2):
            write_run("fqf", "minatar/breakout", seed, SCORES, runs=tmp_path / str(number), num_fractions=number)
    write_run("fqf", "minatar/asterix", 0, SCORES, num_fractions=8)
    write_run("dqn", "minatar/breakout", 0, SCORES)
    write_run("fqf", "classic/cartpole", 0, SCORES, num_fractions=5)
    runs, _ = load([tmp_path])
    assert labels(runs) == {
        "classic": {"fqf": ["classic/cartpole"]},
        "minatar": {
            "dqn": ["minatar/breakout"],
            "fqf num_fractions=8": ["minatar/asterix", "minatar/breakout"],
            "fqf num_fractions=32": ["minatar/breakout"],
        },
    }
    assert list(group(runs)["minatar"]) == ["dqn", "fqf num_fractions=8", "fqf num_fractions=32"]


def test_a_variant_on_another_game_is_another_group(write_run, tmp_path):
    """Games of a family share their presets: somebody has changed one of these."""
    write_run("fqf", "minatar/breakout", 0, SCORES, num_fractions=8)
    write_run("fqf", "minatar/asterix", 0, SCORES, num_fractions=16)
    assert set(labels(load([tmp_path])[0])["minatar"]) == {"fqf num_fractions=8", "fqf num_fractions=16"}


@pytest.mark.parametrize(
    ("one", "other", "option"),
    [
        ({"protocol": "paper"}, {"protocol": "dopamine"}, "protocol"),
        ({"sticky_probability": 0.0}, {"sticky_probability": 0.25}, "sticky_probability"),
        ({"evaluation_epsilon": 0.001}, {"evaluation_epsilon": 0.01}, "evaluation_epsilon"),
        ({"steps": 1_000_000}, {"steps": 2_000_000}, "steps"),
    ],
)
def test_different_protocols_are_refused_across_agents(write_run, tmp_path, one, other, option):
    write_run("fqf", "atari/pong", 0, SCORES, **one)
    write_run("iqn", "atari/pong", 0, SCORES, **other)
    found = differences(load([tmp_path])[0])
    assert found[0].option == option
    with pytest.raises(UserError, match=f"different protocols: {option} is .* but .*add --mixed"):
        refuse_mixed(found)


def test_what_may_differ(write_run, tmp_path):
    """Budgets between games; exploration between agents, as Rainbow's noise explores; not exploration of one agent."""
    write_run("fqf", "atari/pong", 0, SCORES, steps=1_000_000)
    write_run("fqf", "atari/breakout", 0, SCORES, steps=2_000_000)
    write_run("rainbow", "atari/pong", 0, SCORES, steps=1_000_000)
    assert differences(load([tmp_path])[0]) == []
    write_run("fqf", "atari/pong", 1, SCORES, steps=1_000_000, exploration_epsilon=0.5)
    assert [each.option for each in differences(load([tmp_path])[0])] == ["exploration_epsilon"]


def test_protocols_of_two_games_stand_in_one_atari_table(write_run, tmp_path):
    write_run("fqf", "atari/pong", 0, SCORES, noop_max=0)
    write_run("fqf", "atari/breakout", 0, SCORES)
    assert [each.option for each in differences(load([tmp_path])[0])] == ["noop_max"]


def test_mixed_protocols_are_groups_of_their_own(write_run, tmp_path):
    write_run("fqf", "atari/pong", 0, SCORES, runs=tmp_path / "a", protocol="paper")
    write_run("fqf", "atari/pong", 0, SCORES, runs=tmp_path / "b", protocol="machado")
    write_run("fqf", "atari/pong", 1, SCORES, runs=tmp_path / "b", protocol="machado")
    runs, _ = load([tmp_path])
    cells = group(runs, differences(runs))["atari"]
    assert {label: len(games["atari/pong"]) for label, games in cells.items()} == {
        "fqf protocol=machado": 2,
        "fqf protocol=paper": 1,
    }


def test_a_summary_that_names_no_time_is_no_runs(write_run, tmp_path):
    path = write_run("fqf", "minatar/breakout", 0, SCORES)
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | {"seconds": "long"}))
    assert load([tmp_path])[1] == [(path, "summary.json is not a run's")]
