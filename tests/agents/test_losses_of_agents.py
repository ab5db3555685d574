"""Losses of whole agents against naive loops that are given the agents' own network outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from reference import naive_rainbow
from reference.naive_losses import naive_categorical_projection, naive_quantile_huber
from test_every_agent import BATCH, make, networks

from fqf import learner

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
        np.testing.assert_allclose(output.priorities[b], mean_distance(goals, now[b, int(action)]), rtol=1e-4)


def opposed(name, layer):
    """Networks that disagree about the best action: the target's last layer is the online one's, negated."""
    params, target = networks(name)
    head = {**target["head"]["params"], layer: jax.tree.map(jnp.negative, params["head"]["params"][layer])}
    return params, {**target, "head": {"params": head}}


def mean_distance(targets, quantiles):
    """The priority of quantile agents: no pair of target and quantile cancels another."""
    return np.mean([abs(target - quantile) for target in targets for quantile in quantiles])


@pytest.mark.parametrize("double", [False, True])
def test_iqn_asks_three_sets_of_fractions(double):
    """Its network, asked by hand at the fractions that its key gives: N = 3 trained, N' = 5 targets, K = 6 to act."""
    agent, (params, target) = make("iqn", huber_kappa=KAPPA, double=double), opposed("iqn", "Dense_1")
    tau_key, target_key, action_key = jax.random.split(jax.random.key(3), 3)
    taus, target_taus, action_taus = (
        jax.random.uniform(key, (2, count)) for key, count in ((tau_key, 3), (target_key, 5), (action_key, 6))
    )
    values = ask(params, BATCH.observation, taus)
    frozen = ask(target, BATCH.next_observation, target_taus)
    choices = [ask(network, BATCH.next_observation, action_taus).mean(axis=2) for network in (params, target)]
    assert np.any(np.argmax(choices[0], axis=1) != np.argmax(choices[1], axis=1))
    acting = choices[0 if double else 1]
    output = agent.loss(params, target, BATCH, jax.random.key(3))
    for b, (action, reward, discount) in enumerate(rows()):
        goals = reward + discount * frozen[b, int(np.argmax(acting[b]))]
        expected = naive_quantile_huber(values[b, int(action)], np.asarray(taus[b]), goals, [1 / 5] * 5, KAPPA)
        np.testing.assert_allclose(output.loss[b], expected, rtol=1e-4)
        np.testing.assert_allclose(output.priorities[b], mean_distance(goals, values[b, int(action)]), rtol=1e-4)


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


@pytest.mark.parametrize("double", [False, True])
def test_rainbow_has_one_noise_per_network_and_update(double):
    """Online and target logits by hand, each network with the noise of its own key wherever it is asked."""
    agent, (params, target) = make("rainbow", double=double), opposed("rainbow", "NoisyDense_3")
    online_key, target_key = jax.random.split(jax.random.key(3))
    now, online = (rainbow_probabilities(params, online_key, o) for o in (BATCH.observation, BATCH.next_observation))
    frozen = rainbow_probabilities(target, target_key, BATCH.next_observation)
    assert np.any(np.argmax(online @ GRID, axis=1) != np.argmax(frozen @ GRID, axis=1))
    output = agent.loss(params, target, BATCH, jax.random.key(3))
    for b, (action, reward, discount) in enumerate(rows()):
        best = int(np.argmax((online if double else frozen)[b] @ GRID))
        goal = naive_categorical_projection(reward + discount * GRID, frozen[b, best], GRID)
        np.testing.assert_allclose(output.loss[b], -np.sum(goal * np.log(now[b, int(action)])), rtol=1e-3)


def rainbow_probabilities(params, key, observation):
    """[B, A, N]: softmax of V + A - the mean of A over actions, atom by atom."""
    psi = naive_rainbow.relu(
        naive_rainbow.dense(
            np.asarray(observation, np.float64), naive_rainbow.plain(params["torso"]["params"]["Dense_0"])
        )
    )
    value, advantages = naive_rainbow.NaiveStreams(params["head"]["params"], key)(psi)
    advantages = advantages.reshape(len(psi), 4, 5)
    logits = value[:, None, :] + advantages - advantages.mean(axis=1, keepdims=True)
    exponentials = np.exp(logits)
    return exponentials / exponentials.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("double", [False, True])
def test_fqf_rainbow(double):
    """Both losses and the priorities from a network in float64 that has one noise per key, row by row."""
    agent = make("fqf_rainbow", huber_kappa=KAPPA, double=double)
    params, target = opposed("fqf_rainbow", "NoisyDense_3")
    online_key, target_key = jax.random.split(jax.random.key(3))
    online, frozen = (
        naive_rainbow.NaiveFQFRainbow(p, k, num_cosines=5) for p, k in ((params, online_key), (target, target_key))
    )
    output = agent.loss(params, target, BATCH, jax.random.key(3))
    observations, following = (np.asarray(x, np.float64) for x in (BATCH.observation, BATCH.next_observation))
    assert any(np.argmax(online.q(state)) != np.argmax(frozen.q(state)) for state in following)
    for b, (action, reward, discount) in enumerate(rows()):
        taus, tau_hats = online.edges(observations[b]), online.midpoints(observations[b])
        best = int(np.argmax((online if double else frozen).q(following[b])))
        goals = [reward + discount * frozen.quantile(following[b], tau)[best] for tau in tau_hats]
        trained = np.concatenate([tau_hats, taus[1:-1]])
        values = [online.quantile(observations[b], tau)[int(action)] for tau in trained]
        quantile_loss = naive_quantile_huber(values, trained, goals, np.diff(taus), KAPPA) * 3 / 5
        gradient = [2 * values[3 + i] - values[i] - values[i + 1] for i in range(2)]
        np.testing.assert_allclose(output.loss[b], quantile_loss + np.dot(gradient, taus[1:-1]), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(output.priorities[b], mean_distance(goals, values), rtol=1e-3)


@pytest.mark.parametrize("name", ["rainbow", "fqf_rainbow"])
def test_noise_differs_between_updates_and_is_off_in_evaluation(name):
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


def test_the_dueling_head_sends_less_gradient_into_the_torso():
    """Two streams of gradient, scaled by 1/sqrt(2) together (Wang et al. 2016); the streams' own is not scaled."""
    from fqf.agents.prior_duel import DuelingHead

    head = DuelingHead(hidden=7, num_actions=4)
    features = jax.random.normal(jax.random.key(0), (2, 6))
    params = head.init(jax.random.key(1), features)
    gradient = jax.grad(lambda x: jnp.sum(head.apply(params, x) ** 2))(features)
    step = 1e-2
    for index in ((0, 1), (1, 5)):
        above, below = (jnp.sum(head.apply(params, features.at[index].add(sign * step)) ** 2) for sign in (1, -1))
        np.testing.assert_allclose(gradient[index], (above - below) / (2 * step) / np.sqrt(2), rtol=2e-2)


def test_prior_duel_clips_its_gradients():
    """Adam forgets a common scale, so the clip shows in its first moment: 0.1 times a gradient of norm 10."""
    agent, (params, target) = make("prior_duel", huber_kappa=1e6), networks("prior_duel")
    large = BATCH._replace(reward=BATCH.reward + 1e5)
    state = learner.init(agent, jax.random.key(0))._replace(params=params, target_params=target)
    after, _, metrics = learner.update(agent, state, large, jnp.ones(2), jax.random.key(0))
    assert metrics["gradient_norm"] > 1e3
    moments = [leaf for leaf in after.optimizer_state if hasattr(leaf, "mu") or isinstance(leaf, tuple)]
    adam = next(leaf for leaf in jax.tree.leaves(moments, is_leaf=lambda x: hasattr(x, "mu")) if hasattr(leaf, "mu"))
    np.testing.assert_allclose(optax.tree.norm(adam.mu), 1.0, rtol=1e-4)


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
