"""The appendix's table of raw scores, from runs: what is the best, and what is missing."""

import csv

import pytest

from fqf import cli
from fqf.paper import ARTEFACTS, Artefact, scores
from fqf.paper.scores import best, shown
from fqf.paper.style import agent_name, by_agent, fit_legend, game_name, game_names, inches, wrap


def table(path):
    with path.open() as file:
        return list(csv.reader(file))


def test_games_down_agents_across(write_run, tmp_path, capsys):
    write_run("iqn", "minatar/breakout", 0, [0.0, 9.0, 5.0])
    write_run("fqf", "minatar/breakout", 0, [0.0, 12.0, 10.0])
    write_run("fqf", "minatar/breakout", 1, [0.0, 24.0, 20.0])
    write_run("fqf_consistent", "minatar/space_invaders", 0, [0.0, 1.0, 3.0])
    unfinished = write_run("iqn", "minatar/space_invaders", 0, [0.0, 1.0, 3.0], finished=False)
    runs = str(tmp_path / "runs")
    assert cli.main(["paper", "scores", "--runs", runs, "--out", str(tmp_path / "last")]) == 0
    said = capsys.readouterr().out
    assert table(tmp_path / "last" / "scores.csv") == [  # no random or human scores: nobody has published any
        ["game", "iqn", "fqf", "fqf_consistent"],
        ["minatar/breakout", "5.0", "15.0", ""],
        ["minatar/space_invaders", "", "", "3.0"],
    ]
    assert f"scores.png, .svg, .csv: {runs}: last scores of 4 runs, 1 to 2 seeds of 3 agents on 2 games" in said
    assert "no finished run of iqn on minatar/space_invaders; no finished run of fqf on minatar/space_invaders" in said
    assert "; no runs of dqn, prioritized, prior_duel, c51, rainbow, qr_dqn; left out: " in said
    assert f"left out: {unfinished} (not finished)" in said
    assert (tmp_path / "last" / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert cli.main(["paper", "scores", "--runs", runs, "--out", str(tmp_path / "best"), "--score", "best"]) == 0
    assert table(tmp_path / "best" / "scores.csv")[1] == ["minatar/breakout", "9.0", "18.0", ""]
    for suffix in ("png", "svg"):  # best scores are other numbers, but one set of scores gives the same bytes
        assert cli.main(["paper", "scores", "--runs", runs, "--out", str(tmp_path / "again")]) == 0
        first, again = ((tmp_path / name / f"scores.{suffix}").read_bytes() for name in ("last", "again"))
        assert first == again


def test_atari_has_random_and_human_and_names_the_games_without_runs(write_run, tmp_path, capsys):
    write_run("fqf", "atari/pong", 0, [-21.0, 4.0, 21.0], steps=1_000_000)
    assert cli.main(["paper", "scores", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    found = table(tmp_path / "scores.csv")
    assert found[:2] == [["game", "random", "human", "fqf"], ["atari/pong", "-20.7", "14.6", "21.0"]]
    assert len(found) == 1 + 55
    assert ["atari/alien", "227.8", "7127.7", ""] in found
    assert "54 games of the paper's table have no run: blank in scores.csv" in capsys.readouterr().out


def test_the_best_as_shown():
    assert best(["1.0", "3.0", "-", "2.0"]) == [1]
    assert best([shown(14.96), shown(15.04), shown(14.9)]) == [0, 1]  # 15.0, 15.0, 14.9
    assert best(["0.0", "0.0", "0.0"]) == []  # as Montezuma's Revenge in the paper
    assert best(["-", "-21.0"]) == [1]
    assert best(["-", "-"]) == []


def test_names():
    assert by_agent(["fqf_rainbow", "fqf b=2", "fqf a=1", "dqn", "future"]) == [
        "dqn",
        "fqf b=2",
        "fqf a=1",
        "fqf_rainbow",
        "future",
    ]
    assert agent_name("qr_dqn num_quantiles=8") == "QR-DQN num_quantiles=8"
    assert game_name("atari/montezuma_revenge") == "MontezumaRevenge"
    assert list(game_names(["atari/bank_heist", "atari/pong"]).values()) == ["BankHeist", "Pong"]
    assert game_names(["atari/breakout", "minatar/breakout"]) == {
        "atari/breakout": "atari Breakout",
        "minatar/breakout": "minatar Breakout",
    }


def test_text_is_broken_where_it_would_be_too_wide():
    words = "seven words that do not fit here"
    assert wrap(words, 9.0) == words
    lines = wrap(words, inches("seven words that")).split("\n")
    assert lines[0] == "seven words that"
    assert " ".join(lines) == words
    assert wrap("unbreakable word", 0.01) == "unbreakable\nword"
    names, columns, rows = fit_legend(["a", "bb", "c", "d"], 3.0)
    assert (names, columns, rows) == (["a", "bb", "c", "d"], 3, 2)
    names, columns, rows = fit_legend(["a", "one two three four five six seven eight nine ten"], 1.5)
    assert (columns, rows) == (1, 2 * (1 + names[1].count("\n")))
    assert max(map(inches, names)) <= 1.5


def test_kinds_of_an_agent_are_columns_of_their_own(write_run, tmp_path, capsys):
    for kind in ("frozen", "proposed"):
        write_run("fqf", "minatar/breakout", 0, [0.0, 1.0, 2.0], runs=tmp_path / "runs" / kind, fractions=kind)
    assert cli.main(["paper", "scores", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    assert table(tmp_path / "scores.csv")[0] == ["game", "fqf fractions=frozen", "fqf fractions=proposed"]
    assert "one seed of 1 agent in 2 kinds on 1 game" in capsys.readouterr().out


def test_protocols_do_not_mix_and_unfinished_runs_are_no_table(write_run, tmp_path, capsys):
    write_run("fqf", "minatar/breakout", 0, [0.0, 1.0, 2.0], finished=False)
    assert cli.main(["paper", "scores", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 2
    assert "none of these runs is finished: " in capsys.readouterr().err
    write_run("fqf", "minatar/breakout", 1, [0.0, 1.0, 2.0])
    write_run("iqn", "minatar/breakout", 1, [0.0, 1.0, 2.0], evaluation_epsilon=0.5)
    assert cli.main(["paper", "scores", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 2
    assert "one table takes one protocol, but evaluation_epsilon is 0.01 in" in capsys.readouterr().err


def test_without_results_one_line_says_so_and_all_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, file in (("scores", "agents"), ("curves", "agents"), ("n-sweep", "n_sweep")):
        assert cli.main(["paper", name]) == 2
        expected = f"there is no results/{file}.csv here: name runs, or files of collected scores, after --runs"
        assert capsys.readouterr().err == f"fqf: {expected}\n"
    monkeypatch.setitem(ARTEFACTS, "toy", Artefact(scores.Options, lambda options: "not trained here"))
    assert cli.main(["paper", "all"]) == 0
    said = capsys.readouterr()
    left_out = [line.split(":")[1] for line in said.err.splitlines()]
    assert left_out == [" left out curves", " left out n-sweep", " left out scores"]
    assert [line.split(".png")[0] for line in said.out.splitlines()] == [
        f"paper/{name}" for name in ("projection", "table1", "toy", "fractions")
    ]


def test_of_all_artefacts_one_that_can_not_be_made_spares_the_others(write_run, collect, tmp_path, monkeypatch, capsys):
    write_run("dqn", "minatar/breakout", 0, [0.0, 1.0, 2.0])
    collect([tmp_path / "runs"], tmp_path / "results" / "agents.csv")
    monkeypatch.chdir(tmp_path)
    for name in ("projection", "table1", "toy", "fractions"):
        monkeypatch.setitem(ARTEFACTS, name, Artefact(scores.Options, lambda options: "not made here"))
    assert cli.main(["paper", "all"]) == 2
    said = capsys.readouterr()
    assert [line.split(".png")[0].split("/")[1] for line in said.out.splitlines()] == [
        *("projection", "table1", "toy", "fractions", "scores")
    ]
    assert said.err.splitlines() == [
        "fqf: left out curves: agents is 'fqf,iqn', but the runs are of dqn",
        "fqf: left out n-sweep: there is no results/n_sweep.csv here: "
        "name runs, or files of collected scores, after --runs",
        "fqf: the others are made, but curves could not be: see above",
    ]


@pytest.mark.parametrize("name", ["scores", "curves"])
def test_the_projects_own_results_are_taken_from_where_one_is(write_run, collect, tmp_path, monkeypatch, name):
    write_run("fqf", "minatar/breakout", 0, [0.0, 1.0, 2.0])
    (tmp_path / "results").mkdir()
    collect([tmp_path / "runs"], tmp_path / "results" / "agents.csv")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["paper", name]) == 0
    assert (tmp_path / "paper" / f"{name}.svg").is_file()
