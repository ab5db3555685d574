"""Agents by name: what is their own in a config, and how to build them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import optax

from fqf.agents.agent import Agent, Optimization
from fqf.agents.fqf import FQFConfig, make_fqf
from fqf.config import RunConfig, num_updates
from fqf.errors import UserError, nearest
from fqf.networks.torsos import NetworkConfig
from fqf.types import EnvironmentSpec


class Entry(NamedTuple):
    config: Any
    """What is the agent's own: as published, or as the preset's name says."""
    make: Callable[[EnvironmentSpec, Any, NetworkConfig, Optimization], Agent]


AGENTS = {
    "fqf": Entry(FQFConfig(), make_fqf),
    "fqf_consistent": Entry(FQFConfig(target_weights="widths", value_fractions="midpoints_and_edges"), make_fqf),
}


def whole_config(agent: str) -> RunConfig[Any]:
    """A config of the right shape for an agent, with the defaults of its papers."""
    if agent not in AGENTS:
        raise UserError(f"unknown agent {agent!r}; {nearest(agent, AGENTS)}")
    return RunConfig(algorithm=AGENTS[agent].config, agent=agent)


def make_agent(config: RunConfig[Any], spec: EnvironmentSpec) -> Agent:
    """The agent that a config names, for observations as its network sees them."""
    stacked = spec._replace(observation_shape=observation_shape(config, spec))
    return AGENTS[config.agent].make(stacked, config.algorithm, config.network, optimization(config))


def observation_shape(config: RunConfig[Any], spec: EnvironmentSpec) -> tuple[int, ...]:
    return spec.observation_shape + ((config.frame_stack,) if config.frame_stack > 1 else ())


def optimization(config: RunConfig[Any]) -> Optimization:
    """Adam for the values. Rates are constant as in the papers, or all fall by one factor along a half cosine."""

    def rate(initial: float) -> optax.ScalarOrSchedule:
        if config.final_rate_share == 1:
            return initial
        return optax.cosine_decay_schedule(initial, num_updates(config), alpha=config.final_rate_share)

    return Optimization(optax.adam(rate(config.learning_rate), eps=config.adam_epsilon), rate)
