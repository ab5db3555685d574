"""What goes wrong around a run: permissions, clocks, signals, full disks, other processes, other seeds."""

import contextlib
import errno
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.conftest import SMALL, stop_after
from faults.harness import digest

import fqf
from fqf import rundir, session
from fqf.cli import main
from fqf.errors import Interrupted, Stopped, UserError
from fqf.files import Lock
from fqf.policy import read_config
from fqf.rundir import provenance
from fqf.session import Session

pytestmark = pytest.mark.usefixtures("compile_quickly")
NOBODY = 65534


@contextlib.contextmanager
def as_somebody_else() -> Iterator[None]:
    """The superuser may write everywhere, so it must not be the superuser who tries."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def open_directory(monkeypatch) -> Iterator[Path]:
    """One that somebody else may enter, and write. (Git tells nobody else our commit, but it is the same.)"""
    facts = provenance()
    monkeypatch.setattr(sys.modules["fqf.train"], "provenance", lambda: facts)
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o777)
        yield Path(path)


def give_away(path: Path) -> None:
    if os.geteuid() == 0:
        for each in (path, *path.rglob("*")):
            os.chown(each, NOBODY, NOBODY)


def one_line(capfd: pytest.CaptureFixture[str]) -> str:
    (line,) = capfd.readouterr().err.splitlines()
    return line


def test_runs_can_not_be_written_into_a_read_only_directory(open_directory, capfd):
    open_directory.chmod(0o555)
    with as_somebody_else():
        assert main(["train", "--runs", str(open_directory / "runs")]) == 2
    assert one_line(capfd) == f"fqf: Permission denied: {open_directory / 'runs'}"


@pytest.mark.parametrize("target", [".", "lock"])
def test_a_run_of_somebody_else_can_not_be_resumed(stopped, open_directory, capfd, target):
    run = copy_into(open_directory, stopped)
    (run / target).chmod(0o555)
    with as_somebody_else():
        assert main(["resume", str(run), "--quiet"]) == 2
    assert "Permission denied" in one_line(capfd)


@pytest.mark.parametrize(
    "target", ["checkpoints", "checkpoints/000000000360/state-00.safetensors", "metrics.jsonl", "config.toml"]
)
def test_a_file_that_may_not_be_read_is_named(stopped, open_directory, capfd, target):
    """It is not damaged, so no older checkpoint is used, and nothing is changed."""
    run = copy_into(open_directory, stopped)
    give_away(run)
    (run / target).chmod(0)
    with as_somebody_else():
        assert main(["resume", str(run), "--quiet"]) == 2
    line = one_line(capfd)
    assert str(run / target) in line
    assert "Permission denied" in line


def test_every_new_directory_on_the_way_to_a_run_is_on_the_disk(stopped, tmp_path, monkeypatch):
    """A power cut would take a directory whose name is not on the disk, and with it all that is in it."""
    synced = []
    monkeypatch.setattr(rundir, "sync_directory", synced.append)
    with rundir.RunDirectory(tmp_path / "a" / "b" / "c", read_config(stopped / "config.toml")):
        assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= set(synced)


def copy_into(directory: Path, run: Path) -> Path:
    """With everything readable, and nothing else."""
    target = directory / run.name
    for path in (run, *sorted(run.rglob("*"))):
        new = target / path.relative_to(run)
        if path.is_dir():
            new.mkdir()
        else:
            new.write_bytes(path.read_bytes())
        new.chmod(0o755 if path.is_dir() else 0o644)
    return target


def test_a_directory_that_turns_read_only_costs_checkpoints_and_not_the_run(calm, open_directory, monkeypatch, capfd):
    save = Session._save

    def save_with_trouble(self):
        checkpoints = self._directories[0].path / "checkpoints"
        if checkpoints.exists():
            for each in (checkpoints, checkpoints / "rows"):
                each.chmod(0o555 if self._step in (240, 300) else 0o755)
        save(self)

    monkeypatch.setattr(Session, "_save", save_with_trouble)
    with as_somebody_else():
        run = fqf.train("classic/cartpole", runs=open_directory, **SMALL)
    assert digest(run.path) == digest(calm)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    for line, step in zip(lines, (240, 300), strict=True):
        assert f"NO CHECKPOINT at step {step} of {run.path}: Permission denied; the last good one is" in line
        assert line.endswith("000000000180")


def test_clocks_that_jump_change_nothing(calm, tmp_path, monkeypatch):
    """The wall clock back and forth by years, the steady one ahead by minutes, as after a suspended night."""
    rng, steady, slept = random.Random(0), time.monotonic, itertools.count()
    monkeypatch.setattr(time, "time", lambda: rng.uniform(0, 4e9))
    monkeypatch.setattr(time, "monotonic", lambda: steady() + 400 * next(slept))
    run = fqf.train("classic/cartpole", runs=tmp_path, **SMALL | {"checkpoint_steps": 0})
    assert digest(run.path) == digest(calm)


def test_results_wait_for_room_on_the_disk(calm, tmp_path, monkeypatch, capfd):
    write, attempts = session.write_results, itertools.count()

    def refuse_twice(*arguments):
        if next(attempts) < 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*arguments)

    monkeypatch.setattr(session, "write_results", refuse_twice)
    monkeypatch.setattr(session, "RETRY_SECONDS", 0.01)
    run = fqf.train("classic/cartpole", runs=tmp_path, **SMALL)
    assert digest(run.path) == digest(calm)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("No space left on device; the results are tried again" in line for line in lines)


def test_whoever_diverges_is_told_of_the_last_good_checkpoint(tmp_path, monkeypatch, capfd):
    row, save, broken = session.metrics_row, Session._save, []

    def save_and_break(self):
        save(self)
        broken.extend([{"loss": float("nan")}] * (self._step == 240))

    monkeypatch.setattr(Session, "_save", save_and_break)
    monkeypatch.setattr(session, "metrics_row", lambda *arguments: row(*arguments) | dict(*broken))
    options = {name: value for name, value in SMALL.items() if name not in ("torso_layers", "quiet")}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert main(["train", "--runs", str(tmp_path), "--quiet", "--torso-layers", "5", *flags]) == 3
    path = tmp_path / "fqf" / "classic.cartpole" / "seed0"
    line = one_line(capfd)
    assert line.startswith(f"fqf: loss is nan at step 300 of {path}: the run has diverged")
    assert f"its last good checkpoint is {path / 'checkpoints' / '000000000240'}" in line
    assert (path / "checkpoints" / "000000000240" / "manifest.json").is_file()


GYM = {**SMALL, "evaluation_lanes": 2, "lanes": 2}


def test_a_signal_during_an_evaluation_is_heeded_at_once_and_the_evaluation_comes_again(tmp_path, monkeypatch):
    calm = fqf.train("gym/CartPole-v1", runs=tmp_path / "calm", **GYM)
    evaluate = Session._evaluate

    def evaluate_under_a_signal(self):
        if self._step == 240:
            os.kill(os.getpid(), signal.SIGTERM)
            assert self._around.stop.wait(60)
            with pytest.raises(Stopped):
                evaluate(self)
            raise Stopped
        evaluate(self)

    monkeypatch.setattr(Session, "_evaluate", evaluate_under_a_signal)
    with pytest.raises(Interrupted, match=r"stopped by SIGTERM; go on: fqf resume .*seed0"):
        fqf.train("gym/CartPole-v1", runs=tmp_path / "storm", **GYM)
    monkeypatch.setattr(Session, "_evaluate", evaluate)
    run = fqf.resume(tmp_path / "storm" / calm.path.relative_to(tmp_path / "calm"), quiet=True)
    assert digest(run.path) == digest(calm.path)


def test_seeds_on_threads_go_on_each_from_its_own_checkpoint(calm, tmp_path):
    options = {**SMALL, "seeds": 2}
    runs = fqf.train_seeds("classic/cartpole", runs=tmp_path / "calm", **options)
    assert digest(runs[0].path) == digest(calm)
    stop_after(240, lambda: fqf.train_seeds("classic/cartpole", runs=tmp_path / "storm", **options))
    paths = [tmp_path / "storm" / run.path.relative_to(tmp_path / "calm") for run in runs]
    for path, run in zip(paths, runs, strict=True):
        fqf.resume(path, quiet=True)
        assert digest(path) == digest(run.path)


def test_a_run_that_is_under_way_is_not_overwritten(copy):
    runs = copy.parent / "runs" / "fqf" / "classic.cartpole"
    runs.mkdir(parents=True)
    run = copy.rename(runs / "seed0")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    lock = Lock(run)
    with pytest.raises(UserError, match=r"is in use by process \d+"):
        fqf.train("classic/cartpole", runs=copy.parent / "runs", **SMALL, overwrite=True)
    lock.release()
    assert {path: path.read_bytes() for path in before} == before
