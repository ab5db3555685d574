"""A small run, stopped where two checkpoints are on the disk, for tests to damage copies of."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import fqf
from fqf import session
from fqf.errors import Stopped

SMALL = {
    "steps": 480,
    "learning_starts_steps": 100,
    "num_fractions": 3,
    "hidden": 6,
    "torso_layers": (5,),
    "batch_size": 4,
    "replay": "prioritized",
    "replay_capacity": 150,
    "evaluation_episodes": 3,
    "evaluate_every_steps": 240,
    "log_every_steps": 60,
    "checkpoint_steps": 60,
    "quiet": True,
}


@pytest.fixture(scope="module")
def calm(compile_quickly, tmp_path_factory):
    """Never stopped."""
    return fqf.train("classic/cartpole", runs=tmp_path_factory.mktemp("calm"), **SMALL).path


def stop_after(steps: int, train: Callable[[], object]) -> None:
    """Train until a checkpoint at `steps` or later is written, and leave everything as a killed process would."""
    save = session.Session._save

    def save_and_stop(self):
        save(self)
        if self._step >= steps:
            raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.Session, "_save", save_and_stop)
        with pytest.raises(Stopped):
            train()


@pytest.fixture(scope="module")
def stopped(compile_quickly, tmp_path_factory):
    """A run directory with two checkpoints, at the steps 300 and 360, the ring having wrapped around."""
    runs = tmp_path_factory.mktemp("stopped")
    stop_after(360, lambda: fqf.train("classic/cartpole", runs=runs, **SMALL))
    return runs / "fqf" / "classic.cartpole" / "seed0"


@pytest.fixture
def copy(stopped, tmp_path):
    return Path(shutil.copytree(stopped, tmp_path / "seed0"))
