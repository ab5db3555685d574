"""Settings that are known to work, by family of environments; what is not named here is the paper's."""

import functools
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fqf import environments
from fqf.agents import AGENTS, whole_config
from fqf.config import RunConfig, override, to_toml
from fqf.environments import AnyEnvironment, toy
from fqf.environments.atari import PROTOCOLS
from fqf.errors import UserError, nearest
from fqf.networks.torsos import SMALLEST
from fqf.types import EnvironmentSpec, JittableEnvironment

# The fraction learning rates are the subject of docs/decisions/0003-fraction-presets.md: smaller where returns (and so
# the W1 gradient) are larger; a rate that converges within the run where the law is known.
PRESETS: dict[str, dict[str, Any]] = {
    # Chosen on CartPole, seeds 1000 to 1008 (decision 0003), where no other source is named.
    "classic": {
        "steps": 100_000,
        "torso": "mlp",
        "torso_layers": (128,),
        "hidden": 128,
        "num_fractions": 8,  # the least that the paper tries (its table over N)
        "fraction_learning_rate": 2.5e-11,  # a hundredth of the paper's: returns are a hundred times as large
        "learning_rate": 1e-3,  # Dopamine's dqn_cartpole.gin
        "final_rate_share": 0.0,
        "adam_epsilon": 1e-5,
        "batch_size": 64,
        "replay_capacity": 100_000,  # the whole run
        "n_step": 10,  # values must travel 500 steps; each of the 100 copies to the target carries them n further
        "update_period_steps": 4,  # Mnih et al. 2015; Dopamine's dqn_cartpole.gin
        "target_period_steps": 1_000,
        "learning_starts_steps": 1_000,
        "exploration_epsilon": 0.02,
        "exploration_decay_steps": 10_000,
        "evaluation_epsilon": 0.0,
        "evaluate_every_steps": 10_000,
        "log_every_steps": 1_000,
    },
    # Dopamine's minatar/dqn_breakout.gin where no other source is named; Adam's epsilon and the batch are the defaults.
    "minatar": {
        "steps": 300_000,  # theirs: 10 million
        "torso": "minatar",  # Young and Tian 2019, section 3
        "hidden": 128,  # Young and Tian 2019, section 3
        "num_fractions": 8,  # the least that the paper tries (its table over N)
        "learning_rate": 2.5e-4,
        "replay_capacity": 100_000,
        "update_period_steps": 4,
        "target_period_steps": 1_000,
        "learning_starts_steps": 5_000,  # Young and Tian 2019, section 3
        "exploration_epsilon": 0.01,  # FQF section 4; Dopamine's dqn.gin
        "exploration_decay_steps": 50_000,  # a fifth of Dopamine's 250,000: the run is shorter
        "evaluation_epsilon": 0.01,  # with 0.001 most episodes of a deterministic game are copies (decision 0012)
        "evaluate_every_steps": 30_000,
        "log_every_steps": 3_000,
    },
    # The defaults of every option are Atari's; docs/protocols.md has what the protocols add.
    "atari": {"log_every_steps": 1_000},
    # Chosen on LunarLander-v3, seed 1000 (decision 0007), where no other source is named.
    "gym": {
        "steps": 300_000,  # after 150,000, seeds 0 and 1 of LunarLander had reached 140 and 185 of 200, and still rose
        "torso": "mlp",
        "torso_layers": (128,),
        "hidden": 128,
        "num_fractions": 8,  # as in classic control
        "fraction_learning_rate": 2.5e-11,  # as in classic control
        "learning_rate": 5e-4,
        "final_rate_share": 0.0,
        "adam_epsilon": 1e-5,
        "batch_size": 64,
        "replay_capacity": 100_000,
        "n_step": 3,
        "update_period_steps": 1,  # with 4, the lander had only learned to hover after 120,000 steps
        "target_period_steps": 500,
        "learning_starts_steps": 1_000,
        "exploration_epsilon": 0.05,
        "exploration_decay_steps": 20_000,
        "evaluation_epsilon": 0.0,
        "evaluation_lanes": 20,
        "evaluate_every_steps": 30_000,
        "log_every_steps": 1_000,
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


GYM_IMAGES = {
    "torso": "atari",
    "hidden": 512,
    "frame_stack": 4,
    "learning_rate": 5e-5,
    "final_rate_share": 1.0,
    "adam_epsilon": 0.01 / 32,
    "batch_size": 32,
    "update_period_steps": 4,
}
"""Where a Gymnasium environment shows pictures: the paper's network and rates."""

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
        "qr_dqn": {"num_quantiles": 32},  # a middle way between FQF's 8 here and QR-DQN's 200 on Atari
        "iqn": {
            "num_quantiles": 8,
            "num_target_quantiles": 8,
            "num_action_quantiles": 32,
        },  # as FQF has 8; K as published
        "fqf_rainbow": {"n_step": 10},
    },
    "minatar": {
        # Rewards are never negative, and 30 is more than any of the games' discounted returns.
        "c51": {"v_min": 0.0, "v_max": 30.0},
        "rainbow": {"v_min": 0.0, "v_max": 30.0},
        "qr_dqn": {"num_quantiles": 32},
        "iqn": {"num_quantiles": 8, "num_target_quantiles": 8, "num_action_quantiles": 32},
    },
    "gym": {
        "dqn": {"huber_kappa": 10.0},
        "prioritized": {"huber_kappa": 10.0},
        "prior_duel": {"huber_kappa": 10.0},
        # Nobody knows the returns of an environment beforehand; LunarLander's lie here.
        "c51": {"v_min": -300.0, "v_max": 300.0},
        "rainbow": {"v_min": -300.0, "v_max": 300.0},
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


def preset(agent: str, env: str, protocol: str | None = None, own: AnyEnvironment | None = None) -> RunConfig[Any, Any]:
    """The settings of an agent on an environment before anybody overrides them; `own` is one of the user's."""
    if own is None:
        environments.refuse_unknown(env)
    config = whole_config(agent, environments.options(env))
    family = environments.family(env) if own is None else "classic" if isinstance(own, JittableEnvironment) else "gym"
    values = dict(PRESETS[family])
    if family == "gym":
        values |= GYM_IMAGES if is_image((own or environments.make(env)).spec) else {}
    if family == "atari":
        protocol = protocol or config.environment.protocol
        if protocol not in PROTOCOLS:
            raise UserError(f"protocol is {protocol!r}; {nearest(str(protocol), tuple(PROTOCOLS))}")
        values |= PROTOCOLS[protocol] | {"protocol": protocol}
    special = FOR_AGENTS.get(family, {}).get(agent, {})
    return override(config, {**values, **AGENTS[agent].settings, **special, "env": env})


def is_image(spec: EnvironmentSpec) -> bool:
    """Whether DQN's convolutions fit: bytes, of at least their smallest size."""
    shape = spec.observation_shape
    return spec.observation_dtype == np.uint8 and len(shape) in (2, 3) and min(shape[:2]) >= SMALLEST["atari"]


def changed(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's options, as its config.toml has them, that its preset has otherwise."""
    usual = _usual(config["agent"], config["env"], config.get("protocol"))
    names = [name for name in config if name not in ("agent", "env", "seed", "protocol")]
    return {name: config[name] for name in names if name not in usual or usual[name] != config[name]}


@functools.cache
def _usual(agent: str, env: str, protocol: str | None) -> dict[str, Any]:
    """A preset as config.toml would have it; nothing of what this version does not know."""
    try:
        return tomllib.loads(to_toml(preset(agent, env, protocol)))
    except UserError:
        return {}
