"""What the host driver costs: Python's share of a vector step, and the memory of a million Atari frames.

.venv/bin/python studies/host.py overhead
.venv/bin/python studies/host.py memory [--lanes 8] [--agent rainbow]
"""

import argparse
import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fqf.agents.agent import Agent
from fqf.config import override
from fqf.cycle import Rhythm, make_cycle
from fqf.drivers import make_host_driver
from fqf.environments import make
from fqf.parts import assemble
from fqf.presets import preset
from fqf.replay.memory import make_uniform
from fqf.replay.ring import Sampling
from fqf.types import EnvironmentSpec, HostEnvironment, LossOutput, Timestep

STEPS = 20_000


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
    """No network, no environment, one empty update in 20,000 steps: what is left is Python, dispatch and the ring."""
    spec = EnvironmentSpec("test/nothing", (84, 84), np.dtype("uint8"), 6)
    agent = Agent(
        init=lambda key: jnp.zeros(()),
        q_values=lambda params, observation, key: jnp.zeros((len(observation), 6)) + params,
        distribution=None,
        loss=lambda params, target, batch, key: LossOutput(params * batch.reward, batch.reward, {}),
        optimizer=optax.identity(),
    )
    for lanes in (1, 8):
        replay = make_uniform(spec, 10_000, lanes, Sampling(1, 0.99, 1, 4))
        rhythm = Rhythm(STEPS * lanes, 10 * STEPS * lanes, 4, lambda step: 0.01, lambda step: 0.5)
        cycle = make_cycle(agent, spec.num_actions, lanes, replay, rhythm)
        driver = make_host_driver(cycle, HostEnvironment(spec, lambda n, visible: Nothing(n, spec)), lanes)
        state = driver.init(jax.vmap(jax.random.key)(jnp.zeros(1, int)))
        state, _ = driver.warm_up(state, 0, 100)
        state, _ = jax.block_until_ready(driver.advance(state, 100, 1))
        start = time.perf_counter()
        state, _ = jax.block_until_ready(driver.advance(state, 100 + STEPS, 1))
        print(f"{lanes} lanes: {1000 * (time.perf_counter() - start) / STEPS:.3f} ms per vector step", flush=True)


def memory(agent: str, lanes: int) -> None:
    """Peak resident size of a process that fills a whole replay, learns and evaluates."""
    config = override(
        preset(agent, "atari/breakout", "dopamine"),
        {"lanes": lanes, "evaluation_steps": 2_000, "learning_starts_steps": 20_000, "num_fractions": 8},
    )
    parts = assemble(config, make(config.env, config.environment))
    state = parts.driver.init(jax.vmap(jax.random.key)(jnp.zeros(1, int)))
    report("replay made")
    state, _ = parts.driver.warm_up(state, 0, 20_000 // lanes)
    report("20,000 random steps")
    state, _ = parts.driver.advance(state, 20_000 // lanes, 100)
    report("100 periods of learning")
    parts.evaluate(parts.driver.pick(state, 0)[0].params, jax.random.key(1))
    report("evaluation")
    state, _ = parts.driver.advance(state, 20_000 // lanes + 100 * parts.driver.steps_per_period, 50)
    report("50 more periods")


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
