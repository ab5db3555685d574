"""What a finished run is good for: load its policy, and score it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fqf import environments
from fqf.agents import make_agent
from fqf.config import RunConfig
from fqf.environments import EnvironmentLike
from fqf.errors import UserError
from fqf.evaluation import Scores, evaluation_key, summarize
from fqf.parts import make_examiner
from fqf.policy import Policy, load_policy


def evaluate(
    policy: Policy,
    environment: EnvironmentLike | None = None,
    episodes: int | None = None,
    epsilon: float | None = None,
    seed: int = 1,
) -> Scores:
    """Scores of a frozen policy, by default where it was trained and as its run was evaluated."""
    config = policy.config
    epsilon = check_play(config, episodes, epsilon, seed, environment)
    if episodes is not None:
        config = replace(config, evaluation_episodes=episodes, evaluation_steps=0)
    made = environments.make(environment or config.env, config.environment)
    play = make_examiner(config, make_agent(config, policy.spec), made, epsilon)
    return summarize(play(policy.params, evaluation_key(seed)))


def check_play(
    config: RunConfig[Any, Any],
    episodes: int | None,
    epsilon: float | None,
    seed: int,
    environment: EnvironmentLike | None = None,
) -> float:
    """Refuse what a trained policy can't be played with; the epsilon that is meant."""
    epsilon = config.evaluation_epsilon if epsilon is None else epsilon
    for name, value, holds, rule in (
        ("episodes", episodes, episodes is None or episodes >= 1, "at least 1"),
        ("epsilon", epsilon, 0 <= epsilon <= 1, "between 0 and 1"),
        ("seed", seed, 0 <= seed < 2**31, "between 0 and 2**31 - 1"),
    ):
        if not holds:
            raise UserError(f"{name} is {value}, but must be {rule}")
    if environment is None and not environments.is_known(config.env):
        raise UserError(f"{config.env} was an environment of your own: call fqf.evaluate(fqf.load(RUN), environment)")
    return epsilon


def load(path: Path | str) -> Policy:
    """The policy of a finished run."""
    policy = Path(path) / "policy"
    if Path(path).is_file():
        raise UserError(f"{path} is a file: name the directory of a run")
    if not policy.is_dir():
        raise UserError(f"{path} holds no finished run: there is no {policy}")
    return load_policy(policy)
