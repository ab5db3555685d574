"""What the host driver costs: Python's share of a vector step, and the memory of a million Atari frames.

.venv/bin/python studies/host.py overhead
.venv/bin/python studies/host.py memory [--lanes 8] [--agent rainbow]
"""

import argparse
import resource
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

import fqf
from fqf.agents import make_agent
from fqf.agents.agent import Agent
from fqf.cycle import Rhythm, make_cycle
from fqf.drivers import make_host_driver
from fqf.presets import preset
from fqf.replay.memory import make_uniform
from fqf.replay.ring import Sampling
from fqf.types import EnvironmentSpec, HostEnvironment, LossOutput, Timestep

STEPS = 4_000


class Nothing:
    """Lanes that return the same Atari frame at once."""

    def __init__(self, num_lanes: int, spec: EnvironmentSpec) -> None:
        frame = np.zeros((num_lanes, *spec.observation_shape), spec.observation_dtype)
        zeros = np.zeros(num_lanes, np.float32)
        self.episodes: list = []
        self._timestep = Timestep(frame, zeros, zeros + 1, np.zeros(num_lanes, bool))

    def init(self, seed):
        return self._timestep

    def step(self, action):
        return self._timestep

    def close(self): ...


def overhead() -> None:
    """FQF's own trees of parameters and optimiser, every leaf shrunk to one number, an update of one row per four
    steps: what is left is Python, the dispatch of compiled functions, and the ring."""
    spec = EnvironmentSpec("test/nothing", (84, 84), np.dtype("uint8"), 6)
    config = preset("fqf", "atari/pong")
    whole = make_agent(config, spec)
    shapes = jax.eval_shape(whole.init, jax.random.key(0))
    agent = Agent(
        init=lambda key: jax.tree.map(lambda leaf: jnp.zeros(1), shapes),
        q_values=lambda params, observation, key: jnp.zeros((len(observation), 6)) + jax.tree.leaves(params)[0],
        distribution=None,
        loss=lambda params, target, batch, key: LossOutput(
            sum(leaf[0] for leaf in jax.tree.leaves(params)) * batch.reward, batch.reward, {}
        ),
        optimizer=whole.optimizer,
    )
    for lanes in (1, 4, 8):
        replay = make_uniform(spec, 10_000, lanes, Sampling(1, 0.99, 1, 4))
        rhythm = Rhythm(4, 8_000, 4, lambda step: 0.01, lambda step: 0.5)
        cycle = make_cycle(agent, spec.num_actions, lanes, replay, rhythm)
        driver = make_host_driver(cycle, HostEnvironment(spec, lambda n, visible: Nothing(n, spec)), lanes)
        state = driver.init(jax.vmap(jax.random.key)(jnp.zeros(1, int)))
        state, _ = driver.warm_up(state, 0, 100)
        state, _ = jax.block_until_ready(driver.advance(state, 100, 1))
        times = []
        for repeat in range(5):
            start, busy = time.perf_counter(), time.thread_time()
            begin, periods = 200 + repeat * STEPS, STEPS // driver.steps_per_period
            state, _ = jax.block_until_ready(driver.advance(state, begin, periods))
            times.append((1000 * (time.perf_counter() - start) / STEPS, 1000 * (time.thread_time() - busy) / STEPS))
        wall, thread = np.median(times, axis=0)
        print(f"{lanes} lanes: {thread:.3f} ms per vector step on Python's thread, {wall:.3f} in all", flush=True)


def memory(agent: str, lanes: int) -> None:
    """Peak resident size of a whole `fqf train` with a replay of a million frames: random play, learning, evaluation,
    checkpoints, report. (The ring is touched as a whole when it is made; a longer run fills it in place.)"""
    options = {"num_fractions": 8} if "fqf" in agent else {}
    with tempfile.TemporaryDirectory() as runs:
        fqf.train(
            "atari/breakout",
            agent,
            runs=runs,
            protocol="dopamine",
            lanes=lanes,
            learning_starts_steps=20_000,
            steps=21_000,
            evaluation_steps=2_000,
            checkpoint_steps=20_000,
            quiet=True,
            **options,
        )
        report(f"{agent}, {lanes} lanes")


def report(what: str) -> None:
    unit = 1024 if sys.platform == "linux" else 1
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9:.2f} GB after: {what}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "memory"))
    parser.add_argument("--agent", default="fqf")
    parser.add_argument("--lanes", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.what == "overhead":
        overhead()
    else:
        memory(arguments.agent, arguments.lanes)


if __name__ == "__main__":
    main()
