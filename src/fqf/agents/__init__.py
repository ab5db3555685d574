"""Agents by name: what is their own in a config, what they ask of a run, and how to build them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import optax

from fqf.agents.agent import Agent, Optimization, Setting
from fqf.agents.c51 import C51Config, make_c51
from fqf.agents.dqn import DQNConfig, make_dqn
from fqf.agents.fqf import FQFConfig, make_fqf
from fqf.agents.fqf_rainbow import FQFRainbowConfig, make_fqf_rainbow
from fqf.agents.iqn import IQNConfig, make_iqn
from fqf.agents.prior_duel import PriorDuelConfig, make_prior_duel
from fqf.agents.qr_dqn import QRDQNConfig, make_qr_dqn
from fqf.agents.rainbow import RainbowConfig, make_rainbow
from fqf.config import RunConfig, flatten, num_updates, override
from fqf.errors import UserError, nearest
from fqf.types import EnvironmentSpec


class Entry(NamedTuple):
    config: Any
    """What is the agent's own: as published, or as the preset's name says."""
    make: Callable[[Setting, Any], Agent]
    settings: Mapping[str, Any] = MappingProxyType({})
    """What it asks of every run: part of what the agent is."""
    rates: Mapping[str, Any] = MappingProxyType({})
    """Its optimiser on Atari, where that is not FQF's."""


# Schaul et al. 2016, table 3, proportional variant: double DQN, exponent 0.6, importance exponent from 0.4 to 1.
PRIORITIZED = {"replay": "prioritized", "double": True, "priority_exponent": 0.6, "importance_exponent": 0.4}
# Hessel et al. 2018, table 1: exponent 0.5, three steps; the noise explores, in place of epsilon.
RAINBOW = PRIORITIZED | {"priority_exponent": 0.5, "n_step": 3}
RAINBOW |= {"exploration_epsilon": 0.0, "exploration_decay_steps": 0}
# Dopamine's dqn.gin: Adam in place of the RMSProp of Mnih et al. 2015, with Rainbow's rate and epsilon.
ADAM = {"learning_rate": 6.25e-5, "adam_epsilon": 1.5e-4}

AGENTS = {
    "dqn": Entry(DQNConfig(), make_dqn, rates=ADAM),
    "prioritized": Entry(DQNConfig(), make_dqn, PRIORITIZED, ADAM),
    "prior_duel": Entry(PriorDuelConfig(), make_prior_duel, PRIORITIZED, ADAM),
    "c51": Entry(C51Config(), make_c51, rates={"learning_rate": 2.5e-4}),  # C51 section 5; Dopamine's c51.gin
    "rainbow": Entry(RainbowConfig(), make_rainbow, RAINBOW, ADAM),
    "qr_dqn": Entry(QRDQNConfig(), make_qr_dqn),  # Adam 5e-5, epsilon 0.01 / 32 (QR-DQN section 5): FQF took them over
    "iqn": Entry(IQNConfig(), make_iqn),  # as QR-DQN (IQN section 4.1)
    "fqf": Entry(FQFConfig(), make_fqf),
    "fqf_consistent": Entry(FQFConfig(target_weights="widths", value_fractions="midpoints_and_edges"), make_fqf),
    "fqf_rainbow": Entry(FQFRainbowConfig(), make_fqf_rainbow, RAINBOW),
}


def whole_config(agent: str, environment: Any) -> RunConfig[Any, Any]:
    """The config of an agent as its papers have it on Atari, with the options of an environment."""
    if agent not in AGENTS:
        raise UserError(f"unknown agent {agent!r}; {nearest(agent, AGENTS)}")
    entry = AGENTS[agent]
    config = RunConfig(algorithm=entry.config, environment=environment, agent=agent)
    return override(config, {**entry.rates, **entry.settings})


def check_names(options: Iterable[str], valid: Collection[str], source: str) -> None:
    """Refuse an unknown name with the nearest valid one, and another agent's option with the agents that have it."""
    for name in options:
        if name in valid:
            continue
        owners = [agent for agent, entry in AGENTS.items() if name in flatten(entry.config)]
        if owners:
            raise UserError(f"{name} in {source} is not an option of this agent; it is one of {', '.join(owners)}")
        raise UserError(f"unknown key {name!r} in {source}; {nearest(name, valid)}")


def make_agent(config: RunConfig[Any, Any], spec: EnvironmentSpec) -> Agent:
    """The agent that a config names, for observations as its network sees them."""
    stacked = spec._replace(observation_shape=observation_shape(config, spec))
    setting = Setting(stacked, config.network, optimization(config), config.double)
    return AGENTS[config.agent].make(setting, config.algorithm)


def observation_shape(config: RunConfig[Any, Any], spec: EnvironmentSpec) -> tuple[int, ...]:
    return spec.observation_shape + ((config.frame_stack,) if config.frame_stack > 1 else ())


def optimization(config: RunConfig[Any, Any]) -> Optimization:
    """Adam for the values. Rates are constant as in the papers, or all fall by one factor along a half cosine."""

    def rate(initial: float) -> optax.ScalarOrSchedule:
        if config.final_rate_share == 1:
            return initial
        return optax.cosine_decay_schedule(initial, num_updates(config), alpha=config.final_rate_share)

    return Optimization(optax.adam(rate(config.learning_rate), eps=config.adam_epsilon), rate)
