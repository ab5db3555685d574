"""`fqf report` from run directories to files: its numbers by arithmetic, its bytes, its mistakes."""

import csv
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from fqf.cli import main
from fqf.report.page import decided
from fqf.report.statistics import Estimate

PONG, BREAKOUT = "atari/pong", "atari/breakout"
# Human-normalised by the paper's table: Pong from -20.7 (0) to 14.6 (1), Breakout from 1.7 (0) to 30.5 (1).
LAST = {
    ("fqf", PONG): (14.6, -3.05),  # 1, 0.5
    ("fqf", BREAKOUT): (30.5, 59.3),  # 1, 2
    ("dqn", PONG): (-20.7, -20.7),  # 0, 0
    ("dqn", BREAKOUT): (30.5, 30.5),  # 1, 1
}


@pytest.fixture
def grid(write_run, tmp_path):
    for (agent, env), scores in LAST.items():
        for seed, last in enumerate(scores):
            write_run(agent, env, seed, [0.0, last + 1, last])
    return tmp_path / "runs"


def rows(out, name, **wanted):
    with (out / "tables" / f"{name}.csv").open() as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items())]


FEW = ("--resamples", "200")


def report(*arguments):
    return main(["report", *map(str, arguments), *FEW])


def test_aggregates_by_arithmetic(grid, tmp_path, capsys):
    out = tmp_path / "report"
    assert report(grid, "--out", out) == 0
    assert capsys.readouterr().out == f"8 runs; look at {out / 'index.html'}\n"
    found = {(row["group"], row["statistic"]): float(row["percent"]) for row in rows(out, "aggregates", kind="last")}
    # FQF: means of games 0.75 and 1.5; of 0.5 1 1 2 the middle is 1 and 1; misses 0.25 and 0.
    # DQN: means of games 0 and 1; of 0 0 1 1 the middle is 0 and 1; misses 1 and 0.
    expected = {
        ("fqf", "mean"): 112.5,
        ("fqf", "median"): 112.5,
        ("fqf", "iqm"): 100,
        ("fqf", "optimality_gap"): 12.5,
        ("dqn", "mean"): 50,
        ("dqn", "median"): 50,
        ("dqn", "iqm"): 50,
        ("dqn", "optimality_gap"): 50,
    }
    assert found == pytest.approx(expected)
    # DQN over FQF: Pong never; Breakout 30.5 ties once of two: 1/4. FQF's mean is above human on Breakout only.
    (pair,) = rows(out, "improvements", kind="last")
    assert (pair["first"], pair["second"], float(pair["percent"])) == ("dqn", "fqf", pytest.approx(12.5))
    above = {(row["group"], row["above"]): (row["games"], row["of"]) for row in rows(out, "above", kind="last")}
    assert above["fqf", "human"] == ("1", "2")
    assert above["fqf", "published DQN"] == ("0", "2")
    # A score above 0.5: FQF one of two on Pong, both on Breakout.
    share = min(
        rows(out, "profiles", kind="last", group="fqf"), key=lambda row: abs(float(row["threshold_percent"]) - 55)
    )
    assert float(share["share"]) == 0.75
    # Best is one point above last, as the runs were written.
    scores = {row["kind"]: row for row in rows(out, "scores", group="fqf", env=PONG)}
    assert float(scores["last"]["mean"]) == pytest.approx((14.6 - 3.05) / 2)
    assert float(scores["best"]["mean"]) == pytest.approx((14.6 - 3.05) / 2 + 1)
    assert float(scores["last"]["normalized_percent"]) == pytest.approx(75)


def test_the_same_input_and_seed_give_the_same_bytes(grid, tmp_path):
    """In processes of their own, so that no order of a set, which differs between processes, can hide."""

    def files(out, seed):
        command = [sys.executable, "-m", "fqf.cli", "report", str(grid), "--out", str(out), "--seed", str(seed)]
        environment = os.environ | {"PYTHONHASHSEED": str(ord(out.name))}
        subprocess.run([*command, "--with", "dopamine,paper", *FEW], env=environment, check=True, capture_output=True)
        return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    first, second, other = files(tmp_path / "a", 0), files(tmp_path / "b", 0), files(tmp_path / "c", 1)
    assert first == second
    assert {path.suffix for path in first} == {".html", ".csv", ".png", ".svg"}
    assert first.keys() == other.keys()
    assert first != other


class Page(HTMLParser):
    """What a page asks a browser to load, its headings, and tags that are left open."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.images, self.text, self.open = [], [], "", []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.sources += [values[name] for name in ("src", "href") if name in values]
        self.images += [values] if tag == "img" else []
        self.open += [] if tag in ("meta", "link", "img") else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_needs_nothing_else(grid, tmp_path):
    assert report(grid, "--out", tmp_path / "report", "--with", "paper") == 0
    text = (tmp_path / "report" / "index.html").read_text()
    page = Page(text)
    assert all(source.startswith(("data:", "#")) for source in page.sources)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest", text)
    assert len(page.images) == 2 + 2 * 3
    assert all(image["alt"] for image in page.images)
    assert "dqn, fqf on atari: fqf report" in page.text
    words = ("2 seeds per game: few, so a rough interval", "one score per game, so no interval", "FQF, published")
    words += ("; few seeds, so a rough interval",)
    words += ("evaluation_epsilon", "abc1234", "jax 0.10.2", "50,000,000 agent steps x 4 = 200,000,000 frames")
    words += ("Yang et al. 2019 (FQF), raw score table", "8.0 h in all")  # eight runs of an hour
    assert [each for each in words if each not in page.text] == []


def test_names_from_files_can_not_write_into_the_page(write_run, tmp_path):
    path = write_run("fqf", "minatar/breakout", 0, [0.0, 1.0, 2.0])
    config = (path / "config.toml").read_text()
    (path / "config.toml").write_text(config.replace('"fqf"', '"<script>alert(1)</script>"'))
    assert report(tmp_path / "runs", "--out", tmp_path / "report") == 0
    assert "<script>alert" not in (tmp_path / "report" / "index.html").read_text()


def test_an_improvement_from_few_seeds_is_not_simply_called_decided():
    narrow, wide = Estimate(1.0, 1.0, 1.0), Estimate(0.6, 0.5, 0.9)
    assert [decided(each, False) for each in (narrow, wide)] == ["yes", "no"]
    assert [decided(each, True) for each in (narrow, wide)] == [
        f"{each}; few seeds, so a rough interval" for each in ("yes", "no")
    ]
    assert decided(Estimate(1.0, None, None), True) == "no interval"


def test_one_seed_has_no_interval_and_says_so(write_run, tmp_path):
    for agent, top in (("fqf", 9.0), ("iqn", 5.0)):
        write_run(agent, "minatar/breakout", 0, [1.0, 2.0, top])
    out = tmp_path / "report"
    assert report(tmp_path / "runs", "--out", out) == 0
    assert {row["low"] for row in rows(out, "aggregates")} == {""}
    assert "1 seed per game, so no interval" in (out / "index.html").read_text()
    # By the span: 1 is 0 %, 9, the highest, 100 %; 5 is half of the way.
    found = {row["group"]: float(row["normalized_percent"]) for row in rows(out, "scores", kind="last")}
    assert found == {"fqf": 100, "iqn": 50}


def test_unfinished_runs_are_in_curves_only(grid, write_run, tmp_path, capsys):
    write_run("fqf", PONG, 7, [0.0, 90.0, 80.0, 70.0, 60.0], finished=False)
    out = tmp_path / "report"
    assert report(grid, "--out", out) == 0
    assert "9 runs, 1 of them unfinished" in capsys.readouterr().out
    assert {row["seeds"] for row in rows(out, "scores")} == {"2"}
    assert [row["score"] for row in rows(out, "curves", group="fqf", env=PONG, seed="7")] == ["0.0", "90.0", "80.0"]
    assert "unfinished, 50 % of its steps" in (out / "index.html").read_text()


def test_a_group_that_lacks_a_game_takes_it_from_the_aggregates(grid, write_run, tmp_path):
    write_run("fqf", "atari/seaquest", 0, [0.0, 1.0, 2.0])
    write_run("fqf", "atari/air_raid", 0, [0.0, 1.0, 2.0])
    out = tmp_path / "report"
    assert report(grid, "--out", out) == 0
    assert {row["games"] for row in rows(out, "aggregates")} == {"2"}
    text = (out / "index.html").read_text()
    assert "atari/seaquest has no finished run of dqn." in text
    assert "atari/air_raid is not in the table of human scores." in text


def test_without_a_common_game_there_are_no_aggregates(write_run, tmp_path):
    write_run("fqf", "minatar/breakout", 0, [1.0, 2.0, 3.0])
    write_run("iqn", "minatar/asterix", 0, [1.0, 2.0, 3.0])
    out = tmp_path / "report"
    assert report(tmp_path / "runs", "--out", out) == 0
    assert not (out / "tables" / "aggregates.csv").exists()
    assert "No aggregates: there is no game that all groups have finished." in (out / "index.html").read_text()


def test_a_report_of_unfinished_runs_only(write_run, tmp_path):
    write_run("fqf", "minatar/breakout", 0, [1.0, 2.0, 3.0, 4.0], finished=False)
    assert report(tmp_path / "runs", "--out", tmp_path / "report") == 0


def test_an_older_report_is_replaced_and_nothing_else(grid, write_run, tmp_path, capsys):
    out = tmp_path / "report"
    assert report(grid / "fqf", "--out", out) == 0
    write_run("fqf", "minatar/breakout", 0, [1.0, 2.0, 3.0], runs=tmp_path / "more")
    assert report(tmp_path / "more", "--out", out) == 0
    assert [path.name for path in sorted((out / "figures").glob("curve*.png"))] == ["curve_minatar.breakout.png"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years")
    assert report(grid, "--out", tmp_path / "thesis") == 2
    assert "holds something else than a report: name another directory with --out" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "name at least one run directory, or a directory that holds some, such as runs"),
        ("nowhere", "nowhere is not a directory"),
        ("empty", "there is no run to report on (empty: holds no run)"),
        ("runs --with dopmine", "--with 'dopmine' is not known; did you mean 'dopamine'?"),
        ("runs/fqf/minatar.breakout --with paper", "what was published is of Atari games, and none is among these"),
        ("runs --mixd", "unknown option --mixd; did you mean '--mixed'?"),
        ("runs --resamples 5", "resamples is 5, but must be at least 100"),
        ("runs --seed -1", "seed is -1, but must be at least 0"),
        ("runs --out runs/fqf", "runs/fqf holds something else than a report"),
        ("runs", "different protocols: evaluation_epsilon is 0.01 in"),
    ],
)
def test_a_mistake_is_one_line(write_run, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_run("fqf", "minatar/breakout", 0, [1.0, 2.0, 3.0])
    write_run("iqn", "minatar/breakout", 0, [1.0, 2.0, 3.0], evaluation_epsilon=0.5)
    assert main(["report", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.startswith("fqf: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "report").exists()


def test_mixed_protocols_are_set_side_by_side_when_asked_for(write_run, tmp_path):
    write_run("fqf", "minatar/breakout", 0, [1.0, 2.0, 3.0])
    write_run("fqf", "minatar/breakout", 1, [1.0, 2.0, 5.0], evaluation_epsilon=0.5)
    out = tmp_path / "report"
    assert report(tmp_path / "runs", "--out", out, "--mixed") == 0
    assert {(row["group"], row["mean"]) for row in rows(out, "scores", kind="last")} == {
        ("fqf evaluation_epsilon=0.01", "3.0"),
        ("fqf evaluation_epsilon=0.5", "5.0"),
    }
    assert "Protocols are mixed, as was asked for" in (out / "index.html").read_text()


def test_help_says_what_is_written(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in ("--with", "dopamine,paper", "--mixed", "index.html, figures/, tables/", "--resamples INT"):
        assert words in text
