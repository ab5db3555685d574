"""What it saves that a kernel's gradient lies as the kernel does (docs/decisions/0010-speed.md).

    .venv/bin/python studies/kernels.py

Programs with `layers.product` and with JAX's own product, by turns: CPU time, and the median of their ratios. On
MinAtar's Breakout four steps and an update, in the compiled loop; at Atari's size an update from a replay of zeros.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fqf import environments
from fqf.agents import make_agent
from fqf.config import override, warm_up_steps
from fqf.cycle import Rhythm, make_cycle, run_keys
from fqf.drivers import no_timestep
from fqf.networks import layers
from fqf.parts import assemble
from fqf.presets import preset
from fqf.replay.memory import make_uniform
from fqf.replay.ring import Sampling
from fqf.resources import keep_freed_memory, tidy_process
from fqf.rundir import provenance
from fqf.types import EnvironmentSpec

AGENTS = ("dqn", "prior_duel", "c51", "rainbow", "qr_dqn", "iqn", "fqf")
ROUNDS = 9
Work = Callable[[], Any]


def main() -> None:
    tidy_process()
    keep_freed_memory()
    print(f"{provenance()['commit']}: CPU ms, JAX's product and ours, and the median of ours / JAX's")
    products = (jnp.matmul, layers.product)
    for name, make, count in (("MinAtar's loop", loop, 50), ("Atari's update", update, 5)):
        for agent in AGENTS:
            rivals = [make(agent, count) for _ in products]
            times = np.array(
                [
                    [seconds(work, product) for work, product in zip(rivals, products, strict=True)]
                    for _ in range(ROUNDS + 1)
                ]
            )
            plain, ours = times[1:].T * 1e3 / count
            print(
                f"{name}, {agent}: {np.median(plain):.1f} {np.median(ours):.1f} {np.median(ours / plain):.2f}",
                flush=True,
            )


def seconds(work: Work, product: Callable) -> float:
    """Of CPU time. The first call of `work` traces it, and finds the product that is there."""
    layers.product = product
    start = time.process_time()
    jax.block_until_ready(work())
    return time.process_time() - start


def loop(agent: str, count: int) -> Work:
    """Periods of four steps and an update."""
    config = override(preset(agent, "minatar/breakout"), {"learning_starts_steps": 1_000})
    driver = assemble(config, environments.make(config.env)).driver
    step = warm_up_steps(config)
    state, _ = driver.warm_up(driver.init(jax.random.key(0)[None]), 0, step)

    def work() -> Any:
        nonlocal state, step
        state, metrics = driver.advance(state, step, count)
        step += 4 * count
        return state.learner, metrics

    return work


def update(agent: str, count: int) -> Work:
    spec = EnvironmentSpec("atari/zeros", (84, 84), np.dtype("uint8"), 6)
    how = Sampling(batch_size=32, gamma=0.99, n_step=1, frame_stack=4, clip_rewards=True)
    rhythm = Rhythm(4, 1_000_000, 4, lambda step: 0.01, lambda step: 0.5)
    replay = make_uniform(spec, 1_000, 1, how)
    cycle = make_cycle(make_agent(preset(agent, "atari/pong"), spec), spec.num_actions, 1, replay, rhythm)
    state = jax.jit(cycle.init)(run_keys(jax.random.key(0)), (), no_timestep(spec, 1))
    learn, learned, experience, step = jax.jit(cycle.learn, donate_argnums=(0, 1)), state.learner, state.replay, 1_000

    def work() -> Any:
        nonlocal learned, experience, step
        for _ in range(count):
            learned, experience, _ = learn(learned, experience, state.key, step)
            step += 4
        return learned

    return work


if __name__ == "__main__":
    main()
