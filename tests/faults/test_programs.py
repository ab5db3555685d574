"""A resumed run goes on with programs that an earlier process compiled: they must be the same to the last bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.harness import digest

from fqf.agents import AGENTS

ON_DEVICE, ON_HOST = "classic/cartpole", "gym/CartPole-v1"
OPTIONS = ("--learning-starts-steps", "200", "--evaluation-episodes", "2", "--evaluate-every-steps", "500")


def train(agent: str, env: str, steps: str, runs: Path, cache: Path) -> dict[str, str]:
    """Every program is kept, however small."""
    keep = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    command = [sys.executable, "-m", "fqf.cli", "train", "--agent", agent, "--env", env, "--runs", str(runs), "--quiet"]
    subprocess.run(
        [*command, "--steps", steps, *OPTIONS], env={**os.environ, **keep, "XDG_CACHE_HOME": str(cache)}, check=True
    )
    (config,) = runs.rglob("seed0/config.toml")
    return digest(config.parent)


def programs(cache: Path) -> set[Path]:
    return set(cache.rglob("*-cache"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "env", "steps"),
    [*((agent, ON_DEVICE, "1000") for agent in AGENTS), ("fqf", ON_HOST, "400"), ("rainbow", ON_HOST, "400")],
)
def test_programs_read_back_give_the_same_bits_as_when_they_were_compiled(agent, env, steps, tmp_path):
    cache = tmp_path / "cache"
    compiled = train(agent, env, steps, tmp_path / "compiled", cache)
    kept = programs(cache)
    assert kept
    assert train(agent, env, steps, tmp_path / "read", cache) == compiled
    assert programs(cache) == kept  # nothing was compiled again
