"""Losses of whole agents against naive loops that are given the agents' own network outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.naive_losses import naive_categorical_projection, naive_quantile_huber
from test_every_agent import BATCH, make, networks

pytestmark = pytest.mark.usefixtures("compile_quickly")
KAPPA = 0.7
GRID = np.linspace(-3, 3, 5)


def rows():
    return zip(*(np.asarray(leaf, np.float64) for leaf in (BATCH.action, BATCH.reward, BATCH.discount)), strict=True)


def answers(agent, params, observation):
    """Probabilities and values of every action, in float64."""
    return (np.asarray(leaf, np.float64) for leaf in agent.distribution(params, observation))


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", ["dqn", "prioritized", "prior_duel"])
def test_expectations(name, double):
    agent, (params, target) = make(name, huber_kappa=KAPPA, double=double), networks(name)
    q, online, frozen = (
        np.asarray(agent.q_values(p, o, jax.random.key(0)), np.float64)
        for p, o in ((params, BATCH.observation), (params, BATCH.next_observation), (target, BATCH.next_observation))
    )
    output = agent.loss(params, target, BATCH, jax.random.key(3))
    for b, (action, reward, discount) in enumerate(rows()):
        best = int(np.argmax((online if double else frozen)[b]))
        error = reward + discount * frozen[b, best] - q[b, int(action)]
        huber = 0.5 * error**2 if abs(error) <= KAPPA else KAPPA * (abs(error) - 0.5 * KAPPA)
        np.testing.assert_allclose(output.loss[b], huber, rtol=1e-4)
        np.testing.assert_allclose(output.priorities[b], abs(error), rtol=1e-4)


@pytest.mark.parametrize("double", [False, True])
def test_c51(double):
    agent, (params, target) = make("c51", double=double), networks("c51")
    now, _ = answers(agent, params, BATCH.observation)
    online, values = answers(agent, params, BATCH.next_observation)
    frozen, _ = answers(agent, target, BATCH.next_observation)
    np.testing.assert_allclose(values[0, 0], GRID, atol=1e-6)
    output = agent.loss(params, target, BATCH, jax.random.key(3))
    for b, (action, reward, discount) in enumerate(rows()):
        best = int(np.argmax((online if double else frozen)[b] @ GRID))
        goal = naive_categorical_projection(reward + discount * GRID, frozen[b, best], GRID)
        learned = now[b, int(action)]
        np.testing.assert_allclose(output.loss[b], -np.sum(goal * np.log(learned)), rtol=1e-4)
        divergence = sum(m * np.log(m / p) for m, p in zip(goal, learned, strict=True) if m > 0)
        np.testing.assert_allclose(output.priorities[b], divergence, rtol=1e-3)


@pytest.mark.parametrize("double", [False, True])
def test_qr_dqn(double):
    agent, (params, target) = make("qr_dqn", huber_kappa=KAPPA, double=double), networks("qr_dqn")
    _, now = answers(agent, params, BATCH.observation)
    _, online = answers(agent, params, BATCH.next_observation)
    _, frozen = answers(agent, target, BATCH.next_observation)
    output = agent.loss(params, target, BATCH, jax.random.key(3))
    for b, (action, reward, discount) in enumerate(rows()):
        best = int(np.argmax((online if double else frozen)[b].mean(axis=1)))
        goals = reward + discount * frozen[b, best]
        expected = naive_quantile_huber(now[b, int(action)], [1 / 6, 3 / 6, 5 / 6], goals, [1 / 3] * 3, KAPPA)
        np.testing.assert_allclose(output.loss[b], expected, rtol=1e-4)


def test_iqn_asks_three_sets_of_fractions():
    """Its network, asked by hand at the fractions that its key gives: N = 3 trained, N' = 5 targets, K = 6 to act."""
    agent, (params, target) = make("iqn", huber_kappa=KAPPA), networks("iqn")
    tau_key, target_key, action_key = jax.random.split(jax.random.key(3), 3)
    taus, target_taus, action_taus = (
        jax.random.uniform(key, (2, count)) for key, count in ((tau_key, 3), (target_key, 5), (action_key, 6))
    )
    values = ask(params, BATCH.observation, taus)
    frozen, acting = (ask(target, BATCH.next_observation, asked) for asked in (target_taus, action_taus))
    output = agent.loss(params, target, BATCH, jax.random.key(3))
    for b, (action, reward, discount) in enumerate(rows()):
        best = int(np.argmax(acting[b].mean(axis=1)))
        goals = reward + discount * frozen[b, best]
        expected = naive_quantile_huber(values[b, int(action)], np.asarray(taus[b]), goals, [1 / 5] * 5, KAPPA)
        np.testing.assert_allclose(output.loss[b], expected, rtol=1e-4)


def ask(params, observation, taus):
    """IQN's network in float64, layer by layer: [B, A, N]."""
    layer = lambda part, name: [  # noqa: E731
        np.asarray(params[part]["params"][name][leaf], np.float64) for leaf in ("kernel", "bias")
    ]
    relu = lambda x: np.maximum(x, 0)  # noqa: E731
    dense = lambda x, weights: x @ weights[0] + weights[1]  # noqa: E731
    psi = relu(dense(np.asarray(observation, np.float64), layer("torso", "Dense_0")))
    cosines = np.cos(np.pi * np.asarray(taus, np.float64)[..., None] * np.arange(1, 6))
    phi = relu(dense(cosines, layer("embedding", "Dense_0")))
    hidden = relu(dense(psi[:, None, :] * phi, layer("head", "Dense_0")))
    return np.swapaxes(dense(hidden, layer("head", "Dense_1")), 1, 2)


@pytest.mark.parametrize("name", ["rainbow", "fqf_rainbow"])
def test_noise_is_one_per_update_and_off_in_evaluation(name):
    """With sigma 0 the keys must not matter; with noise they must, and evaluation sees none of it."""
    agent, (params, target) = make(name), networks(name)

    def without_noise(tree):
        def silence(path, leaf):
            return jnp.zeros_like(leaf) if "sigma" in jax.tree_util.keystr(path) else leaf

        return jax.tree_util.tree_map_with_path(silence, tree)

    quiet, quiet_target = without_noise(params), without_noise(target)
    losses = [agent.loss(quiet, quiet_target, BATCH, jax.random.key(seed)).loss for seed in (0, 1)]
    np.testing.assert_array_equal(*losses)
    noisy = [agent.loss(params, target, BATCH, jax.random.key(seed)).loss for seed in (0, 1)]
    assert np.all(noisy[0] != noisy[1])
    np.testing.assert_array_equal(
        agent.distribution(params, BATCH.observation).values, agent.distribution(quiet, BATCH.observation).values
    )


def test_the_rainbow_head_takes_the_mean_over_actions_atom_by_atom():
    """Whatever the advantages are, the mean over actions of the logits is the value stream."""
    from fqf.agents.rainbow import NoisyDuelingHead

    head = NoisyDuelingHead(hidden=7, num_actions=4, num_atoms=3, sigma=0.5)
    features = jax.random.normal(jax.random.key(0), (2, 6))
    params = head.init(jax.random.key(1), features, None)
    logits = head.apply(params, features, None)
    assert logits.shape == (2, 4, 3)
    shifted = jax.tree.map(lambda leaf: leaf, params)
    bias = shifted["params"]["NoisyDense_3"]["bias"]  # the advantages' output: a constant for all actions of an atom
    shifted["params"]["NoisyDense_3"]["bias"] = bias + jnp.tile(jnp.array([5.0, -1.0, 2.0]), 4)
    np.testing.assert_allclose(head.apply(shifted, features, None), logits, atol=1e-5)


def test_the_dueling_head_takes_the_mean_over_actions():
    from fqf.agents.prior_duel import DuelingHead

    head = DuelingHead(hidden=7, num_actions=4)
    features = jax.random.normal(jax.random.key(0), (2, 6))
    params = head.init(jax.random.key(1), features)
    q = head.apply(params, features)
    params["params"]["ValueHead_1"]["Dense_1"]["bias"] += 5.0
    np.testing.assert_allclose(head.apply(params, features), q, atol=1e-5)
    params["params"]["ValueHead_0"]["Dense_1"]["bias"] += 5.0
    np.testing.assert_allclose(head.apply(params, features), q + 5, atol=1e-5)


def test_dueling_quantiles_take_the_mean_over_actions_and_quantiles():
    """The baseline is one number per state: differences between quantiles of an action are those of V + A alone."""
    agent, (params, _) = make("fqf_rainbow"), networks("fqf_rainbow")
    values = np.asarray(agent.distribution(params, BATCH.observation).values)
    moved = jax.tree.map(lambda leaf: leaf, params)
    moved["head"]["params"]["NoisyDense_3"]["bias"] = params["head"]["params"]["NoisyDense_3"]["bias"] + 5.0
    np.testing.assert_allclose(agent.distribution(moved, BATCH.observation).values, values, atol=1e-4)
    # An advantage that grows with tau for one action keeps its slope; a mean per quantile would take a quarter of it.
    moved["head"]["params"]["NoisyDense_3"]["kernel"] = params["head"]["params"]["NoisyDense_3"]["kernel"] * jnp.array(
        [2.0, 1.0, 1.0, 1.0]
    )
    changed = np.asarray(agent.distribution(moved, BATCH.observation).values)
    others = np.diff(changed[:, 1:], axis=2) - np.diff(values[:, 1:], axis=2)
    np.testing.assert_allclose(others, 0, atol=1e-4)
    assert np.max(np.abs(np.diff(changed[:, 0], axis=1) - np.diff(values[:, 0], axis=1))) > 1e-3
