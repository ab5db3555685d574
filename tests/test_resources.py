"""What does not fit is refused before it starts, with what would."""

import re
from pathlib import Path

import jax
import pytest

import fqf
from fqf import environments, parts, resources
from fqf.config import override
from fqf.errors import UserError
from fqf.presets import preset
from fqf.resources import (
    free_disk,
    free_memory,
    give_back_memory,
    kept_programs,
    library_code,
    processor,
    refuse_too_much_disk,
    refuse_too_much_memory,
    tidy_process,
    tree_bytes,
)
from fqf.session import Session

GIGABYTE = 10**9


def test_a_million_atari_frames_are_seven_gigabytes():
    import numpy as np

    from fqf.parts import make_replay
    from fqf.types import EnvironmentSpec

    spec = EnvironmentSpec("atari/pong", (84, 84), np.dtype("uint8"), 6)
    for lanes in (1, 8):
        config = preset("fqf", "atari/pong")
        size = tree_bytes(make_replay(type(config)(**{**vars(config), "lanes": lanes}), spec).init)
        assert 7.056e9 <= size <= 7.08e9


def check_advice(refuse, free: str) -> None:
    """What is advised fits, and not much more does."""
    with pytest.raises(UserError, match=rf"{free} GB are free.*--replay-capacity \d+ would fit") as caught:
        refuse(1_000_000, 7 * GIGABYTE, 10**8)
    capacity = int(re.search(r"--replay-capacity (\d+)", str(caught.value))[1])
    refuse(capacity, 7 * GIGABYTE * capacity // 1_000_000, 10**8)
    larger = capacity * 5 // 4
    with pytest.raises(UserError):
        refuse(larger, 7 * GIGABYTE * larger // 1_000_000, 10**8)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_replay_that_does_not_fit_the_memory_is_told_what_would(monkeypatch, at_once):
    monkeypatch.setattr(resources, "free_memory", lambda: 4 * GIGABYTE)
    check_advice(lambda *needs: refuse_too_much_memory(*needs, at_once), "4")


@pytest.mark.parametrize("seeds", [1, 3])
def test_checkpoints_that_do_not_fit_the_disk_are_told_what_would(monkeypatch, tmp_path, seeds):
    monkeypatch.setattr(resources, "free_disk", lambda path: 5 * GIGABYTE)
    check_advice(lambda *needs: refuse_too_much_disk(*needs, seeds, 3, tmp_path), "5")


def test_a_full_disk_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "free_disk", lambda path: 1000)
    with pytest.raises(UserError, match=r"of disk, but .* are free in .*; choose another --runs, or not even a small"):
        refuse_too_much_disk(1_000, 1_000_000, 1_000_000, 1, 3, tmp_path / "runs")


def test_what_there_is_can_be_asked_for_directories_to_come(tmp_path):
    assert free_memory() > 0
    assert free_disk(tmp_path / "not" / "yet") == pytest.approx(free_disk(tmp_path), rel=0.1)


@pytest.fixture
def no_cache():
    """JAX as it is where nobody has told it of a cache."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_programs_are_kept_in_the_users_cache(no_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tidy_process()
    assert Path(jax.config.jax_compilation_cache_dir) == tmp_path / "fqf" / f"compiled-{processor()}"


def test_where_jax_was_told_to_keep_programs_is_left_alone(no_cache, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    tidy_process()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path)


def test_without_a_place_to_keep_programs_they_are_compiled_every_time(no_cache, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    tidy_process()
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.parametrize(("large", "new", "dropped"), [(0, 1, 1), (0, 0, 0), (10**12, 1, 0)])
def test_beside_a_large_replay_programs_that_were_just_compiled_are_read_back(monkeypatch, large, new, dropped):
    """They still find what they need afterwards: the run is made of programs that were compiled twice."""
    config = override(preset("fqf", "gym/CartPole-v1"), {"hidden": 5, "torso_layers": (4,), "replay_capacity": 100})
    made, counts = parts.assemble(config, environments.make(config.env, config.environment)), iter([3, 3 + new])
    cleared, clear = [], jax.clear_caches
    monkeypatch.setattr(parts, "LARGE", large)
    monkeypatch.setattr(parts, "kept_programs", lambda: next(counts))
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(clear()))
    made.compile()
    assert len(cleared) == dropped


def test_kept_programs_are_counted(no_cache, tmp_path):
    assert kept_programs() == 0
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    for name in ("jit_a-0-cache", "jit_a-0-atime", "jit_b-1-cache"):
        (tmp_path / name).touch()
    assert kept_programs() == 2


def test_the_code_of_a_library_is_dropped_and_comes_back():
    """Nothing but machine code that is mapped from the file; a program compiled afterwards computes as before."""
    spans = library_code("libjax_common")
    assert all(begin < end for begin, end in spans)
    assert bool(spans) == Path("/proc/self/maps").is_file()
    assert library_code("no such library") == []
    give_back_memory()
    assert float(jax.jit(lambda x: 3 * x + 1)(2.0)) == 7.0


def test_beside_a_replay_nothing_is_compiled_any_more(monkeypatch, tmp_path):
    """A compiler takes more for a moment than is left beside a million frames: all is done when the replay is made."""
    stage, compiled = ["before"], []

    def listen(event: str, seconds: float, **about: object) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append((stage[0], about.get("fun_name")))

    def named(name: str, method):
        def run(self, *arguments):
            stage[0], before = name, stage[0]
            result = method(self, *arguments)
            stage[0] = before
            return result

        return run

    for name in ("begin", "_evaluate", "_play", "_save"):
        monkeypatch.setattr(Session, name, named(name, getattr(Session, name)))
    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    small = {"hidden": 5, "torso_layers": (4,), "replay_capacity": 100, "learning_starts_steps": 20, "steps": 60}
    small |= {"batch_size": 4}
    small |= {"num_fractions": 3, "log_every_steps": 20, "checkpoint_steps": 20, "evaluation_episodes": 2}
    fqf.train("gym/CartPole-v1", "fqf", runs=tmp_path, quiet=True, evaluate_every_steps=20, **small)
    stage[0] = "after"
    assert ("begin", "jit(learn)") in compiled
    late = [each for each in compiled if each[0] in ("_evaluate", "_play", "_save")]
    assert late == []
