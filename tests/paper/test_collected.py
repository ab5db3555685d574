"""Files of collected scores say what the run directories do, and are read in their place."""

import csv
import json
import shutil

import pytest

from fqf import cli, presets
from fqf.errors import UserError
from fqf.report.collected import COLUMNS
from fqf.report.runs import load

SCORES = [0.5, 2.0, 4.0]


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def essence(runs):
    """All that tables and curves read of runs, but for where they are."""
    return sorted((sorted(run.config.items(), key=str), run.curve, run.episodes, run.finished) for run in runs)


def test_a_file_has_a_row_for_every_evaluation(write_run, collect, tmp_path):
    write_run("fqf", "minatar/breakout", 1, SCORES, runs=tmp_path / "runs" / "fast", fraction_learning_rate=1e-06)
    assert collect([tmp_path / "runs"], tmp_path / "new" / "a.csv") == f"1 run in {tmp_path / 'new' / 'a.csv'}"
    rows = rows_of(tmp_path / "new" / "a.csv")
    assert tuple(rows[0]) == COLUMNS
    assert [(row["step"], row["score"], row["episodes"]) for row in rows] == [
        ("0", "0.5", "10"),
        ("150000", "2.0", "10"),
        ("300000", "4.0", "10"),
    ]
    options = json.loads(rows[0].pop("options"))
    assert {
        "fraction_learning_rate": 1e-6,
        "num_fractions": 8,
        "steps": 300_000,
        "hidden": 128,
    }.items() <= options.items()
    assert not {"agent", "env", "seed", "protocol"} & set(options)
    said = {name: rows[2][name] for name in COLUMNS[:9]}
    assert said == {
        "run": "fast/fqf/minatar.breakout/seed1",
        "state": "finished",
        "agent": "fqf",
        "env": "minatar/breakout",
        "variant": "fast",
        "seed": "1",
        "options": "",
        "protocol": "",
        "commit": "abc1234",
    }


def test_a_file_is_read_as_its_runs_are(write_run, collect, tmp_path):
    runs = tmp_path / "runs"
    write_run("fqf", "minatar/breakout", 0, SCORES, torso_layers=[3, 4])
    write_run("iqn", "minatar/asterix", 10, SCORES, finished=False)
    write_run("iqn", "minatar/asterix", 9, SCORES, discount=0.5)
    write_run("rainbow", "atari/pong", 0, [-21.0, 4.0, 3.0], protocol="dopamine", steps=1_000_000, noop_max=3)
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    assert "4 runs" in collect([runs], one)
    assert "unfinished: iqn/minatar.asterix/seed10" in collect([runs / "rainbow", runs / "iqn", runs / "fqf"], other)
    there, nothing = load([one])
    assert nothing == []
    assert essence(there) == essence(load([runs])[0])
    assert {run.summary.get("commit") for run in there} == {"abc1234", None}
    # The same bytes again: from the file, and from both, of which the runs are the same.
    before = one.read_bytes()
    for roots in ([one], [one, runs], [runs, one]):
        collect(roots, one)
        assert one.read_bytes() == before
    assert [row["run"] for row in rows_of(one) if row["step"] == "1000000"] == ["rainbow/atari.pong/seed0"]
    seeds = [row["run"][-6:] for row in rows_of(one) if row["env"] == "minatar/asterix" and row["step"] == "150000"]
    assert seeds == ["/seed9", "seed10"]


def test_a_later_preset_changes_nothing_of_what_was_run(write_run, collect, tmp_path, monkeypatch):
    write_run("fqf", "minatar/breakout", 0, SCORES)
    collect([tmp_path / "runs"], tmp_path / "a.csv")
    before = essence(load([tmp_path / "a.csv"])[0])
    monkeypatch.setitem(presets.PRESETS["minatar"], "hidden", 7)
    assert essence(load([tmp_path / "a.csv"])[0]) == before


def test_the_run_that_got_farther_counts(write_run, collect, tmp_path):
    """A file is brought up to date from the runs that it was made of."""
    runs, file, scores = tmp_path / "runs", tmp_path / "a.csv", [0.5, 1.0, 2.0, 3.0, 4.0]
    path = write_run("fqf", "minatar/breakout", 0, scores, finished=False)
    lines = (path / "evaluations.csv").read_text().splitlines(keepends=True)
    (path / "evaluations.csv").write_text("".join(lines[:-1]))
    collect([runs], file)
    assert [row["score"] for row in rows_of(file)] == ["0.5", "1.0"]
    (path / "evaluations.csv").write_text("".join(lines))
    collect([file, runs], file)
    assert [row["score"] for row in rows_of(file)] == ["0.5", "1.0", "2.0"]
    shutil.rmtree(path)
    write_run("fqf", "minatar/breakout", 0, scores)
    collect([file, runs], file)
    assert [(row["state"], row["score"]) for row in rows_of(file)] == [("finished", str(score)) for score in scores]


def test_only_finished_runs_if_so_asked(write_run, collect, tmp_path):
    write_run("fqf", "minatar/breakout", 0, SCORES)
    write_run("fqf", "minatar/breakout", 1, SCORES, finished=False)
    assert collect([tmp_path / "runs"], tmp_path / "a.csv", only_finished=True) == f"1 run in {tmp_path / 'a.csv'}"
    assert {row["seed"] for row in rows_of(tmp_path / "a.csv")} == {"0"}


def test_what_can_not_be_collected_is_named(write_run, collect, tmp_path, capsys):
    write_run("fqf", "minatar/breakout", 0, SCORES, runs=tmp_path / "runs" / "a")
    bad = write_run("fqf", "minatar/breakout", 1, SCORES, runs=tmp_path / "runs" / "a")
    (bad / "evaluations.csv").unlink()
    collect([tmp_path / "runs"], tmp_path / "a.csv")
    assert capsys.readouterr().err == f"left out {bad}: evaluations.csv can't be read: No such file or directory\n"
    write_run("fqf", "minatar/breakout", 0, SCORES, runs=tmp_path / "runs" / "b", hidden=7)
    with pytest.raises(UserError, match=r"2 runs are called .*: name the directory above them"):
        collect([tmp_path / "runs" / "a", tmp_path / "runs" / "b"], tmp_path / "b.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no run to collect in"):
        collect([tmp_path / "empty"], tmp_path / "b.csv")
    assert not (tmp_path / "b.csv").exists()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (",4.0,10", ",x,10", "a row is damaged"),
        (",4.0,10", ",4.0", "a row is damaged"),
        (",4.0,10", ",4.0,0", "a row is damaged"),
        (",4.0,10", ",inf,10", "it has a score that is not finite"),
        ("300000,4.0", "3,4.0", "it has steps out of order"),
        ("300000,4.0", "290000,4.0", "it is finished, but its last score is that of step 290,000, not 300,000"),
        ('""steps"":300000', '""steps"":""many""', "its row of options has no steps"),
        ('""steps"":300000', '""steps"":-5', "its row of options is not a run's"),
        ('""steps"":300000', '""steps"":300000,""frame_skip"":""x""', "its row of options is not a run's"),
        ('"{""', '"[""', "a row is damaged"),
        ("minatar/breakout", "breakout", "its row of options is not a run's"),
        ("finished", "finshed", "a row is damaged"),
        ("abc1234,300000", "abc4321,300000", "its rows are of different runs"),
        ("fqf,minatar/breakout,,0,,", "fqf,minatar/breakout,,0,{},", "its rows are of different runs"),
    ],
)
def test_a_damaged_run_of_a_file_is_named_and_the_others_are_read(write_run, collect, tmp_path, old, new, why):
    write_run("fqf", "minatar/breakout", 0, SCORES)
    write_run("iqn", "minatar/asterix", 0, [0.5, 2.0, 3.0])
    file = tmp_path / "a.csv"
    collect([tmp_path / "runs"], file)
    lines = file.read_text().splitlines()
    text = "\n".join(line.replace(old, new) if line.startswith("fqf") else line for line in lines) + "\n"
    assert text != file.read_text()
    file.write_text(text)
    runs, skipped = load([file])
    assert [run.config["agent"] for run in runs] == ["iqn"]
    assert skipped == [(file / "fqf/minatar.breakout/seed0", why)]


def test_a_file_that_was_cut_is_read_as_far_as_its_runs_are_whole(write_run, collect, tmp_path):
    """Cut in the options of the third run, so inside quotes; and in those of the second, where one is left. The run
    before the damage may have had more rows, so it does not count either. At last cut in the last number, of episodes,
    which would still be one."""
    for agent in ("dqn", "fqf", "iqn"):
        write_run(agent, "atari/pong", 0, [-21.0, 2.0, 4.0], protocol="dopamine", steps=1_000_000)
    file = tmp_path / "a.csv"
    collect([tmp_path / "runs"], file)
    whole = file.read_text()
    for cut, left in (("iqn", ["dqn"]), ("fqf", [])):
        file.write_text(whole[: whole.index(f"{cut}/") + 85])
        runs, skipped = load([file])
        assert [run.config["agent"] for run in runs] == left
        assert [path for path, _ in skipped] == [file]
        assert "damaged in line" in skipped[0].why
    assert whole.endswith("4.0,10\n")
    file.write_text(whole[:-2])
    runs, skipped = load([file])
    assert [run.config["agent"] for run in runs] == ["dqn", "fqf"]
    assert skipped == [(file, "its last line, of iqn/atari.pong/seed0, is cut")]


def test_another_file_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("game,score\npong,1\n")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "c.csv").touch()
    for name, why in (("a.csv", "it has no column run"), ("b.csv", "it is not text"), ("c.csv", "it is empty")):
        assert cli.main(["paper", "scores", "--runs", str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert said == f"fqf: {tmp_path / name} is not a file of collected scores: {why}\n"
    assert cli.main(["paper", "scores", "--runs", str(tmp_path / "d.csv")]) == 2
    assert "d.csv is not a directory: name run directories, what holds them, or files of scores" in (
        capsys.readouterr().err
    )


def test_a_report_takes_such_a_file(write_run, collect, tmp_path, capsys):
    for seed in range(2):
        write_run("fqf", "minatar/breakout", seed, SCORES)
    collect([tmp_path / "runs"], tmp_path / "a.csv")
    arguments = ["report", str(tmp_path / "a.csv"), "--out", str(tmp_path / "report"), "--resamples", "100"]
    assert cli.main(arguments) == 0
    assert "2 runs; look at" in capsys.readouterr().out
    rows = rows_of(tmp_path / "report" / "tables" / "runs.csv")
    assert [(row["group"], row["seed"], row["last"], row["commit"]) for row in rows] == [
        ("fqf", "0", "4.0", "abc1234"),
        ("fqf", "1", "4.0", "abc1234"),
    ]
