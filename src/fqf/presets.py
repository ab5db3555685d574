"""Settings that are known to work, by family of environments; what is not named here is the paper's."""

from typing import Any

from fqf import environments
from fqf.agents import AGENTS, whole_config
from fqf.config import RunConfig, override
from fqf.environments import toy
from fqf.errors import UserError, nearest

# The fraction learning rates are the subject of docs/decisions/0003-fraction-presets.md: smaller where returns (and so
# the W1 gradient) are larger; a rate that converges within the run where the law is known.
PRESETS: dict[str, dict[str, Any]] = {
    "classic": {
        "steps": 100_000,
        "torso": "mlp",
        "torso_layers": (128,),
        "hidden": 128,
        "num_fractions": 8,
        "fraction_learning_rate": 2.5e-11,
        "learning_rate": 1e-3,
        "final_rate_share": 0.0,
        "adam_epsilon": 1e-5,
        "batch_size": 64,
        "replay_capacity": 100_000,
        "n_step": 10,  # values must travel 500 steps; each of the 100 copies to the target carries them n further
        "update_period_steps": 4,
        "target_period_steps": 1_000,
        "learning_starts_steps": 1_000,
        "exploration_epsilon": 0.02,
        "exploration_decay_steps": 10_000,
        "evaluation_epsilon": 0.0,
        "evaluate_every_steps": 10_000,
        "log_every_steps": 1_000,
    },
    "minatar": {
        "steps": 300_000,
        "torso": "minatar",
        "hidden": 128,
        "num_fractions": 8,
        "learning_rate": 2.5e-4,
        "replay_capacity": 100_000,
        "update_period_steps": 4,
        "target_period_steps": 1_000,
        "learning_starts_steps": 5_000,
        "exploration_epsilon": 0.01,
        "exploration_decay_steps": 50_000,
        "evaluation_epsilon": 0.001,
        "evaluate_every_steps": 30_000,
        "log_every_steps": 3_000,
    },
    "toy": {
        "steps": 1_285_120,  # 20,000 updates after 5,120 rows of warm-up
        "lanes": 64,
        "discount": toy.GAMMA,
        "torso": "mlp",
        "torso_layers": (32,),
        "hidden": 64,
        "num_fractions": 8,
        "huber_kappa": 0.05,
        "fraction_learning_rate": 1e-3,
        "learning_rate": 1e-3,
        "final_rate_share": 0.01,
        "adam_epsilon": 1e-8,
        "batch_size": 64,
        "replay_capacity": 64_000,
        "update_period_steps": 64,
        "target_period_steps": 6_400,
        "learning_starts_steps": 5_120,
        "exploration_epsilon": 1.0,
        "exploration_decay_steps": 0,
        "evaluate_every_steps": 10_000_000,
        "log_every_steps": 12_800,
    },
}


# What an agent needs on a family beside what all have there.
FOR_AGENTS: dict[str, dict[str, dict[str, Any]]] = {
    "classic": {
        # Errors are tens of units at first: clipped at 1, DQN still climbs after 100,000 steps.
        "dqn": {"huber_kappa": 10.0},
        "prioritized": {"huber_kappa": 10.0},
        "prior_duel": {"huber_kappa": 10.0},
        # Returns lie between -100 and 100, as gamma is 0.99 and rewards are 1 or -1 a step.
        "c51": {"v_min": -100.0, "v_max": 100.0},
        "rainbow": {"v_min": -100.0, "v_max": 100.0, "n_step": 10},
        "qr_dqn": {"num_quantiles": 32},
        "iqn": {"num_quantiles": 8, "num_target_quantiles": 8, "num_action_quantiles": 32},
        "fqf_rainbow": {"n_step": 10},
    },
    "minatar": {
        # Rewards are never negative, and 30 is more than any of the games' discounted returns.
        "c51": {"v_min": 0.0, "v_max": 30.0},
        "rainbow": {"v_min": 0.0, "v_max": 30.0},
        "qr_dqn": {"num_quantiles": 32},
        "iqn": {"num_quantiles": 8, "num_target_quantiles": 8, "num_action_quantiles": 32},
    },
    "toy": {
        # The laws reach from the normal's and Laplace's -5 to the exponential's 8, but for a thousandth or less.
        "c51": {"v_min": -8.0, "v_max": 8.0},
        "rainbow": {"v_min": -8.0, "v_max": 8.0},
        # The mean of a skewed law is found by squared errors only: with kappa 0.05 it would be nearly the median.
        "dqn": {"huber_kappa": 10.0},
        "prioritized": {"huber_kappa": 10.0},
        "prior_duel": {"huber_kappa": 10.0},
    },
}


def preset(agent: str, env: str, family: str | None = None) -> RunConfig[Any]:
    """The settings of an agent on an environment before anybody overrides them; `family` serves ids of users' own."""
    config = whole_config(agent)
    if family is None and env not in environments.IDS:
        raise UserError(f"unknown environment {env!r}; {nearest(env, environments.IDS)}")
    family = family or environments.family(env)
    own = FOR_AGENTS.get(family, {}).get(agent, {})
    return override(config, {**PRESETS[family], **AGENTS[agent].settings, **own, "env": env})
