"""What is read from run directories that tests have written by hand: states, speeds, costs, tables."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from fqf.config import override
from fqf.files import Lock, is_locked
from fqf.presets import preset
from fqf.suite import screen
from fqf.suite.estimate import (
    Cost,
    Rate,
    checkpoint_bytes,
    costs,
    current_rates,
    groups,
    packaged,
    seconds_left,
    totals,
)
from fqf.suite.orders import resolve
from fqf.suite.plan import Resources, SuiteRun, expand, make_plan
from fqf.suite.scheduler import Ended, Outcome
from fqf.suite.screen import Screen, summary_line, table
from fqf.suite.state import Journal, Status, examine, journal_path, last_score, last_timing, position, read_journal

RUN = SuiteRun("fqf", "minatar/breakout", 3, 1_000)
PLAN = make_plan("grid", {"agents": "fqf", "envs": "minatar/breakout", "seeds": [0, 3], "steps": 1_000}, "grid")


def write_run(runs: Path, run: SuiteRun, step: int, seconds: float, score: float, finished: bool = False) -> Path:
    path = runs / run.id
    path.mkdir(parents=True)
    (path / "config.toml").write_text("")
    lines = [{"step": at, "seconds": seconds * at / step, "steps_per_second": 9e9} for at in (step // 2, step)]
    (path / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    header = "step,source,seed,epsilon,mean,median,minimum,maximum,length,episodes\r\n"
    rows = ("0,train,3,0.001,1.5", f"{step},train,3,0.001,{score}", f"{step},evaluate,1,0,99")
    (path / "evaluations.csv").write_text(header + "".join(f"{row},1,1,1,9,10\r\n" for row in rows))
    if finished:
        (path / "summary.json").write_text("{}")
    return path


def test_a_run_that_was_never_begun_waits(tmp_path):
    assert examine(RUN, tmp_path, None) == Status(RUN, "waiting")


def test_states_of_a_run(tmp_path):
    path = write_run(tmp_path, RUN, 400, 20.0, 7.25)
    failed = {"verdict": "failed", "message": "out of paper"}
    assert examine(RUN, tmp_path, None) == Status(RUN, "unfinished", 400, 20.0, 7.25)
    assert examine(RUN, tmp_path, {"verdict": "again", "message": "?"}).state == "unfinished"
    assert examine(RUN, tmp_path, failed) == Status(RUN, "failed", 400, 20.0, 7.25, "out of paper")
    assert examine(RUN, tmp_path, failed, flying=True).state == "running"
    lock = Lock(path)
    assert is_locked(path)
    assert examine(RUN, tmp_path, failed) == Status(RUN, "running", 400, 20.0, 7.25)
    lock.release()
    assert not is_locked(path)
    (path / "summary.json").write_text("{}")
    assert examine(RUN, tmp_path, failed) == Status(RUN, "finished", 1_000, 20.0, 7.25)


def test_half_written_lines_are_passed_over(tmp_path):
    path = write_run(tmp_path, RUN, 400, 20.0, 7.25)
    for name, torn in (("timing.jsonl", '{"step": 600, "sec'), ("evaluations.csv", "600,train,3,0.001,9")):
        with (path / name).open("a") as file:
            file.write(torn)
    assert last_timing(path) == (400, 20.0)
    assert last_score(path) == 7.25
    assert last_timing(tmp_path) == (0, 0.0)
    assert last_score(tmp_path) is None


def test_the_position_is_that_of_the_newest_whole_checkpoint(tmp_path):
    assert position(tmp_path) == 0
    for step, whole in ((100, True), (300, True), (400, False)):
        (tmp_path / "checkpoints" / f"{step:012d}").mkdir(parents=True)
        if whole:
            (tmp_path / "checkpoints" / f"{step:012d}" / "manifest.json").write_text("{}")
    (tmp_path / "checkpoints" / "rows").mkdir()
    assert position(tmp_path) == 300


def test_the_log_survives_a_torn_line_and_forgets_what_was_before_the_last_beginning(tmp_path):
    directory = journal_path(tmp_path, "grid")
    other = SuiteRun("dqn", "minatar/breakout", 3, 1_000)
    for run, code, message in ((other, 1, "first time"), (RUN, 3, "second time")):
        journal = Journal(directory, PLAN)
        journal.tell(Ended(run, "failed" if code == 1 else "diverged", Outcome(code, message), 1))
        journal.close()
        with (directory / "log.jsonl").open("a") as file:
            file.write('{"event": "run", "run": "fqf/minatar.brea')
    assert read_journal(directory) == {RUN.id: {"verdict": "diverged", "message": "second time"}}
    with (directory / "log.jsonl").open("a") as file:
        file.write('\n[1, 2]\n"begin"\n{"event": "run"}\n\xff\n')
    assert set(read_journal(directory)) == {RUN.id}
    journal = Journal(directory, PLAN)
    journal.close()
    assert read_journal(directory) == {}
    assert read_journal(tmp_path / "nowhere") == {}


# Costs


def test_runs_that_differ_by_their_seed_cost_the_same():
    plan = make_plan("x", {"agents": "fqf,dqn", "envs": "classic/cartpole", "seeds": 3, "steps": 9_000}, "x")
    assert [[run.id[:3] + str(run.seed) for run in group] for group in groups(expand(plan))] == [
        ["fqf0", "fqf1", "fqf2"],
        ["dqn0", "dqn1", "dqn2"],
    ]


def test_hours_follow_from_the_speeds_of_runs_that_are_there(tmp_path):
    """Seeds 0 and 1 made 36,000 steps in 36 and 72 s: 1,000 and 500 a second, 750 in the middle. Of 90,000 steps each,
    seed 0 has none to make, seed 1 has 54,000 and seed 2 all: 144,000 steps, 192 s, 0.0533 hours."""
    plan = make_plan("x", {"agents": "dqn", "envs": "classic/cartpole", "seeds": 3, "steps": 90_000, "cpus": 2}, "x")
    runs = expand(plan)
    write_run(tmp_path, runs[0], 36_000, 36.0, 1.0, finished=True)
    write_run(tmp_path, runs[1], 36_000, 72.0, 1.0)
    configs = resolve(runs, "x")
    statuses = {run: examine(run, tmp_path, None) for run in runs}
    (cost,) = costs(configs, statuses, tmp_path, Resources(cpus=2))
    assert cost.rate == Rate(750.0, 2, f"2 of the runs in {tmp_path}")
    assert cost.hours == pytest.approx(192 / 3600)
    assert cost.kept_bytes == sum(file.stat().st_size for file in (tmp_path / runs[0].id).iterdir())
    assert totals([cost], Resources(cpus=2, gpus=0.5)) == (pytest.approx(384 / 3600), pytest.approx(96 / 3600), 0)


def test_a_speed_that_nobody_has_measured_is_unknown():
    config = preset("fqf", "classic/cartpole")
    run = SuiteRun("fqf", "classic/cartpole", 0, 77_000)
    known = packaged(run, override(config, {"steps": 77_000, "seed": 5}))
    assert known is not None
    assert known.cpus == 1
    assert known.source == "studies/games.py cartpole at c1b6863"
    assert packaged(run, override(config, {"hidden": 4})) is None
    assert packaged(SuiteRun("fqf", "toy/normal", 0, 9), preset("fqf", "toy/normal")) is None
    elsewhere = packaged(SuiteRun("fqf", "minatar/asterix", 0, 9), preset("fqf", "minatar/asterix"))
    assert elsewhere is not None
    assert elsewhere.source.startswith("on minatar/breakout; ")


def test_the_tables_speeds_are_of_so_many_cores_and_of_no_gpu(tmp_path):
    said = {"agents": "dqn", "envs": "minatar/breakout", "seeds": 1, "steps": 300_000}
    runs = expand(make_plan("x", said, "x"))
    configs, statuses = resolve(runs, "x"), {run: examine(run, tmp_path, None) for run in runs}
    table = packaged(runs[0], configs[runs[0]])
    assert table is not None
    assert table.cpus == 2
    one, two, four = (costs(configs, statuses, tmp_path, Resources(cpus=cpus))[0] for cpus in (1, 2, 4))
    assert two.rate == four.rate == table
    assert one.rate == Rate(table.frames_per_second / 2, 1, f"in proportion to its 2 cores: {table.source}")
    assert one.hours == pytest.approx(2 * two.hours)
    assert four.hours == two.hours
    hours = [totals([cost], Resources(cpus=cpus))[0] for cost, cpus in ((one, 1), (two, 2), (four, 4))]
    assert hours == pytest.approx([2 * two.hours, 2 * two.hours, 4 * two.hours])
    assert costs(configs, statuses, tmp_path, Resources(gpus=1.0))[0].rate is None


def test_unknown_runs_are_counted_and_not_guessed():
    unknown = Cost((RUN, RUN), None, None, 5, None)
    assert totals([unknown, Cost((RUN,), Rate(1.0, 2, ""), 3.0, 5, None)], Resources()) == (6.0, 0.0, 2)


def test_checkpoints_of_a_million_atari_frames():
    """A row is 84 x 84 bytes, and a little: 7.06 GB and a tenth, and three learners of some MB each (decision 0009)."""
    size = checkpoint_bytes(preset("dqn", "atari/pong"))
    assert 7.76e9 < size < 8.1e9


def test_the_time_left_is_that_of_all_runs_over_the_room_and_at_least_that_of_the_longest():
    """Two agents at 10 and 40 steps/s: 100 s and 25 s a run of 1,000 steps; one of a third kind counts as their
    harmonic mean, 16 steps/s: 62.5 s."""
    fast, slow, other = (SuiteRun(agent, "minatar/breakout", 0, 1_000) for agent in ("dqn", "fqf", "iqn"))
    rates = {slow: 10.0, fast: 40.0}
    waiting = [
        Status(slow, "waiting"),
        Status(fast, "waiting"),
        Status(other, "waiting"),
        Status(fast, "finished", 1_000),
    ]
    assert seconds_left(waiting, rates, 1) == pytest.approx(100 + 25 + 62.5)
    assert seconds_left(waiting, rates, 10) == pytest.approx(100)
    assert seconds_left([Status(slow, "running", 900)], rates, 1) == pytest.approx(10)
    assert seconds_left(waiting, {}, 1) is None
    assert seconds_left([Status(slow, "finished", 1_000)], rates, 1) == 0
    other_seed = Status(SuiteRun("fqf", "minatar/breakout", 4, 1_000), "running", 300, 10.0)
    assert current_rates([Status(slow, "running", 100, 10.0), other_seed]) == {slow: 20.0}  # 10 and 30


# Tables


def drawn(statuses, width=120):
    console = Console(file=io.StringIO(), width=width)
    console.print(table(statuses, lambda run: 4))
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_the_table_has_a_line_for_every_run():
    lines = drawn([Status(RUN, "running", 400, 20.0, 7.25), Status(RUN, "failed", message="out of paper")])
    assert lines == [
        "run state steps frames/s score",
        f"{RUN.id} running 400 of 1,000 80 7.25",
        f"{RUN.id} failed: out of paper 0 of 1,000 - -",
    ]


def test_on_a_narrow_terminal_nothing_is_cut():
    """A long message once took the room of the run's name and of the number of steps."""
    text = " ".join(drawn([Status(RUN, "failed", 400, 20.0, 7.25, message="out of paper " * 9)], width=60))
    assert "…" not in text
    assert all(part in text for part in ("400 of 1,000", "80", "7.25", "seed"))


def test_of_many_runs_only_those_that_matter_have_a_line():
    many = [Status(SuiteRun("fqf", "minatar/breakout", seed, 1_000), "waiting") for seed in range(10_000)]
    many[500] = many[500]._replace(state="failed")
    many[700] = many[700]._replace(state="running")
    many[800] = many[800]._replace(state="finished")
    assert [line.split()[:2] for line in drawn(many)[1:]] == [
        [many[700].run.id, "running"],
        [many[500].run.id, "failed"],
    ]
    assert summary_line("grid", many, 1) == "grid: 1 of 10,000 finished, 1 running, 1 failed, 9,997 waiting"


def make_screen(monkeypatch, terminal, statuses, quiet=False):
    monkeypatch.setattr(screen, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(screen, "SECONDS_BETWEEN_LOOKS", 0.0)
    console = Console(file=io.StringIO(), width=120, force_terminal=terminal, quiet=quiet)
    return Screen("grid", lambda run: 1, lambda: statuses, lambda: 1, console=console), console


def test_without_a_terminal_lines_tell_what_happens(monkeypatch):
    shown, console = make_screen(monkeypatch, False, [Status(RUN, "running", 400, 20.0)])
    with shown:
        shown.look()
        shown.ended(Ended(RUN, "finished", Outcome(0), 1), 1, 2)
        shown.ended(Ended(RUN, "again", Outcome(-9, "killed"), 1), 1, 2)
    assert console.file.getvalue().splitlines() == [
        "grid: 0 of 1 finished, 1 running; ETA 0:00:30",  # 600 steps at 20 a second
        f"{RUN.id} finished (1 of 2)",
        f"fqf: {RUN.id} starts again after attempt 1: killed",
    ]


def test_on_a_terminal_the_table_is_drawn(monkeypatch):
    shown, console = make_screen(monkeypatch, True, [Status(RUN, "running", 400, 20.0, 7.25)])
    with shown:
        shown.look()
    assert "ETA 0:00:30" in console.file.getvalue()
    assert "7.25" in console.file.getvalue()


def test_quiet_is_quiet_but_for_what_goes_wrong(monkeypatch, capfd):
    shown, console = make_screen(monkeypatch, False, [Status(RUN, "running", 400, 20.0)], quiet=True)
    with shown:
        shown.look()
        shown.ended(Ended(RUN, "finished", Outcome(0), 1), 1, 2)
        shown.ended(Ended(RUN, "failed", Outcome(1, "out of paper"), 1), 1, 2)
    assert console.file.getvalue() == ""
    assert capfd.readouterr().err == f"fqf: {RUN.id} failed: out of paper\n"
