"""The table over N: what is counted as N, N' and K, and what percents are of."""

import csv

import pytest

from fqf import cli


def rows_of(path):
    with path.open() as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]


def iqn(n, target=None, action=None):
    return {"num_quantiles": n, "num_target_quantiles": target or n, "num_action_quantiles": action or n}


def test_scores_and_percents(write_run, tmp_path, capsys):
    for n, breakout, asterix in ((4, 5.0, 11.0), (8, 9.0, 21.0)):
        runs = tmp_path / "runs" / f"n{n}"
        write_run("fqf", "minatar/breakout", 0, [1.0, 0.0, breakout - 1], runs=runs, num_fractions=n)
        write_run("fqf", "minatar/breakout", 1, [1.0, 0.0, breakout + 1], runs=runs, num_fractions=n)
        write_run("fqf", "minatar/asterix", 0, [1.0, 0.0, asterix], runs=runs, num_fractions=n)
        write_run("iqn", "minatar/breakout", 0, [1.0, 0.0, 3.0], runs=runs, **iqn(n))
        write_run("iqn", "minatar/asterix", 0, [1.0, 0.0, 6.0], runs=runs, **iqn(n))
    write_run("iqn", "minatar/breakout", 0, [1.0, 0.0, 7.0], runs=tmp_path / "runs" / "n64", **iqn(64))
    arguments = ["paper", "n-sweep", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    assert "IQN: N' = K = N in the config of every run" in said
    assert f"n-sweep.png, .svg, .csv: {tmp_path / 'runs'}: last scores of 11 runs" in said
    assert "; not in mean %: minatar/asterix has no finished run of iqn at N = 64; " in said
    assert "no runs of fqf at N = 64; no finished run of iqn at N = 64 on minatar/asterix" in said
    rows = rows_of(tmp_path / "n-sweep.csv")
    assert [row for row in rows if row[4] == "minatar/breakout"] == [
        ("iqn", "4", "4", "4", "minatar/breakout", "3.0", "1"),
        ("iqn", "8", "8", "8", "minatar/breakout", "3.0", "1"),
        ("iqn", "64", "64", "64", "minatar/breakout", "7.0", "1"),
        ("fqf", "4", "", "", "minatar/breakout", "5.0", "2"),
        ("fqf", "8", "", "", "minatar/breakout", "9.0", "2"),
        ("fqf", "64", "", "", "minatar/breakout", "", "0"),  # nobody ran it
    ]
    # All have Breakout only: 0 % is its untrained 1, 100 % the best mean, 9.
    percents = {row[:2]: float(row[5]) for row in rows if row[4] == "mean_percent"}
    assert percents == {
        ("iqn", "4"): pytest.approx(25),
        ("iqn", "8"): pytest.approx(25),
        ("iqn", "64"): pytest.approx(75),
        ("fqf", "4"): pytest.approx(50),
        ("fqf", "8"): pytest.approx(100),
    }
    assert cli.main([*arguments, "--agents", "fqf"]) == 0
    percents = {row[1]: float(row[5]) for row in rows_of(tmp_path / "n-sweep.csv") if row[4] == "mean_percent"}
    # Both games: Breakout 50 and 100 as above, Asterix from 1 to 21, so 11 is 50.
    assert percents == {"4": pytest.approx(50), "8": pytest.approx(100)}


def test_the_projects_own_files_are_put_together(write_run, collect, tmp_path, capsys, monkeypatch):
    """N = 8 is in the comparison of all agents, which has other games and other agents, too."""
    for n in (4, 32):
        write_run("fqf", "minatar/breakout", 0, [0.0, 1.0, 2.0], runs=tmp_path / "n" / f"n{n}", num_fractions=n)
    write_run("fqf", "minatar/breakout", 0, [0.0, 1.0, 3.0], runs=tmp_path / "agents")
    write_run("fqf", "minatar/asterix", 0, [0.0, 1.0, 3.0], runs=tmp_path / "agents")
    write_run("dqn", "minatar/breakout", 0, [0.0, 1.0, 3.0], runs=tmp_path / "agents")
    monkeypatch.chdir(tmp_path)
    collect([tmp_path / "agents"], tmp_path / "results" / "agents.csv")
    assert cli.main(["paper", "n-sweep", "--out", "out"]) == 2
    assert "there is no results/n_sweep.csv here" in capsys.readouterr().err
    collect([tmp_path / "n"], tmp_path / "results" / "n_sweep.csv")
    assert cli.main(["paper", "n-sweep", "--out", "out"]) == 0
    scores = {row[1]: row[5] for row in rows_of(tmp_path / "out" / "n-sweep.csv") if row[4] == "minatar/breakout"}
    assert scores == {"4": "2.0", "8": "3.0", "32": "2.0"}
    assert "asterix" not in (tmp_path / "out" / "n-sweep.csv").read_text()
    assert "out/n-sweep.png, .svg, .csv: results/n_sweep.csv, results/agents.csv: last" in capsys.readouterr().out


def test_atari_is_in_percent_of_the_human(write_run, tmp_path):
    write_run("fqf", "atari/pong", 0, [-21.0, 0.0, 14.6], steps=1_000_000, num_fractions=64)
    write_run("fqf", "atari/breakout", 0, [0.0, 0.0, 16.1], steps=1_000_000, num_fractions=64)
    assert cli.main(["paper", "n-sweep", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    (row,) = [row for row in rows_of(tmp_path / "n-sweep.csv") if row[4] == "mean_percent"]
    assert row[:4] == ("fqf", "64", "", "")
    assert float(row[5]) == pytest.approx(75)  # 100 % in Pong; in Breakout (16.1 - 1.7) / (30.5 - 1.7) is a half


def test_what_differs_by_more_than_n_is_refused(write_run, tmp_path, capsys):
    runs, scores = tmp_path / "runs", [0.0, 1.0, 2.0]
    arguments = ["paper", "n-sweep", "--runs", str(runs), "--out", str(tmp_path)]
    write_run("iqn", "minatar/breakout", 0, scores, runs=runs / "a", **iqn(8, 8, 32))
    write_run("iqn", "minatar/breakout", 0, scores, runs=runs / "c", **iqn(32, 8, 32))
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    assert "IQN: N' and K as in the runs' configs: 8 and 32 at N = 8, 8 and 32 at N = 32; no runs of fqf" in said
    write_run("iqn", "minatar/breakout", 0, scores, runs=runs / "b", **iqn(8))
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err == (
        "fqf: iqn at N = 8 has runs with N' = 8, K = 8 and N' = 8, K = 32: name runs of one kind\n"
    )
    write_run("fqf", "minatar/breakout", 0, scores)
    write_run("fqf", "minatar/breakout", 1, scores, hidden=7)
    assert cli.main([*arguments, "--agents", "fqf"]) == 2
    assert "only N may differ, but runs of fqf differ by hidden" in capsys.readouterr().err
    write_run("dqn", "minatar/breakout", 0, scores)
    assert cli.main([*arguments, "--agents", "dqn"]) == 2
    assert capsys.readouterr().err == "fqf: dqn has no number of fractions: leave it out of --agents\n"
    write_run("fqf_consistent", "classic/cartpole", 0, scores)
    write_run("fqf_consistent", "minatar/breakout", 0, scores)
    assert cli.main([*arguments, "--agents", "fqf_consistent"]) == 2
    assert "one table takes one family of environments, but these are of classic and minatar" in capsys.readouterr().err
