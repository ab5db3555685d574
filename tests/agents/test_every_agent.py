"""What must hold for every agent, in one table."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fqf import learner
from fqf.agents import AGENTS, make_agent, whole_config
from fqf.agents.agent import mean
from fqf.config import override
from fqf.environments import NoOptions
from fqf.types import EnvironmentSpec, Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")

# Unequal axes: B=2 transitions, N=3 or 5 atoms, A=4 actions, D=6 features, 7 hidden units, 2 inputs.
SPEC = EnvironmentSpec("test/none", (2,), np.dtype("float32"), 4)
SMALL = {"torso": "mlp", "torso_layers": (6,), "hidden": 7, "learning_rate": 1e-2, "fraction_learning_rate": 1e-3}
SMALL |= {"num_fractions": 3, "num_quantiles": 3, "num_target_quantiles": 5, "num_action_quantiles": 6, "num_atoms": 5}
SMALL |= {"num_cosines": 5, "v_min": -3.0, "v_max": 3.0}
BATCH = Transition(
    observation=jnp.array([[0.3, -0.8], [1.2, 0.5]]),
    action=jnp.array([2, 1]),
    reward=jnp.array([0.4, -1.3]),
    discount=jnp.array([0.9, 0.81]),
    next_observation=jnp.array([[-0.6, 0.9], [0.7, 1.1]]),
)
every_agent = pytest.mark.parametrize("name", AGENTS)


@functools.cache
def make(name, **changes):
    agent = make_agent(override(whole_config(name, NoOptions()), SMALL | changes), SPEC)
    compiled = {part: jax.jit(getattr(agent, part)) for part in ("init", "q_values", "distribution", "loss")}
    return agent._replace(**compiled)


@functools.cache
def networks(name):
    """Online and target parameters, far from their start and from each other."""

    def spread(seed):
        leaves, structure = jax.tree.flatten(make(name).init(jax.random.key(0)))
        keys = jax.random.split(jax.random.key(seed), len(leaves))
        moved = [leaf + 0.5 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
        return structure.unflatten(moved)

    return spread(1), spread(2)


def update(name, state, batch, weights, seed=3):
    step = jax.jit(lambda state, batch, weights, key: learner.update(make(name), state, batch, weights, key))
    return step(state, batch, weights, jax.random.key(seed))


def start(name):
    params, target = networks(name)
    return learner.init(make(name), jax.random.key(0))._replace(params=params, target_params=target)


@every_agent
def test_the_target_is_read_and_gets_no_gradient(name):
    params, target = networks(name)
    loss = lambda t: jnp.sum(make(name).loss(params, t, BATCH, jax.random.key(3)).loss)  # noqa: E731
    assert loss(target) != loss(params)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(jax.grad(loss)(target)))


@every_agent
def test_every_tensor_moves_in_one_step_and_the_target_does_not(name):
    before = start(name)
    after, errors, metrics = update(name, before, BATCH, jnp.ones(2))
    moved = jax.tree.map(lambda x, y: bool(np.any(x != y)), before.params, after.params)
    still = [jax.tree_util.keystr(path) for path, any in jax.tree_util.tree_leaves_with_path(moved) if not any]
    assert still == []
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, before.target_params, after.target_params)))
    assert errors.shape == (2,)
    assert np.all(errors > 0)
    assert all(np.isfinite(value) for value in metrics.values())
    assert any(metric.endswith("loss") for metric in metrics)


@every_agent
def test_two_seeds_differ_and_one_repeats(name):
    first, again, other = (jax.tree.leaves(make(name).init(jax.random.key(seed))) for seed in (0, 0, 1))
    assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    assert any(np.any(x != y) for x, y in zip(first, other, strict=True))


@every_agent
def test_terminal_rows_ignore_the_next_state_even_when_it_is_nan(name):
    params, target = networks(name)
    ended = BATCH._replace(discount=jnp.array([0.0, 0.81]))
    poisoned = ended._replace(next_observation=ended.next_observation.at[0].set(jnp.nan))

    def loss(params, batch):
        return jnp.sum(make(name).loss(params, target, batch, jax.random.key(3)).loss)

    assert loss(params, ended) == loss(params, poisoned)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(jax.grad(loss)(params, poisoned)))
    assert np.all(np.isfinite(make(name).loss(params, target, poisoned, jax.random.key(3)).priorities))


@every_agent
def test_a_batch_of_one_works_and_rows_do_not_mix(name):
    """Row for row the loss of a batch is that of its rows alone; random fractions would differ, so none are drawn."""
    params, target = networks(name)
    one = jax.tree.map(lambda leaf: leaf[:1], BATCH)
    alone = make(name).loss(params, target, one, jax.random.key(3))
    assert alone.loss.shape == alone.priorities.shape == (1,)
    assert np.isfinite(alone.loss[0])
    if name != "iqn":
        both = make(name).loss(params, target, BATCH, jax.random.key(3))
        np.testing.assert_allclose(alone.loss[0], both.loss[0], rtol=1e-5)


@every_agent
def test_distribution_has_one_shape_and_no_randomness(name):
    params, _ = networks(name)
    distribution = make(name).distribution(params, BATCH.observation)
    atoms = distribution.values.shape[-1]
    assert distribution.values.shape == distribution.probabilities.shape == (2, 4, atoms)
    np.testing.assert_allclose(jnp.sum(distribution.probabilities, axis=2), 1.0, rtol=1e-5)
    again = make(name).distribution(params, BATCH.observation)
    assert all(np.array_equal(x, y) for x, y in zip(distribution, again, strict=True))
    assert atoms == {"dqn": 1, "prioritized": 1, "prior_duel": 1, "c51": 5, "rainbow": 5, "iqn": 6}.get(name, 3)


@every_agent
def test_acting_is_random_where_the_network_is(name):
    """IQN draws fractions, noisy networks draw noise, per act; all others give their mean, whatever the key."""
    params, _ = networks(name)
    q = [np.asarray(make(name).q_values(params, BATCH.observation, jax.random.key(seed))) for seed in (0, 0, 1)]
    assert np.array_equal(q[0], q[1])
    expected = np.asarray(mean(make(name).distribution(params, BATCH.observation)))
    if name in ("iqn", "rainbow", "fqf_rainbow"):
        assert not np.array_equal(q[0], q[2])
    else:
        np.testing.assert_allclose(q[0], expected, rtol=1e-5)
        assert np.array_equal(q[0], q[2])


@every_agent
def test_double_takes_the_online_networks_action(name):
    """The two networks disagree about the best next action, so the choice must change the loss, and only there."""
    params, target = networks(name)
    single, double = make(name, double=False), make(name, double=True)
    best = [np.argmax(mean(single.distribution(p, BATCH.next_observation)), axis=1) for p in (params, target)]
    losses = [agent.loss(params, target, BATCH, jax.random.key(3)).loss for agent in (single, double)]
    if name not in ("iqn", "rainbow", "fqf_rainbow"):  # whose choice is random as well
        assert np.any(best[0] != best[1])
        np.testing.assert_array_equal(best[0] != best[1], losses[0] != losses[1])
    same = [agent.loss(params, params, BATCH, jax.random.key(3)).loss for agent in (single, double)]
    if name not in ("rainbow", "fqf_rainbow"):  # whose two networks have noise of their own
        np.testing.assert_allclose(same[0], same[1], rtol=1e-6)


@every_agent
def test_importance_weights_scale_everything(name):
    """A row of weight 0 moves nothing, fractions included."""
    before = start(name)
    poisoned = BATCH._replace(reward=BATCH.reward.at[1].set(1e3))
    one, _, _ = update(name, before, BATCH, jnp.array([1.0, 0.0]))
    other, _, _ = update(name, before, poisoned, jnp.array([1.0, 0.0]))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, one.params, other.params)))
