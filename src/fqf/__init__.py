"""Fully Parameterized Quantile Function (FQF) for distributional reinforcement learning, on JAX.

>>> run = fqf.train("classic/cartpole", agent="fqf", seed=0, steps=50_000)
>>> run.policy.act(observation)
>>> run.policy.distribution(observation)
>>> fqf.load(run.path)
"""

from pathlib import Path
from typing import Any

from fqf import environments
from fqf.agents import check_names
from fqf.config import flatten, override
from fqf.environments import EnvironmentLike
from fqf.errors import Diverged, Interrupted, UserError
from fqf.policy import Policy
from fqf.presets import preset
from fqf.results import Run
from fqf.train import Launch, launch
from fqf.train import resume as resume_runs
from fqf.trained import evaluate, load
from fqf.types import EnvironmentSpec, JittableEnvironment, ReturnDistribution, Timestep

__version__ = "0.2.0"
__all__ = [
    "Diverged",
    "EnvironmentSpec",
    "Interrupted",
    "JittableEnvironment",
    "Policy",
    "ReturnDistribution",
    "Run",
    "Timestep",
    "UserError",
    "evaluate",
    "load",
    "resume",
    "train",
    "train_seeds",
]


def train(environment: EnvironmentLike, agent: str = "fqf", *, seed: int = 0, **options: Any) -> Run:
    """Train one seed. `environment` is an id, a function that makes a Gymnasium environment, a gymnax environment or a
    `JittableEnvironment`.

    Options are those of `fqf train --help`, such as steps=50_000, num_fractions=32, runs="runs", overwrite=True.
    """
    return train_seeds(environment, agent, seed=seed, seeds=1, **options)[0]


def train_seeds(
    environment: EnvironmentLike,
    agent: str = "fqf",
    *,
    seed: int = 0,
    seeds: int,
    **options: Any,
) -> list[Run]:
    """Train the seeds `seed`, `seed + 1`, ... at once."""
    own = None if isinstance(environment, str) else environments.make(environment)
    env = own.spec.id if own else str(environment)
    config = preset(agent, env, options.get("protocol"), own)
    defaults = {name: value for part in (config, Launch()) for name, value in flatten(part).items() if name != "env"}
    check_names(options, defaults, "the options")
    how = override(Launch(), options | {"seeds": seeds})
    return launch(override(config, options | {"seed": seed}), how, own)


def resume(path: Path | str, environment: EnvironmentLike | None = None, *, quiet: bool = False) -> Run:
    """Go on with an unfinished run from its last whole checkpoint. An environment of your own has to be given again."""
    own = None if environment is None or isinstance(environment, str) else environments.make(environment)
    return next(run for run in resume_runs([Path(path)], quiet, own) if run.path == Path(path).absolute())
