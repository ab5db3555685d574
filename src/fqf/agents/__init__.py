"""Agents by name: what is their own in a config, and how to build them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import optax

from fqf.agents.agent import Agent
from fqf.agents.fqf import FQFConfig, make_fqf
from fqf.config import RunConfig, num_updates
from fqf.networks.torsos import NetworkConfig
from fqf.types import EnvironmentSpec


class Entry(NamedTuple):
    config: Any
    """What is the agent's own: as published, or as the preset's name says."""
    make: Callable[[EnvironmentSpec, Any, NetworkConfig, optax.GradientTransformation], Agent]


AGENTS = {
    "fqf": Entry(FQFConfig(), make_fqf),
    "fqf_consistent": Entry(FQFConfig(target_weights="widths", value_fractions="midpoints_and_edges"), make_fqf),
}


def make_agent(config: RunConfig[Any], spec: EnvironmentSpec) -> Agent:
    """The agent that a config names, for observations as its network sees them."""
    stacked = spec._replace(observation_shape=observation_shape(config, spec))
    return AGENTS[config.agent].make(stacked, config.algorithm, config.network, value_optimizer(config))


def observation_shape(config: RunConfig[Any], spec: EnvironmentSpec) -> tuple[int, ...]:
    return spec.observation_shape + ((config.frame_stack,) if config.frame_stack > 1 else ())


def value_optimizer(config: RunConfig[Any]) -> optax.GradientTransformation:
    """Adam, at a constant rate as in the papers, or along a half cosine to the end of the run."""
    rate: Any = config.learning_rate
    if config.final_learning_rate is not None and config.learning_rate > 0:
        floor = config.final_learning_rate / config.learning_rate
        rate = optax.cosine_decay_schedule(config.learning_rate, max(1, num_updates(config)), alpha=floor)
    return optax.adam(rate, eps=config.adam_epsilon)
