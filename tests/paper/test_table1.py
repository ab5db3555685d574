"""Table 1 as printed, from the paper's raw scores, and from runs; what is missing stays blank."""

import csv
import json

import pytest
import tomli_w

from fqf import cli
from fqf.paper.table1 import agrees, row_of
from fqf.report.scores import human_normalized, published, recomputed, table1


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def write_run(runs, agent, game, seed=0, last=100.0, best=None, finished=True, **options):
    """Evaluated untrained, at its best, and at its end."""
    path = runs / agent / f"atari.{game}" / f"seed{seed}"
    path.mkdir(parents=True)
    options = {"protocol": "paper", "noop_max": 30} | options
    config = {"agent": agent, "env": f"atari/{game}", "seed": seed, "steps": 200, **options}
    (path / "config.toml").write_text(tomli_w.dumps(config))
    scores = {0: 0.0, 100: last if best is None else best, 200: last} if last is not None else {0: 0.0}
    lines = [f"{step},train,{seed},0.001,{score},0,0,0,9,3" for step, score in scores.items()]
    header = "step,source,seed,epsilon,mean,median,minimum,maximum,mean_length,episodes"
    (path / "evaluations.csv").write_text("\n".join([header, *lines]) + "\n")
    facts = {"seconds": 9.0, "steps_per_second": 22.2, "frames": 800, "versions": {}}
    if finished:
        changed = {"noop_max": options["noop_max"]} if options["noop_max"] != 30 else {}
        summary = facts | {"score": {"protocol": options["protocol"], "changed": changed}}
        (path / "summary.json").write_text(json.dumps(summary))
    return path


def test_printed_and_recomputed(tmp_path, capsys):
    assert cli.main(["paper", "table1", "--out", str(tmp_path)]) == 0
    cells = {(row["agent"], row["measure"]): row for row in read(tmp_path / "table1.csv")}
    assert len(cells) == 8 * 4
    agreeing = {key for key, row in cells.items() if row["agree"] == "yes"}
    assert agreeing == {("dqn", "median_percent"), ("dqn", "above_dqn"), ("fqf", "median_percent")}
    assert "3 of 16 cells agree" in capsys.readouterr().out
    mean = cells["fqf", "mean_percent"]
    assert (mean["printed"], mean["agree"]) == ("1426.0", "no")
    assert float(mean["recomputed"]) == pytest.approx(2819.24, abs=0.01)
    assert [cells["rainbow", "mean_percent"][key] for key in ("printed", "recomputed", "agree")] == ["1213.0", "", ""]
    assert [cells["prior_duel", "above_human"][key] for key in ("printed", "recomputed", "agree")] == ["", "38", ""]


def test_what_the_document_says_of_video_pinball():
    """docs/paper.md: without this one game the means of DQN, QR-DQN and IQN are within 2 % of the printed ones."""
    for agent, printed in table1().items():
        if agent in ("dqn", "qr_dqn", "iqn", "fqf"):
            percents = [
                human_normalized(game, row[agent]) for game, row in published().items() if game != "video_pinball"
            ]
            close = abs(sum(percents) / len(percents) / printed.mean_percent - 1) < 0.02
            assert close == (agent != "fqf"), agent


def test_agreement_is_to_whole_numbers():
    assert agrees(272, 272.45)
    assert agrees(24, 24)
    assert not agrees(24, 23)
    assert not agrees(193, 210.7)


def test_from_runs_with_what_is_missing_named_and_blank(tmp_path, capsys):
    runs = tmp_path / "runs"
    write_run(runs, "fqf", "pong", seed=0, last=10.0)
    write_run(runs, "fqf", "pong", seed=1, last=20.0)
    write_run(runs, "fqf", "breakout", last=400.0)
    write_run(runs, "dqn", "pong", last=14.0)
    write_run(runs, "fqf_consistent", "pong", last=13.0)
    write_run(runs, "fqf", "freeway", last=None)
    write_run(runs, "fqf", "air_raid")
    write_run(runs, "fqf", "boxing", finished=False)
    (write_run(runs, "fqf", "alien") / "summary.json").write_text("{")
    write_run(runs / "copy", "dqn", "pong", last=14.0)
    out = tmp_path / "paper"
    assert cli.main(["paper", "table1", "--out", str(out), "--runs", str(runs)]) == 0
    said = capsys.readouterr().out
    rows = {row["agent"]: row for row in read(out / "table1_runs.csv")}
    # Pong: random -20.7, human 14.6; the mean over seeds is 15: 35.7 / 35.3. Breakout: 1.7 and 30.5: 398.3 / 28.8.
    assert float(rows["fqf"]["mean_percent"]) == pytest.approx((3570 / 35.3 + 39830 / 28.8) / 2)
    assert (rows["fqf"]["games"], rows["fqf"]["seeds"], rows["fqf"]["above_human"]) == ("2", "1-2", "2")
    assert len(rows["fqf"]["games_missing"].split()) == 53
    assert rows["fqf"]["above_dqn"] == ""  # no run of DQN on Breakout
    assert (rows["dqn"]["above_dqn"], rows["fqf_consistent"]["above_dqn"]) == ("0", "0")
    assert [rows["iqn"][name] for name in ("mean_percent", "median_percent", "games")] == ["", "", "0"]
    assert f"table1_runs.png, .svg, .csv: {runs}: last scores of 5 runs" in said
    assert "> DQN of fqf is blank: no run of dqn on breakout" in said
    assert "> DQN of fqf_consistent" not in said
    assert "no runs of prioritized, prior_duel, c51, rainbow, qr_dqn, iqn" in said
    assert "of 55 games dqn has 1, fqf has 2, fqf_consistent has 1 (table1_runs.csv names those missing)" in said
    for part in (
        "atari.freeway/seed0 (no score of a trained policy)",
        "atari.boxing/seed0 (not finished)",
        "atari.alien/seed0 (summary.json is half-written or damaged)",
        "dqn/atari.pong/seed0 (the same config and seed as",
    ):
        assert part in said
    assert "atari/air_raid is not a game of the paper's table" in said
    assert (out / "table1_runs.png").stat().st_size > 0


def test_best_scores_are_asked_for(tmp_path):
    write_run(tmp_path / "runs", "iqn", "pong", last=-20.7, best=14.6)
    for which, percent in (("last", 0.0), ("best", 100.0)):
        out = tmp_path / which
        assert cli.main(["paper", "table1", "--out", str(out), "--runs", str(tmp_path / "runs"), "--score", which]) == 0
        (row,) = [row for row in read(out / "table1_runs.csv") if row["agent"] == "iqn"]
        assert float(row["mean_percent"]) == pytest.approx(percent)


def test_ties_are_not_above():
    assert row_of({"pong": 14.0}, {"pong": 14.0})[3] == 0
    assert row_of({"pong": 14.1}, {"pong": 14.0})[3] == 1
    assert row_of({}, {"pong": 14.0}) == (None, None, None, None)
    assert recomputed("dqn").above_dqn == 0


def test_what_can_not_stand_in_one_table_is_refused(tmp_path, capsys):
    runs, out = tmp_path / "runs", ["--out", str(tmp_path / "paper")]
    write_run(runs, "fqf", "pong")
    write_run(runs, "iqn", "pong", protocol="dopamine")
    assert cli.main(["paper", "table1", *out, "--runs", str(runs)]) == 2
    assert "one table takes one protocol, but" in capsys.readouterr().err
    write_run(tmp_path / "changed", "fqf", "pong", noop_max=0)
    assert cli.main(["paper", "table1", *out, "--runs", str(runs / "fqf"), str(tmp_path / "changed")]) == 2
    assert "noop_max is 30 in" in capsys.readouterr().err
    assert cli.main(["paper", "table1", *out, "--runs", str(tmp_path / "nowhere")]) == 2
    assert "nowhere is not a directory: name run directories" in capsys.readouterr().err
    write_run(tmp_path / "narrow", "fqf", "breakout", hidden=7)
    write_run(tmp_path / "narrow", "fqf", "pong", seed=1, hidden=7)
    assert cli.main(["paper", "table1", *out, "--runs", str(runs / "fqf"), str(tmp_path / "narrow")]) == 2
    assert "one table takes one kind of fqf, but these differ by hidden: name runs of one" in capsys.readouterr().err
    write_run(tmp_path / "none", "fqf", "pong", last=None)
    assert cli.main(["paper", "table1", *out, "--runs", str(tmp_path / "none")]) == 2
    assert "no finished Atari run of the paper's games in" in capsys.readouterr().err
