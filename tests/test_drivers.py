"""The compiled cycle: same seed, same bits, however the run is cut or grouped."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fqf import environments
from fqf.agents import make_agent
from fqf.agents.agent import Agent
from fqf.config import override
from fqf.cycle import Rhythm, make_cycle, run_keys
from fqf.drivers import BLOCK, draw, make_device_driver, make_host_driver, seed_from
from fqf.environments.host import Hosted
from fqf.exploration import linear_epsilon, linear_exponent
from fqf.parts import make_replay
from fqf.presets import preset
from fqf.replay import ring, sumtree
from fqf.replay.memory import make_prioritized, make_uniform
from fqf.replay.ring import Sampling
from fqf.types import EnvironmentSpec, HostEnvironment, JittableEnvironment, LossOutput, Timestep

pytestmark = pytest.mark.usefixtures("compile_quickly")

TINY = {"num_fractions": 3, "num_cosines": 5, "hidden": 7, "batch_size": 8, "replay_capacity": 96, "torso_layers": (6,)}


@functools.cache
def driver(env="classic/cartpole", lanes=1, update_period=2, target_period=6, agent="fqf", make=None, **options):
    """One agent's driver, small."""
    options = {**TINY, "n_step": 1, "discount": 0.9, "lanes": lanes, **options}
    config = override(preset(agent, env), options)
    rhythm = Rhythm(update_period, target_period, config.frame_stack, linear_epsilon(0.1, 20, 30), halfway)
    environment = environments.make(env)
    replay = make_replay(config, environment.spec)
    return (make or on_device)(make_agent(config, environment.spec), environment, lanes, replay, rhythm)


def on_device(agent, environment, lanes, replay, rhythm):
    cycle = make_cycle(agent, environment.spec.num_actions, lanes, replay, rhythm)
    return make_device_driver(cycle, environments.vectorize(environment, lanes))


def halfway(step):
    return jnp.array(0.5)


def keys(*seeds):
    return jax.vmap(jax.random.key)(jnp.array(seeds))


def run(device, seeds, num_periods=12, warm_up=20):
    state, _ = device.warm_up(device.init(keys(*seeds)), 0, warm_up)
    return device.advance(state, warm_up, num_periods)


def leaves(state):
    """Every number of a state, keys included."""
    plain = state._replace(key=jax.random.key_data(state.key))
    flat = jax.tree.leaves(plain._replace(environment=jax.tree.map(_raw, plain.environment)))
    return [np.asarray(leaf) for leaf in flat]


def _raw(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def same(one, other):
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(leaves(one), leaves(other), strict=True))


def test_one_seed_repeats_and_two_differ():
    device = driver()
    first, again, other = (run(device, [seed])[0] for seed in (0, 0, 1))
    assert same(first, again)
    assert not same(first, other)
    params = [np.asarray(jax.tree.leaves(state.learner.params)[0]) for state in (first, other)]
    assert not np.array_equal(*params)


def test_cutting_a_run_into_chunks_changes_nothing():
    device = driver()
    whole, _ = run(device, [3], num_periods=12)
    state, _ = device.warm_up(device.init(keys(3)), 0, 13)
    state, _ = device.warm_up(state, 13, 7)
    state, _ = device.advance(state, 20, 5)
    state, _ = device.advance(state, 20 + 5 * device.steps_per_period, 7)
    state = state._replace(
        environment=state.environment._replace(statistics=whole.environment.statistics)
    )  # the sums of a chunk start anew; the rest must agree
    assert same(whole, state)


@pytest.mark.parametrize(
    ("lanes", "period", "expected"), [(1, 4, (4, 1)), (2, 4, (2, 1)), (4, 4, (1, 1)), (8, 4, (1, 2))]
)
def test_lanes_keep_the_ratio_of_updates_to_steps(lanes, period, expected):
    device = driver(lanes=lanes, update_period=period)
    assert (device.steps_per_period, device.updates_per_period) == expected
    state, _ = run(device, [0], num_periods=3)
    adam_steps = state.learner.optimizer_state.inner_states["values"].inner_state[0].count
    assert int(adam_steps[0]) == 3 * expected[1]


def test_rows_are_what_the_environment_said():
    """Replay the stored actions through the environment: every stored row must be the timestep they were taken at."""
    device = driver(lanes=2)
    state, _ = run(device, [5], num_periods=6)
    environment = environments.vectorize(environments.make("classic/cartpole"), 2)
    environment_key = jax.random.split(keys(5)[0], 4)[1]
    simulated, timestep = environment.init(environment_key)
    num_rows = 20 + 6 * device.steps_per_period
    stored = jax.tree.map(lambda leaf: np.asarray(leaf[0]), state.replay)
    ok, why = ring.check_valid(stored, num_rows)
    assert ok, why
    assert stored.last[:num_rows].any()
    step = jax.jit(environment.step)
    for row in range(num_rows):
        np.testing.assert_allclose(stored.observation[row], timestep.observation, rtol=1e-6)
        np.testing.assert_array_equal(stored.last[row], timestep.last)
        np.testing.assert_array_equal(stored.reward[row], timestep.reward)
        np.testing.assert_array_equal(stored.discount[row], timestep.discount)
        simulated, timestep = step(simulated, stored.action[row])
    assert not stored.last[num_rows:].any()


def test_target_follows_at_its_period_and_not_between():
    """Updates at steps 22, 24, ...; copies at multiples of 6: at step 24, 30, 36."""
    device = driver()
    state, _ = device.warm_up(device.init(keys(0)), 0, 20)
    synced = []
    for index in range(8):
        state, _ = device.advance(state, 20 + 2 * index, 1)
        equal = jax.tree.map(np.array_equal, state.learner.params, state.learner.target_params)
        if all(jax.tree.leaves(equal)):
            synced.append(22 + 2 * index)
    assert synced == [24, 30, 36]


def test_episode_sums_count_every_episode_once():
    """CartPole pays 1 a step: the sum of returns is the sum of lengths, and counts agree with the stored rows."""
    device = driver(lanes=2)
    state, metrics = device.warm_up(device.init(keys(7)), 0, 40)
    ended = int(np.sum(state.replay.last[0][:40])) + int(np.sum(state.actor.timestep.last))
    assert int(metrics.num_episodes[0]) == ended > 0
    assert float(metrics.sum_return[0]) == int(metrics.sum_length[0])
    rewards = np.asarray(state.replay.reward[0][:40]).sum() + np.asarray(state.actor.timestep.reward).sum()
    running = np.asarray(state.environment.statistics.running_return).sum()
    assert rewards == float(metrics.sum_return[0]) + running


def test_epsilon_is_one_in_the_warm_up_and_falls_linearly():
    epsilon = linear_epsilon(0.1, warm_up_steps=20, decay_steps=30)
    np.testing.assert_allclose([epsilon(s) for s in (0, 20, 35, 50, 99)], [1.0, 1.0, 0.55, 0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(linear_epsilon(0.1, 20, 0)(21), 0.1, rtol=1e-6)


def test_stacked_frames_reach_the_network():
    device = driver(frame_stack=3, n_step=2)
    state, metrics = run(device, [0], num_periods=3)
    assert state.actor.stack.shape == (1, 1, 3, 4)
    np.testing.assert_array_equal(state.actor.stack[0, :, -1], state.actor.timestep.observation[0])
    assert np.isfinite(metrics.update["quantile_loss"]).all()


def test_replay_is_updated_in_place():
    """A copy of the ring in every step would double the memory: the compiled loop may hold it once, as its argument."""
    big = override(preset("fqf", "minatar/breakout"), {**TINY, "replay_capacity": 50_000})
    environment = environments.make("minatar/breakout")
    rhythm = Rhythm(4, 100, 1, linear_epsilon(0.1, 10, 10), halfway)
    replay = make_replay(big, environment.spec)
    device = on_device(make_agent(big, environment.spec), environment, 1, replay, rhythm)
    shapes = jax.eval_shape(device.init, keys(0))
    memory = device.advance.lower(shapes, 0, 1).compile().memory_analysis()
    ring_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes.replay))
    assert ring_bytes > 20_000_000
    assert memory.alias_size_in_bytes > ring_bytes
    assert memory.temp_size_in_bytes < ring_bytes / 4


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_actions_are_greedy_or_random_as_epsilon_says(epsilon):
    """One period of 30 steps before its update: the stored actions are those of the parameters at the start, or not."""
    config = override(preset("fqf", "classic/cartpole"), TINY)
    environment = environments.make("classic/cartpole")
    agent = make_agent(config, environment.spec)
    rhythm = Rhythm(30, 60, 1, lambda step: jnp.array(epsilon), halfway)
    device = on_device(agent, environment, 1, make_replay(config, environment.spec), rhythm)
    state, _ = device.warm_up(device.init(keys(2)), 0, 20)
    params = jax.tree.map(lambda leaf: np.asarray(leaf[0]), state.learner.params)
    state, _ = device.advance(state, 20, 1)
    rows = slice(21, 50)  # row 20's action was chosen in the warm-up
    q_values = agent.q_values(params, state.replay.observation[0, rows, 0], jax.random.key(0))
    agree = np.asarray(jnp.argmax(q_values, axis=1)) == np.asarray(state.replay.action[0, rows, 0])
    assert np.mean(agree) == 1.0 if epsilon == 0 else 0.1 < np.mean(agree) < 0.9


@pytest.mark.parametrize("make", [make_uniform, functools.partial(make_prioritized, exponent=0.5, epsilon=0.1)])
@pytest.mark.parametrize("num_rows", [40, 130])
def test_an_update_sees_all_written_rows_and_no_other(num_rows, make):
    """An environment that shows its clock, and an agent that reports which clocks it was given."""
    clock, spec = clockwork(), clockwork().spec
    agent = observer(
        lambda batch: jnp.ones(len(batch.action)),
        lambda batch: {"first": jnp.min(batch.observation), "last": jnp.max(batch.next_observation)},
    )
    capacity, n_step = 96, 3
    rhythm = Rhythm(10, 60, 1, lambda step: jnp.array(0.1), halfway)
    replay = make(spec, capacity, 1, Sampling(2_000, 0.9, n_step, 1))
    device = on_device(agent, clock, 1, replay, rhythm)
    state, _ = device.warm_up(device.init(keys(0)), 0, num_rows - 10)
    _, metrics = device.advance(state, num_rows - 10, 1)
    assert float(metrics.update["last"][0]) == num_rows - 1
    assert float(metrics.update["first"][0]) == max(0, num_rows - capacity)


def clockwork():
    """Two actions, one endless episode, and an observation that is the number of the row."""
    spec = EnvironmentSpec("test/clock", (1,), np.dtype("float32"), 2)
    step = lambda key, time, action: (  # noqa: E731
        time + 1,
        Timestep(time[None] + 1, jnp.zeros(()), jnp.ones(()), jnp.array(False)),
    )
    return JittableEnvironment(spec, lambda key: (jnp.zeros(()), jnp.zeros(1)), step)


def observer(priorities, metrics):
    """An agent that learns nothing: what it says of a batch is given by two functions."""

    def loss(params, target_params, batch, key):
        return LossOutput(params * jnp.zeros(len(batch.action)), priorities(batch), metrics(batch))

    q_values = lambda params, observation, key: jnp.zeros((len(observation), 2))  # noqa: E731
    return Agent(lambda key: jnp.zeros(()), q_values, None, loss, optax.identity())


def play_clockwork(agent, replay, exponent, num_rows):
    device = on_device(agent, clockwork(), 1, replay, Rhythm(4, 60, 1, lambda step: jnp.array(0.1), exponent))
    state, _ = device.warm_up(device.init(keys(0)), 0, num_rows - 8)
    return device.advance(state, num_rows - 8, 2)


def test_priorities_go_to_the_rows_that_were_drawn():
    """The error of row t is 0.2 + t / 1,000: drawn rows carry (error + epsilon) ** 0.5, the others the largest, 1."""
    agent = observer(lambda batch: 0.2 + batch.observation[:, 0] / 1_000, lambda batch: {})
    replay = make_prioritized(clockwork().spec, 64, 1, Sampling(16, 0.9, 1, 1), exponent=0.5, epsilon=0.1)
    state, _ = play_clockwork(agent, replay, halfway, num_rows=100)
    leaves = np.asarray(state.replay.tree.levels[0][0])
    rows = np.arange(36, 100)  # the ring of 64 holds these; the newest has no successor yet
    masses = leaves[rows % 64]
    drawn = masses[:-1] < 1
    assert masses[-1] == 0
    assert 10 < drawn.sum() < 40
    np.testing.assert_allclose(masses[:-1][drawn], np.sqrt(0.3 + rows[:-1][drawn] / 1_000), rtol=1e-5)
    assert np.all(masses[:-1][~drawn] == 1)
    tree = jax.tree.map(lambda leaf: leaf[0], state.replay.tree)
    ok, why = sumtree.check_valid(tree)
    assert ok, why


def test_the_importance_exponent_rises_to_one_and_reaches_the_replay():
    exponent = linear_exponent(0.4, 1_000)
    np.testing.assert_allclose([exponent(step) for step in (0, 500, 1_000)], [0.4, 0.7, 1.0])
    agent = observer(lambda batch: jnp.ones(8), lambda batch: {"seen": jnp.mean(batch.reward)})
    replay = make_uniform(clockwork().spec, 64, 1, Sampling(8, 0.9, 1, 1))

    def sample(rows, num_rows, key, importance_exponent):
        batch = replay.sample(rows, num_rows, key, importance_exponent)
        shown = batch.transition._replace(reward=jnp.full(8, importance_exponent))
        return batch._replace(transition=shown)

    _, metrics = play_clockwork(agent, replay._replace(sample=sample), exponent, num_rows=40)
    np.testing.assert_allclose(metrics.update["seen"], 0.4 + 0.6 * 38 / 1_000, rtol=1e-5)  # updates at rows 36 and 40


def test_prioritized_replay_stays_whole_in_the_loop():
    device = driver(lanes=8, update_period=4, agent="rainbow", num_atoms=5)
    state, metrics = run(device, [0], num_periods=6)
    leaves = np.asarray(state.replay.tree.levels[0][0])
    assert len(np.unique(leaves)) > 5
    assert np.all(leaves <= state.replay.largest[0])
    tree = jax.tree.map(lambda leaf: leaf[0], state.replay.tree)
    ok, why = sumtree.check_valid(tree)
    assert ok, why
    assert np.isfinite(metrics.update["categorical_loss"]).all()


ENVIRONMENT_KEYS = {}


class KeyedByDriver(Hosted):
    """Starts from the very key that the device driver uses, not from the seed that the host driver makes of it."""

    def init(self, seed):
        self._state, timestep = self._init(ENVIRONMENT_KEYS[seed])
        return self._begin(timestep)


def on_host(agent, environment, lanes, replay, rhythm):
    cycle = make_cycle(agent, environment.spec.num_actions, lanes, replay, rhythm)
    host = HostEnvironment(
        environment.spec, lambda num_lanes, visible: KeyedByDriver(environments.vectorize(environment, num_lanes))
    )
    return make_host_driver(cycle, host, lanes)


@pytest.mark.parametrize(
    ("lanes", "agent"), [pytest.param(3, "rainbow"), pytest.param(8, "fqf", marks=pytest.mark.slow)]
)
def test_both_drivers_give_the_same_run(lanes, agent):
    """The same environment, stepped by a compiled loop and by Python: the same rows, and the same parameters."""
    environment_key = run_keys(keys(3)[0]).environment
    ENVIRONMENT_KEYS[seed_from(environment_key)] = jax.random.clone(environment_key)
    small = {"frame_stack": 2, "n_step": 2, "update_period": 4}
    device, _ = run(driver(lanes=lanes, agent=agent, **small), [3], num_periods=7)
    host, metrics = run(driver(lanes=lanes, agent=agent, make=on_host, **small), [3], num_periods=7)
    for name in ("observation", "action", "reward", "discount", "last"):
        rows = (getattr(getattr(state.replay, "rows", state.replay), name) for state in (device, host))
        compiled, stepped = (np.asarray(leaf, float) for leaf in rows)
        np.testing.assert_allclose(compiled[0], stepped, rtol=1e-5, atol=1e-6)
    for x, y in zip(jax.tree.leaves(device.learner), jax.tree.leaves(host.learner), strict=True):
        np.testing.assert_allclose(x[0], y, rtol=1e-4, atol=1e-6)
    for counted, compiled in zip(metrics[1:], device.environment.statistics[2:], strict=True):
        np.testing.assert_allclose(counted, compiled, rtol=1e-5)
    assert int(metrics.num_episodes[0]) > 0


def compiled(caplog) -> set[str]:
    """Names of the functions whose compilation was logged."""
    names = re.findall(r"Compiling (?:jit\()?(\w+)", " ".join(record.getMessage() for record in caplog.records))
    caplog.clear()
    return set(names)


def test_what_was_compiled_ahead_is_not_compiled_again(caplog):
    """While the replay is in memory, there may be no room for a compiler."""
    environment_key = run_keys(keys(3)[0]).environment
    ENVIRONMENT_KEYS[seed_from(environment_key)] = jax.random.clone(environment_key)
    host = driver(make=on_host, lanes=2)
    with jax.log_compiles():
        host.compile()
        ahead = compiled(caplog)
        run(host, [3], num_periods=3)
        late = compiled(caplog)
    programs = {"init", "wander", "act", "learn", "draw_block"}
    assert programs <= ahead
    assert not programs & late


def test_what_is_drawn_for_many_steps_is_what_each_step_draws():
    def choose(key, vector_step):
        return jax.random.randint(jax.random.fold_in(key, vector_step), (3,), 0, 1_000)

    key, num_steps = jax.random.key(0), 2 * BLOCK + 30
    one_by_one = jax.vmap(choose, (None, 0))(key, jnp.arange(7, 7 + num_steps))
    np.testing.assert_array_equal(draw(choose, key, 7, num_steps), one_by_one)
