"""One process on a node: it keeps to its cores, tells how it ended, and dies with whoever started it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fqf.files import Lock
from fqf.suite import attend
from fqf.suite.attend import claim_cores, last_line


@pytest.fixture
def order(tmp_path):
    def make(code, **changes):
        return {
            "arguments": ["-c", code],
            "cores": 1,
            "cwd": str(tmp_path),
            "directory": str(tmp_path / "run"),
            "environment": {},
            "output": str(tmp_path / "said.txt"),
            "shared": str(tmp_path),
            "patience": 0.0,
        } | changes

    return make


def test_how_a_process_ended_and_what_it_said_last(order, tmp_path):
    told = attend.attend(order("import sys; sys.exit('first\\nfqf: the last word\\n\\n')"))
    assert (told["code"], told["message"], told["locked"]) == (1, "the last word", False)
    assert (tmp_path / "said.txt").read_text().startswith("first")
    assert attend.attend(order("import os; os.kill(os.getpid(), 9)"))["code"] == -9


def test_a_process_that_says_nothing_leaves_no_file(order, tmp_path):
    told = attend.attend(order("print('to nobody')"))
    assert (told["code"], told["message"]) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_environment_is_the_nodes_and_what_was_ordered(order, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OF_THE_NODE", "here")
    names = "OMP_NUM_THREADS", "OF_THE_NODE", "A"
    code = f"import os, sys; sys.exit(' '.join(os.environ.get(name, '-') for name in {names}))"
    assert attend.attend(order(code, environment={"A": "b"}))["message"] == "- here b"


def test_a_directory_that_the_node_does_not_see_is_named(order, tmp_path):
    told = attend.attend(order("", shared=str(tmp_path / "elsewhere")))
    assert (told["code"], told["unfit"]) == (None, True)
    assert f"does not see {tmp_path / 'elsewhere'}: it must be shared" in told["message"]


def test_a_run_of_somebody_else_is_left_alone(order, tmp_path):
    (tmp_path / "run").mkdir()
    lock = Lock(tmp_path / "run")
    told = attend.attend(order("raise SystemExit('trampled')"))
    assert (told["code"], told["locked"]) == (2, True)
    assert told["message"] == f"{tmp_path / 'run'} is in use by process {os.getpid()}"
    lock.release()
    assert attend.attend(order(""))["code"] == 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores can't be chosen here")
def test_runs_side_by_side_have_cores_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 6, 8, 9})
    monkeypatch.setattr(attend.tempfile, "gettempdir", lambda: str(tmp_path))
    first, claims = claim_cores(2)
    second, others = claim_cores(2)
    assert (first, second) == ([3, 5], [6, 8])
    third, last = claim_cores(2)
    assert third == [3, 9]  # one core is left, so one is shared
    for claim in claims:
        os.close(claim)
    assert claim_cores(1)[0] == [3]
    assert claim_cores(5) == ([3, 5, 6, 8, 9], [])
    for claim in (*others, *last):
        os.close(claim)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores can't be chosen here")
def test_a_process_keeps_to_its_cores_has_a_session_of_its_own_and_blocks_no_signal(order):
    code = (
        "import os, signal, sys; blocked = signal.pthread_sigmask(signal.SIG_BLOCK, []);"
        "sys.exit(f'{len(os.sched_getaffinity(0))} {os.getsid(0) == os.getpid()} {blocked}')"
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        assert attend.attend(order(code))["message"] == "1 True set()"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


PARENT = """
import json, runpy, sys
print(runpy.run_path(sys.argv[1])["attend"](json.loads(sys.argv[2]))["code"])
"""
"""As Ray's workers load it."""
WRITE_AND_SLEEP = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"


def start_parent(order, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", PARENT, attend.__file__, json.dumps(order(WRITE_AND_SLEEP))])
    end = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    return process, int((tmp_path / "pid").read_text())


def gone(pid):
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")
def test_a_process_dies_with_whoever_started_it(order, tmp_path):
    parent, child = start_parent(order, tmp_path)
    parent.kill()
    parent.wait()
    assert gone(child)


def test_a_process_whose_parent_is_gone_before_it_begins_does_not_begin(tmp_path):
    """The parent's number is that of a process that has ended: not ours."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    command = [sys.executable, attend.__file__, str(ended.pid), "", sys.executable, "-c", "print('began')"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (1, "")


@pytest.mark.parametrize("before", ["default_int_handler", "SIG_IGN"])
def test_an_interrupt_is_passed_on_once_so_that_a_run_can_save(order, tmp_path, before):
    """Also where the worker ignores them, as all do that a script has started in the background."""
    code = (
        "import signal, sys, time\n"
        "def save(*_):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(1.5); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, save); open('ready', 'w').close(); time.sleep(60)"
    )
    interrupt = """
import _thread, os, signal, threading, time
def interrupt():
    while not os.path.exists("ready"):
        time.sleep(0.02)
    for _ in range(2):
        time.sleep(0.6)
        _thread.interrupt_main()  # as Ray does
signal.signal(signal.SIGINT, signal.BEFORE)
threading.Thread(target=interrupt, daemon=True).start()
"""
    command = [
        sys.executable,
        "-c",
        interrupt.replace("BEFORE", before) + PARENT,
        attend.__file__,
        json.dumps(order(code)),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert answer.stdout == "143\n", answer.stderr


def test_only_the_end_of_a_long_output_is_read(tmp_path):
    (tmp_path / "said.txt").write_text("noise\n" * 5_000 + "the end\n \n")
    assert last_line(tmp_path / "said.txt") == "the end"
    (tmp_path / "said.txt").write_bytes(b"\xff" * 10_000)
    assert len(last_line(tmp_path / "said.txt")) == 500
