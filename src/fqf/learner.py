"""One gradient step, the same for all agents."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fqf.agents.agent import Agent
from fqf.types import Key, LearnerState, Transition


def init(agent: Agent, key: Key) -> LearnerState:
    params = agent.init(key)
    # The copy keeps the two trees apart in memory: a buffer that is given away twice can't be donated.
    return LearnerState(params, jax.tree.map(jnp.copy, params), agent.optimizer.init(params))


def update(
    agent: Agent, state: LearnerState, batch: Transition, weights: Float[Array, "B"], key: Key
) -> tuple[LearnerState, Float[Array, "B"], dict[str, Float[Array, ""]]]:
    """Descend the mean loss of a batch. Returns the new state, the rows' new priorities and what to log."""

    def mean_loss(params):
        output = agent.loss(params, state.target_params, batch, key)
        return jnp.mean(weights * output.loss), output

    gradients, output = jax.grad(mean_loss, has_aux=True)(state.params)
    updates, optimizer_state = agent.optimizer.update(gradients, state.optimizer_state, state.params)
    metrics = {**output.metrics, "gradient_norm": optax.tree.norm(gradients)}
    state = state._replace(params=optax.apply_updates(state.params, updates), optimizer_state=optimizer_state)
    return state, output.priorities, metrics


def sync_target(state: LearnerState) -> LearnerState:
    return state._replace(target_params=state.params)
