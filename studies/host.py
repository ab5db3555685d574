"""What the host driver costs: Python's share of a vector step, and the memory of a million Atari frames.

.venv/bin/python studies/host.py overhead
.venv/bin/python studies/host.py memory [--agent rainbow] [--lanes 8] [--fractions 32]
.venv/bin/python studies/host.py stages [--agent rainbow] [--lanes 8] [--fractions 32] [--keep]
"""

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import fqf
from fqf import drivers, parts, session
from fqf.agents import make_agent
from fqf.agents.agent import Agent
from fqf.cycle import Rhythm, make_cycle
from fqf.drivers import make_device_driver, make_host_driver
from fqf.presets import preset
from fqf.replay.memory import make_uniform
from fqf.replay.ring import Sampling
from fqf.session import Session
from fqf.types import Environment, EnvironmentSpec, HostEnvironment, LossOutput, Timestep

STEPS, REPEATS = 4_000, 12
STATUS, CLEAR_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PEAKS: list[float] = []
"""Of every stage, in MB."""


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
    """Without environment and network: a frame that is there at once, one number to learn; then with as many numbers
    as FQF and its optimisers have arrays. An update of one row per four steps, once called from Python, once compiled
    into one loop by the device driver, by turns. The difference is what Python, the dispatch of compiled functions and
    handing arrays over cost."""
    spec = EnvironmentSpec("test/nothing", (84, 84), np.dtype("uint8"), 6)
    fqf_agent = make_agent(preset("fqf", "atari/pong"), spec)
    shapes = jax.eval_shape(fqf_agent.init, jax.random.key(0))
    agents = {
        "no network": shrunken({"number": jnp.zeros(1)}, optax.adam(1e-4)),
        "as many arrays as FQF": shrunken(shapes, fqf_agent.optimizer),
    }
    for (what, agent), lanes in itertools.product(agents.items(), (1, 4, 8)):
        replay = make_uniform(spec, 10_000, lanes, Sampling(1, 0.99, 1, 4))
        rhythm = Rhythm(4, 8_000, 4, lambda step: 0.01, lambda step: 0.5)
        cycle = make_cycle(agent, spec.num_actions, lanes, replay, rhythm)
        frame = Nothing(lanes, spec).init(0)
        compiled = Environment(
            spec, lanes, lambda key, frame=frame: (frame, frame), lambda state, action: (state, state)
        )
        ways = {
            "called from Python": make_host_driver(
                cycle, HostEnvironment(spec, lambda n, visible: Nothing(n, spec)), lanes
            ),
            "compiled into one loop": make_device_driver(cycle, compiled),
        }
        states = {name: driver.init(jax.random.key(0)[None]) for name, driver in ways.items()}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for begin in range(0, (1 + REPEATS) * STEPS, STEPS):
            for name, driver in ways.items():
                start, periods = time.perf_counter(), STEPS // driver.steps_per_period
                states[name], _ = jax.block_until_ready(driver.advance(states[name], begin, periods))
                times[name].append(1000 * (time.perf_counter() - start) / STEPS)
        python, xla = (np.array(each[1:]) for each in times.values())  # the first compiles
        extra = python - xla
        print(
            f"{what}, {lanes} lanes: {np.median(extra):.3f} ms per vector step is Python's, at best {extra.min():.3f}"
            f" in {REPEATS} turns ({np.median(python):.3f} called from Python, {np.median(xla):.3f} compiled)",
            flush=True,
        )


def shrunken(shapes: dict, optimizer: optax.GradientTransformation) -> Agent:
    """As many leaves, but of one number each, and nothing computed of them."""
    return Agent(
        init=lambda key: jax.tree.map(lambda leaf: jnp.zeros(1), shapes),
        q_values=lambda params, observation, key: jnp.zeros((len(observation), 6)) + jax.tree.leaves(params)[0],
        distribution=None,
        loss=lambda params, target, batch, key: LossOutput(
            sum(leaf[0] for leaf in jax.tree.leaves(params)) * batch.reward, batch.reward, {}
        ),
        optimizer=optimizer,
    )


def memory(agent: str, lanes: int, options: dict[str, int]) -> None:
    """Peak resident size of a whole `fqf train` with a replay of a million frames: random play, learning, evaluation,
    checkpoints, report. (The ring is touched as a whole when it is made; a longer run fills it in place.)"""
    tell_stages()
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
            episode_cap_frames=4_000,
            checkpoint_steps=20_000,
            quiet=True,
            **options,
        )
        print(f"peak {max(PEAKS) / 1000:.2f} GB: {agent}, {lanes} lanes, {options}", flush=True)


def stages(agent: str, lanes: int, options: dict[str, int], keep: bool) -> None:
    """The same run with a replay of 1,000 frames: resident size after each stage, and its peak in it. With `keep`, no
    memory is given back to the system."""
    if keep:
        for module in (drivers, parts, session):
            module.give_back_memory = lambda: None
    tell_stages()
    with tempfile.TemporaryDirectory() as runs:
        small = {"replay_capacity": 1_000, "learning_starts_steps": 200, "steps": 600, "log_every_steps": 200}
        small |= {"evaluation_steps": 50, "episode_cap_frames": 2_000, "checkpoint_steps": 200}
        fqf.train("atari/breakout", agent, runs=runs, protocol="dopamine", lanes=lanes, quiet=True, **small, **options)


def tell_stages() -> None:
    for name in ("begin", "_evaluate", "_play", "_save", "_finish"):
        setattr(Session, name, told(name, getattr(Session, name)))


def told(name: str, stage):
    def run(self, *arguments):
        CLEAR_PEAK.write_text("5")
        result = stage(self, *arguments)
        sizes = dict(line.split(":") for line in STATUS.read_text().splitlines())
        now, most = (int(sizes[size].split()[0]) * 1024 / 1e6 for size in ("VmRSS", "VmHWM"))
        PEAKS.append(most)
        print(f"{name.strip('_'):10} {now:5.0f} MB, at most {most:5.0f}", flush=True)
        return result

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "memory", "stages"))
    parser.add_argument("--agent", default="fqf")
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--fractions", type=int, default=8, help="N of FQF")
    parser.add_argument("--keep", action="store_true", help="in `stages`: give no memory back to the system")
    arguments = parser.parse_args()
    agent, lanes = arguments.agent, arguments.lanes
    options = {"num_fractions": arguments.fractions} if "fqf" in agent else {}
    if arguments.what == "overhead":
        overhead()
    elif arguments.what == "memory":
        memory(agent, lanes, options)
    else:
        stages(agent, lanes, options, arguments.keep)


if __name__ == "__main__":
    main()
