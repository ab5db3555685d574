"""Fully Parameterized Quantile Function (FQF) for distributional reinforcement learning, on JAX.

>>> run = fqf.train("classic/cartpole", agent="fqf", seed=0, steps=50_000)
>>> run.policy.act(observation)
>>> run.policy.distribution(observation)
>>> fqf.load(run.path)
"""

from pathlib import Path
from typing import Any

from fqf import environments
from fqf.config import check_names, override
from fqf.environments import EnvironmentLike
from fqf.errors import UserError
from fqf.policy import Policy
from fqf.presets import preset
from fqf.train import Launch, Run, launch, load
from fqf.types import EnvironmentSpec, JittableEnvironment, ReturnDistribution, Timestep

__version__ = "0.1.0"
__all__ = [
    "EnvironmentSpec",
    "JittableEnvironment",
    "Policy",
    "ReturnDistribution",
    "Run",
    "Timestep",
    "UserError",
    "load",
    "train",
    "train_seeds",
]


def train(environment: EnvironmentLike, agent: str = "fqf", *, seed: int = 0, **options: Any) -> Run:
    """Train one seed. `environment` is an id, a gymnax environment or a `JittableEnvironment`.

    Options are those of `fqf train --help`, such as steps=50_000, num_fractions=32, runs="runs", overwrite=True.
    """
    return train_seeds(environment, agent, seed=seed, seeds=1, **options)[0]


def train_seeds(
    environment: EnvironmentLike,
    agent: str = "fqf",
    *,
    seed: int = 0,
    seeds: int,
    runs: Path | str = "runs",
    overwrite: bool = False,
    quiet: bool = False,
    **options: Any,
) -> list[Run]:
    """Train the seeds `seed`, `seed + 1`, ... at once."""
    jittable = environments.make(environment)
    config = preset(agent, jittable.spec.id)
    check_names(options, config, "the options")
    how = Launch(runs=Path(runs), seeds=seeds, overwrite=overwrite, quiet=quiet)
    return launch(override(config, {**options, "seed": seed}), how, jittable)
