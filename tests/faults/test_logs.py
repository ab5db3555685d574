"""Logs outlive a full disk, and say exactly how far they got."""

import errno
import os

import pytest

from fqf.errors import UserError
from fqf.logs import Events, Log


@pytest.fixture
def disk(monkeypatch):
    """A disk with room for so many bytes."""
    room = {"bytes": 10**9}
    write = os.write

    def write_what_fits(descriptor, data):
        if room["bytes"] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[: room["bytes"]])
        room["bytes"] -= written
        return written

    monkeypatch.setattr("fqf.logs.os.write", write_what_fits)
    return room


def test_lines_wait_for_room_and_none_is_lost_or_torn(tmp_path, disk):
    log = Log(tmp_path / "a.jsonl")
    assert log.append("one\n") is None
    disk["bytes"] = 3
    assert log.append("two and more\n") == "No space left on device"
    assert log.append("three\n") == "No space left on device"
    with pytest.raises(OSError, match="No space"):
        log.mark()
    disk["bytes"] = 10**9
    assert log.append("four\n") is None
    log.close()
    assert (tmp_path / "a.jsonl").read_text() == "one\ntwo and more\nthree\nfour\n"


def test_a_log_goes_on_from_a_mark_and_forgets_what_came_after(tmp_path):
    path = tmp_path / "a.jsonl"
    log = Log(path)
    log.append("one\n")
    mark = log.mark()
    log.append("two\n")
    log.close()
    again = Log(path, mark)
    again.append("three\n")
    end = again.mark()
    again.close()
    assert path.read_text() == "one\nthree\n"
    whole = Log(path, end)  # the hash went on, too
    whole.close()


@pytest.mark.parametrize("content", [b"", b"on", b"onf\n", b"One\ntwo\n"])
def test_a_log_that_is_not_what_was_marked_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "a.jsonl"
    log = Log(path)
    log.append("one\n")
    mark = log.mark()
    log.close()
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not as it was when the last checkpoint was written"):
        Log(path, mark)
    assert path.read_bytes() == content


def test_events_give_up_quietly(tmp_path, monkeypatch):
    events = Events(tmp_path, 0)
    events.add({"a": 1.0}, 1)
    (path,) = tmp_path.glob("events.out.tfevents.*")
    before, tried = path.stat().st_size, []

    def fail():
        tried.append(1)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(events._writer, "flush", fail)
    events.add({"a": 2.0}, 2)
    events.add({"a": 3.0}, 3)
    events.close()
    assert before > 0
    assert tried == [1]  # once, and never again
