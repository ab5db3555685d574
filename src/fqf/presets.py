"""Settings that are known to work, by family of environments; what is not named here is the paper's."""

from typing import Any

from fqf import environments
from fqf.agents import AGENTS
from fqf.config import RunConfig, override
from fqf.environments import toy
from fqf.errors import UserError, nearest

# Fraction learning rates. The paper's 2.5e-9 is for 12.5 million updates; what moves the fractions is the product of
# the two, 0.031. Presets for shorter runs keep the product, not the rate (docs/decisions/0003-fraction-presets.md).
FAMILIES: dict[str, dict[str, Any]] = {
    "classic": {
        "steps": 100_000,
        "torso": "mlp",
        "torso_layers": (64,),
        "hidden": 64,
        "num_fractions": 8,
        "fraction_learning_rate": 3e-7,  # 0.031 / 100,000 updates
        "learning_rate": 1e-3,
        "final_learning_rate": 0.0,
        "adam_epsilon": 1e-5,
        "batch_size": 64,
        "replay_capacity": 100_000,
        "update_period_steps": 1,
        "target_period_steps": 500,
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
        "fraction_learning_rate": 4e-7,  # 0.031 / 75,000 updates
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
        "final_learning_rate": 1e-5,
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
FAMILIES["custom"] = FAMILIES["classic"]


def preset(agent: str, env: str) -> RunConfig[Any]:
    """The settings of an agent on an environment before anybody overrides them."""
    if agent not in AGENTS:
        raise UserError(f"unknown agent {agent!r}; {nearest(agent, AGENTS)}")
    family = environments.family(env)
    if env not in environments.IDS and family != "custom":
        raise UserError(f"unknown environment {env!r}; {nearest(env, environments.IDS)}")
    config = RunConfig(algorithm=AGENTS[agent].config, agent=agent, env=env)
    return override(config, FAMILIES[family])
