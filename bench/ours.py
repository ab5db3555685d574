"""Our side of the benchmark: the same units of work as in `theirs.py`, and some that only we have.

`CASES[name](**arguments)` sets a case up and returns `run(count) -> seconds` for `count` units.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ale_py.vector_env import AtariVectorEnv

import fqf
from fqf import environments
from fqf.agents import make_agent
from fqf.config import override, warm_up_steps
from fqf.cycle import Rhythm, make_cycle, run_keys
from fqf.drivers import no_timestep
from fqf.parts import assemble
from fqf.presets import preset
from fqf.replay.memory import make_uniform
from fqf.replay.ring import Ring, Sampling
from fqf.resources import keep_freed_memory, tidy_process
from fqf.types import EnvironmentSpec

Run = Callable[[int], float]
SEED, CORES = 0, 2


def versions() -> dict[str, str]:
    """And the process as `fqf train` has it, beside a replay of this size."""
    tidy_process()
    keep_freed_memory()
    return {"fqf": fqf.__version__} | {name: metadata.version(name) for name in ("jax", "gymnax", "ale_py")}


def sgemm() -> Run:
    rng = np.random.default_rng(SEED)
    left, right = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((2048, 3136), (3136, 512)))
    product = jax.jit(jnp.matmul)
    return timed(lambda: product(left, right))


def update(agent: str, num_fractions: int, target_fractions: str = "next") -> Run:
    """Sample a batch of 32 from a ring of 10,000 frames of noise, and learn from it."""
    spec = EnvironmentSpec("atari/noise", (84, 84), np.dtype("uint8"), 6)
    config = override(preset(agent, "atari/pong"), size_options(agent, num_fractions, target_fractions))
    how = Sampling(batch_size=32, gamma=0.99, n_step=1, frame_stack=4, clip_rewards=True)
    rhythm = Rhythm(4, 1_000_000, 4, lambda step: 0.01, lambda step: 0.5)
    cycle = make_cycle(make_agent(config, spec), spec.num_actions, 1, make_uniform(spec, 10_000, 1, how), rhythm)
    state = jax.jit(cycle.init)(run_keys(jax.random.key(SEED)), (), no_timestep(spec, 1))
    learn = jax.jit(cycle.learn, donate_argnums=(0, 1))
    held = {"learner": state.learner, "replay": noise(state.replay), "step": 10_000}

    def work() -> Any:
        held["learner"], held["replay"], _ = learn(held["learner"], held["replay"], state.key, held["step"])
        held["step"] += 4
        return held["learner"]

    return timed(work)


def size_options(agent: str, num_fractions: int, target_fractions: str) -> dict[str, Any]:
    if agent == "fqf":
        return {"num_fractions": num_fractions, "target_fractions": target_fractions}
    if agent == "iqn":
        names = ("num_quantiles", "num_target_quantiles", "num_action_quantiles")
        return dict.fromkeys(names, num_fractions)
    return {"num_quantiles": num_fractions} if agent == "qr_dqn" else {}


def noise(rows: Ring) -> Ring:
    rng, shape = np.random.default_rng(SEED), rows.last.shape
    return Ring(
        observation=jnp.asarray(rng.integers(256, size=rows.observation.shape, dtype=np.uint8)),
        action=jnp.asarray(rng.integers(6, size=shape), jnp.int32),
        reward=jnp.asarray(rng.integers(-1, 2, size=shape), jnp.float32),
        discount=jnp.ones(shape),
        last=jnp.asarray(rng.random(shape) < 1 / 200),
    )


def cartpole(num_fractions: int = 32, seeds: int = 1) -> Run:
    options = {"num_fractions": num_fractions, "hidden": 64, "torso_layers": (64,), "replay_capacity": 20_000}
    return loop("classic/cartpole", options, seeds)


def minatar(num_fractions: int) -> Run:
    return loop("minatar/breakout", {"num_fractions": num_fractions, "hidden": 128, "replay_capacity": 100_000}, 1)


def pong(num_fractions: int) -> Run:
    return loop("atari/pong", {"num_fractions": num_fractions, "replay_capacity": 20_000}, 1)


def loop(env: str, options: dict[str, Any], seeds: int) -> Run:
    """Environment steps with an update of 32 transitions per four, epsilon 0.1; seeds side by side on the cores."""
    config = preset("fqf", env)
    common = {"batch_size": 32, "update_period_steps": 4, "learning_starts_steps": 1_000, "exploration_epsilon": 0.1}
    common |= {"n_step": 1, "target_fractions": "next", "double": False, "lanes": 1}
    config = override(config, common | options)
    driver = assemble(config, environments.make(config.env, config.environment)).driver
    begin = warm_up_steps(config)
    states = [driver.init(jax.random.key(seed)[None]) for seed in range(seeds)]
    states = [driver.warm_up(state, 0, begin)[0] for state in states]
    step, pool = begin, ThreadPoolExecutor(min(seeds, CORES))

    def advance(state: Any, periods: int) -> Any:
        state, metrics = driver.advance(state, step, periods)
        jax.block_until_ready((state.learner, metrics))
        return state

    def run(count: int) -> float:
        """`count` steps over all seeds; at least a period of each is played, and its time shared out."""
        nonlocal states, step
        periods = max(1, count // (4 * seeds))
        start = time.perf_counter()
        states = list(pool.map(lambda state: advance(state, periods), states))
        seconds = time.perf_counter() - start
        step += 4 * periods
        return seconds * count / (4 * seeds * periods)

    return run


def pong_lanes(lanes: int) -> Run:
    """Our lanes, with a random policy: preprocessing, episodes and their seeds."""
    environment = environments.make("atari/pong", preset("fqf", "atari/pong").environment)
    games, rng = environment.make(lanes, False), np.random.default_rng(SEED)
    games.init(SEED)
    return timed(lambda: games.step(rng.integers(6, size=lanes)))


def pong_bare(lanes: int) -> Run:
    """ale-py's vector environment with the same settings, and nothing around it."""
    plain = {"episodic_life": False, "reward_clipping": False, "use_fire_reset": False, "life_loss_info": False}
    games = AtariVectorEnv("pong", lanes, frameskip=4, stack_num=1, noop_max=30, repeat_action_probability=0.0, **plain)
    rng = np.random.default_rng(SEED)
    games.reset(seed=SEED)
    return timed(lambda: games.step(rng.integers(6, size=lanes)))


def timed(work: Callable[[], Any]) -> Run:
    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            result = work()
        jax.block_until_ready(result)
        return time.perf_counter() - start

    return run


CASES: dict[str, Callable[..., Run]] = {
    "sgemm": sgemm,
    "update": update,
    "cartpole": cartpole,
    "minatar": minatar,
    "pong": pong,
    "pong_lanes": pong_lanes,
    "pong_bare": pong_bare,
}
