"""FQF against a naive oracle, and its gradient seams."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from reference.naive_fqf import NaiveNetwork, edges, naive_losses

from fqf import learner
from fqf.agents.agent import Optimization, Setting, mean
from fqf.agents.fqf import FQFConfig, make_fqf
from fqf.networks.torsos import NetworkConfig
from fqf.types import EnvironmentSpec, Transition

pytestmark = pytest.mark.usefixtures("compile_quickly")

# Unequal axes: B=2 transitions, N=3 fractions, A=4 actions, D=6 features, 5 cosines, 7 hidden units, 2 inputs.
SPEC = EnvironmentSpec("test/none", (2,), np.dtype("float32"), 4)
OPTIMIZATION = Optimization(optax.adam(1e-2), lambda rate: rate)
NETWORK = NetworkConfig("mlp", (6,), 7)
CONFIG = FQFConfig(num_fractions=3, num_cosines=5, huber_kappa=0.7, fraction_learning_rate=1e-3)
BATCH = Transition(
    observation=jnp.array([[0.3, -0.8], [1.2, 0.5]]),
    action=jnp.array([2, 1]),
    reward=jnp.array([0.4, -1.3]),
    discount=jnp.array([0.9, 0.81]),
    next_observation=jnp.array([[-0.6, 0.9], [0.7, 1.1]]),
)


@functools.cache
def make(num_actions=4, **changes):
    setting = Setting(SPEC._replace(num_actions=num_actions), NETWORK, OPTIMIZATION, double=False)
    agent = make_fqf(setting, dataclasses.replace(CONFIG, **changes))
    compiled = {name: jax.jit(getattr(agent, name)) for name in ("init", "q_values", "distribution", "loss")}
    return agent._replace(**compiled)


def spread(params, seed):
    """Parameters far from their start, with non-uniform fractions; biases too."""
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    return structure.unflatten(
        [leaf + 0.7 * jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    )


@pytest.fixture(scope="module")
def networks():
    params = make().init(jax.random.key(0))
    return spread(params, 1), spread(params, 2)


def update(agent, state, batch, weights, key):
    return jax.jit(lambda *arguments: learner.update(agent, *arguments))(state, batch, weights, key)


def gradients(agent, params, target, batch=BATCH, seed=3):
    return jax.grad(lambda p: jnp.mean(agent.loss(p, target, batch, jax.random.key(seed)).loss))(params)


@pytest.mark.parametrize("target_fractions", ["current", "next"])
@pytest.mark.parametrize("target_weights", ["equal", "widths"])
@pytest.mark.parametrize("value_fractions", ["midpoints", "midpoints_and_edges"])
def test_loss_equals_the_naive_one(networks, target_fractions, target_weights, value_fractions):
    words = {
        "target_fractions": target_fractions,
        "target_weights": target_weights,
        "value_fractions": value_fractions,
    }
    params, target = networks
    output = make(**words).loss(params, target, BATCH, jax.random.key(3))
    online, frozen = NaiveNetwork(params, 5), NaiveNetwork(target, 5)
    rows = list(zip(*(np.asarray(leaf, np.float64) for leaf in BATCH), strict=True))
    rows = [(o, int(a), r, d, n) for o, a, r, d, n in rows]
    expected = [naive_losses(online, frozen, row, 0.7, **words) for row in rows]
    quantile_losses, w1_gradients = zip(*expected, strict=True)
    taus = [edges(online.widths(row[0])) for row in rows]
    fraction_losses = [g @ tau[1:-1] for g, tau in zip(w1_gradients, taus, strict=True)]
    np.testing.assert_allclose(output.loss, np.add(quantile_losses, fraction_losses), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(output.metrics["quantile_loss"], np.mean(quantile_losses), rtol=2e-5)
    norms = [np.linalg.norm(g) for g in w1_gradients]
    np.testing.assert_allclose(output.metrics["w1_gradient_norm"], np.mean(norms), rtol=2e-5)


def test_q_values_weigh_quantiles_by_their_widths(networks):
    """The plain mean of the quantile values is another number as soon as fractions are not uniform."""
    agent, (params, _) = make(), networks
    online = NaiveNetwork(params, 5)
    expected, plain = np.zeros((2, 4)), np.zeros((2, 4))
    for b, observation in enumerate(np.asarray(BATCH.observation, np.float64)):
        taus = edges(online.widths(observation))
        values = [online.quantile(observation, tau) for tau in (taus[1:] + taus[:-1]) / 2]
        expected[b], plain[b] = np.diff(taus) @ values, np.mean(values, axis=0)
    np.testing.assert_allclose(agent.q_values(params, BATCH.observation, jax.random.key(0)), expected, rtol=1e-4)
    assert np.max(np.abs(expected - plain)) > 0.05
    distribution = agent.distribution(params, BATCH.observation)
    assert distribution.values.shape == distribution.probabilities.shape == (2, 4, 3)
    np.testing.assert_allclose(mean(distribution), expected, rtol=1e-4)


@pytest.mark.parametrize("value_fractions", ["midpoints", "midpoints_and_edges", "alternate"])
@pytest.mark.parametrize("target_fractions", ["current", "next"])
def test_w1_gradient_moves_the_proposal_and_nothing_else(networks, value_fractions, target_fractions):
    """Each part of the loss has a gradient to its own parameters only."""
    params, target = networks
    agent = make(value_fractions=value_fractions, target_fractions=target_fractions)

    def fraction_part(p):
        return agent.loss(p, target, BATCH, jax.random.key(3)).metrics["fraction_loss"]

    def quantile_part(p):
        return agent.loss(p, target, BATCH, jax.random.key(3)).metrics["quantile_loss"]

    by_fraction, by_quantile = jax.grad(fraction_part)(params), jax.grad(quantile_part)(params)
    for part in params:
        for name, moved, still in (("fraction", by_fraction, by_quantile), ("quantile", by_quantile, by_fraction)):
            if (part == "proposal") == (name == "fraction"):
                assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(moved[part])), (name, part)
                assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(still[part])), (name, part)


def test_pull_back_is_the_chain_rule_through_the_softmax(networks):
    """d/db_P of sum_i g_i tau_i by hand: tau_i = sum_{j<i} q_j and dq_j/db_k = q_j (1[j=k] - q_k)."""
    params, target = networks
    got = gradients(make(), params, target)["proposal"]["params"]["bias"]
    online, frozen = NaiveNetwork(params, 5), NaiveNetwork(target, 5)
    expected = np.zeros(3)
    for o, a, r, d, n in zip(*(np.asarray(leaf, np.float64) for leaf in BATCH), strict=True):
        _, gradient = naive_losses(online, frozen, (o, int(a), r, d, n), 0.7, "current", "equal", "midpoints")
        q = online.widths(o)
        jacobian = np.diag(q) - np.outer(q, q)  # dq_j/db_k
        dtau = np.array([jacobian[:i].sum(axis=0) for i in (1, 2)])  # [N-1, N]
        expected += gradient @ dtau / 2
    np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize("value_fractions", ["midpoints", "midpoints_and_edges", "alternate"])
def test_target_is_read_and_gets_no_gradient(networks, value_fractions):
    params, target = networks
    agent = make(value_fractions=value_fractions)
    loss = lambda t: jnp.sum(agent.loss(params, t, BATCH, jax.random.key(3)).loss)  # noqa: E731
    assert loss(target) != loss(params)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(jax.grad(loss)(target)))


def test_one_action_is_greedy_for_all_quantiles():
    """Two actions whose quantiles cross: a maximum per quantile would promise more than either action gives."""
    agent = make(num_actions=2, target_fractions="next")
    params, target = (spread(agent.init(jax.random.key(0)), seed) for seed in (1, 3))
    batch = BATCH._replace(action=BATCH.action % 2)
    values = np.asarray(agent.distribution(target, batch.next_observation).values)  # [B, A, N]
    greedy = np.asarray(jnp.argmax(agent.q_values(target, batch.next_observation, jax.random.key(1)), axis=1))
    assert np.any(values.max(axis=1) > values[np.arange(2), greedy] + 0.01), "the example must tell the two apart"
    rows = [(o, int(a), r, d, n) for o, a, r, d, n in zip(*(np.asarray(x, np.float64) for x in batch), strict=True)]
    online, frozen = NaiveNetwork(params, 5), NaiveNetwork(target, 5)
    expected = [naive_losses(online, frozen, row, 0.7, "next", "equal", "midpoints")[0] for row in rows]
    output = agent.loss(params, target, batch, jax.random.key(2))
    np.testing.assert_allclose(output.metrics["quantile_loss"], np.mean(expected), rtol=2e-5)


def test_alternate_trains_either_set_by_a_coin(networks):
    """With heads the loss is that of the midpoints; with tails that of the N-1 edges and the last midpoint."""
    params, target = networks
    agent = make(value_fractions="alternate")
    outputs = [agent.loss(params, target, BATCH, jax.random.key(seed)) for seed in range(12)]
    losses = sorted({float(output.metrics["quantile_loss"]) for output in outputs})
    online, frozen = NaiveNetwork(params, 5), NaiveNetwork(target, 5)
    rows = [(o, int(a), r, d, n) for o, a, r, d, n in zip(*(np.asarray(x, np.float64) for x in BATCH), strict=True)]
    expected = [
        np.mean([naive_losses(online, frozen, row, 0.7, "current", "equal", words)[0] for row in rows])
        for words in ("midpoints", "edges_and_last_midpoint")
    ]
    np.testing.assert_allclose(losses, sorted(expected), rtol=2e-5)
    assert abs(expected[0] - expected[1]) > 1e-3
    norms = [agent.loss(params, target, BATCH, jax.random.key(s)).metrics["w1_gradient_norm"] for s in range(12)]
    np.testing.assert_allclose(norms, norms[0], rtol=1e-5)  # dW1/dtau does not depend on the coin


def test_terminal_rows_ignore_the_next_state_even_when_it_is_nan(networks):
    params, target = networks
    ended = BATCH._replace(discount=jnp.array([0.0, 0.81]))
    poisoned = ended._replace(next_observation=ended.next_observation.at[0].set(jnp.nan))
    agent = make(target_weights="widths")
    clean, other = (agent.loss(params, target, batch, jax.random.key(3)).loss for batch in (ended, poisoned))
    np.testing.assert_array_equal(clean, other)
    leaves = jax.tree.leaves(gradients(agent, params, target, poisoned))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves)


def test_entropy_bonus_pushes_fractions_apart(networks):
    """A step against the gradient of the loss must raise H(q); the wrong sign would lower it."""
    params, target = networks
    with_bonus, without = make(entropy_coefficient=1.0), make()

    def bonus_only(p):
        keys = jax.random.key(3), jax.random.key(4)
        difference = with_bonus.loss(p, target, BATCH, keys[0]).loss - without.loss(p, target, BATCH, keys[1]).loss
        return jnp.mean(difference)

    gradient = jax.grad(bonus_only)(params)
    stepped = jax.tree.map(lambda leaf, slope: leaf - 0.1 * slope, params, gradient)
    entropies = [
        without.loss(p, target, BATCH, jax.random.key(5)).metrics["fraction_entropy"] for p in (params, stepped)
    ]
    assert entropies[1] > entropies[0] + 1e-4
    assert all(np.all(leaf == 0) for part in ("torso", "embedding", "head") for leaf in jax.tree.leaves(gradient[part]))


def test_fractions_start_exactly_uniform():
    agent = make(num_fractions=4)
    probabilities = agent.distribution(agent.init(jax.random.key(0)), BATCH.observation).probabilities
    np.testing.assert_array_equal(probabilities, 0.25)


@pytest.mark.parametrize(
    ("source", "moves", "uniform", "repeats"),
    [
        ("proposed", True, False, True),
        ("frozen", False, False, True),
        ("uniform", False, True, True),
        ("random", False, False, False),
    ],
)
def test_fraction_sources(networks, source, moves, uniform, repeats):
    """Which sources are learned, which are uniform, and which give the same answer twice."""
    agent = make(fractions=source)
    params = agent.init(jax.random.key(0))
    assert ("proposal" in params) == (source in ("proposed", "frozen"))
    if source == "proposed":
        params = networks[0]
    state = learner.init(agent, jax.random.key(0))._replace(params=params)
    updated, _, _ = update(agent, state, BATCH, jnp.ones(2), jax.random.key(1))
    if "proposal" in params:
        before, after = (jax.tree.leaves(p["proposal"]) for p in (params, updated.params))
        assert any(np.any(x != y) for x, y in zip(before, after, strict=True)) == moves
    shift = [agent.loss(params, params, BATCH, jax.random.key(seed)).metrics["fraction_shift"] for seed in (2, 3)]
    assert (shift[0] < 1e-6) == uniform
    assert (shift[0] == shift[1]) == repeats
    q = [np.asarray(agent.q_values(params, BATCH.observation, jax.random.key(seed))) for seed in (4, 5)]
    assert np.array_equal(*q) == repeats
    twice = [agent.distribution(params, BATCH.observation).values for _ in range(2)]
    np.testing.assert_array_equal(*twice)  # evaluation asks fixed fractions


@pytest.mark.parametrize("value_fractions", ["midpoints", "midpoints_and_edges", "alternate"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_single_fraction_works(value_fractions, batch_size):
    """N = 1 has no inner edge: FQF becomes DQN with half its Huber loss (tau_hat = 1/2, a target of one atom)."""
    agent = make(num_fractions=1, value_fractions=value_fractions)
    params, target = agent.init(jax.random.key(0)), agent.init(jax.random.key(1))
    batch = jax.tree.map(lambda leaf: leaf[:batch_size], BATCH)
    output = agent.loss(params, target, batch, jax.random.key(2))
    q = agent.q_values(params, batch.observation, jax.random.key(3))[jnp.arange(batch_size), batch.action]
    best = jnp.max(agent.q_values(target, batch.next_observation, jax.random.key(4)), axis=1)
    delta = np.asarray(batch.reward + batch.discount * best - q)
    huber = np.where(np.abs(delta) <= 0.7, 0.5 * delta**2, 0.7 * (np.abs(delta) - 0.35)) / 0.7
    np.testing.assert_allclose(output.loss, huber / 2, rtol=1e-5)


def test_every_tensor_moves_in_one_step_and_the_target_does_not(networks):
    agent = make()
    state = learner.init(agent, jax.random.key(0))._replace(params=networks[0])
    updated, priorities, metrics = update(agent, state, BATCH, jnp.ones(2), jax.random.key(1))
    for path, before in jax.tree_util.tree_leaves_with_path(state.params):
        after = updated.params
        for key in path:
            after = after[key.key]
        assert np.any(before != after), jax.tree_util.keystr(path)
    same = jax.tree.map(np.array_equal, state.target_params, updated.target_params)
    assert all(jax.tree.leaves(same))
    assert priorities.shape == (2,)
    assert np.all(priorities > 0)
    assert all(np.isfinite(value) for value in metrics.values())


def test_fraction_optimiser_is_the_authors_centred_rmsprop(networks):
    """One step from zero moments: mean .05 g, square .05 g^2, step lr g / sqrt(.05 g^2 - .0025 g^2 + 1e-5)."""
    agent, (params, target) = make(), networks
    gradient = gradients(agent, params, target)["proposal"]["params"]["bias"]
    state = agent.optimizer.init(params)
    updates, _ = agent.optimizer.update(gradients(agent, params, target), state, params)
    step = updates["proposal"]["params"]["bias"]
    expected = -1e-3 * gradient / np.sqrt(0.05 * gradient**2 - (0.05 * gradient) ** 2 + 1e-5)
    np.testing.assert_allclose(step, expected, rtol=1e-4)


def test_importance_weights_scale_both_losses(networks):
    """A row of weight 0 must not move anything, the fractions included."""
    agent, (params, target) = make(), networks
    state = learner.init(agent, jax.random.key(0))._replace(params=params, target_params=target)
    only_first = jax.tree.map(lambda leaf: leaf[:1], BATCH)
    both, _, _ = update(agent, state, BATCH, jnp.array([2.0, 0.0]), jax.random.key(1))
    first, _, _ = update(agent, state, only_first, jnp.ones(1), jax.random.key(1))
    for x, y in zip(jax.tree.leaves(both.params), jax.tree.leaves(first.params), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-6)


def test_metrics_say_what_they_promise(networks):
    params, target = networks
    metrics = make().loss(params, target, BATCH, jax.random.key(3)).metrics
    online = NaiveNetwork(params, 5)
    taus = np.array([edges(online.widths(o)) for o in np.asarray(BATCH.observation, np.float64)])
    widths = np.diff(taus, axis=1)
    np.testing.assert_allclose(metrics["fraction_entropy"], -np.sum(widths * np.log(widths), axis=1).mean(), rtol=1e-4)
    shift = np.max(np.abs(taus - np.arange(4) / 3), axis=1).mean()
    np.testing.assert_allclose(metrics["fraction_shift"], shift, rtol=1e-4)

    def asked(fractions):
        rows = zip(np.asarray(BATCH.observation, np.float64), np.asarray(BATCH.action), fractions, strict=True)
        return np.array([[online.quantile(o, tau)[a] for tau in each] for o, a, each in rows])

    values, inner = asked((taus[:, 1:] + taus[:, :-1]) / 2), asked(taus[:, 1:-1])
    np.testing.assert_allclose(metrics["crossing_rate"], np.mean(np.diff(values, axis=1) < 0), rtol=1e-6)
    halves = widths[:, :-1] * np.abs(inner - values[:, :-1]) + widths[:, 1:] * np.abs(values[:, 1:] - inner)
    np.testing.assert_allclose(metrics["w1_estimate"], np.sum(halves, axis=1).mean() / 4, rtol=1e-4)
    np.testing.assert_allclose(metrics["q"], np.sum(widths * values, axis=1).mean(), rtol=1e-4)
