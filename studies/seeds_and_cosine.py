"""Two choices measured as ratios of medians from interleaved runs (docs/decisions/0005-seeds-and-speed.md).

.venv/bin/python studies/seeds_and_cosine.py
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fqf import environments
from fqf.config import warm_up_steps
from fqf.networks.layers import cos_pi
from fqf.parts import assemble
from fqf.presets import preset
from fqf.rundir import provenance

SEEDS, PERIODS, ROUNDS = 4, 300, 3


def interleaved(rivals: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of each, taken in turns after one call to compile."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(ROUNDS + 1):
        for name, run in rivals.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def cosine() -> None:
    taus = jax.random.uniform(jax.random.key(0), (32, 32, 64), maxval=64.0)
    exact = jax.jit(lambda x: jax.lax.fori_loop(0, 500, lambda i, y: jnp.cos(jnp.pi * y) + 1, x))
    ours = jax.jit(lambda x: jax.lax.fori_loop(0, 500, lambda i, y: cos_pi(y) + 1, x))
    seconds = interleaved({"cos": lambda: exact(taus), "cos_pi": lambda: ours(taus)})
    print(f"cosine of 65,536 numbers: jnp.cos takes {seconds['cos'] / seconds['cos_pi']:.1f} times as long as cos_pi")


def seeds() -> None:
    config = preset("fqf", "classic/cartpole")
    driver = assemble(config, environments.make(config.env)).driver
    warm_up = warm_up_steps(config)
    keys = jax.vmap(jax.random.key)(jnp.arange(SEEDS))

    def start(keys):
        return driver.warm_up(driver.init(keys), 0, warm_up)[0]

    def play(keys):
        return jax.block_until_ready(driver.advance(start(keys), warm_up, PERIODS)[0].learner.params)

    def threads():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda index: play(keys[index : index + 1]), range(SEEDS)))

    rivals = {
        "one after the other": lambda: [play(keys[index : index + 1]) for index in range(SEEDS)],
        "vmap": lambda: play(keys),
        "threads": threads,
    }
    seconds = interleaved(rivals)
    for name in ("vmap", "threads"):
        ratio = seconds["one after the other"] / seconds[name]
        print(f"{SEEDS} seeds of CartPole by {name}: {ratio:.2f} times as fast as one after the other")


if __name__ == "__main__":
    print(f"commit {provenance()['commit']}, JAX {jax.__version__}, {os.cpu_count()} cores")
    cosine()
    seeds()
