"""What checkpoints cost at a million Atari frames: time and size of a save, time and memory of a resume.

.venv/bin/python studies/checkpoints.py [--agent fqf] [--lanes 1] [--work runs/checkpoints]
.venv/bin/python studies/checkpoints.py --growth

Two processes: one saves a full replay, then what ten minutes of training add to it; the other reads it all back. With
--growth, one process saves a replay that grows, and after each size 20,000 rows more.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp

from fqf.checkpoint import Checkpoints
from fqf.config import override
from fqf.environments import make
from fqf.parts import Parts, assemble
from fqf.presets import preset
from fqf.resources import tidy_process

TEN_MINUTES = 600
STEPS_PER_SECOND = 100
"""More than an update per four steps allows on two cores, so that ten minutes add more rows than they will."""


def parts_of(agent: str, lanes: int) -> tuple[Parts, int]:
    config = preset(agent, "atari/breakout", "dopamine")
    config = override(config, {"lanes": lanes, **({"num_fractions": 8} if "fqf" in agent else {})})
    return assemble(config, make(config.env, config.environment)), config.replay_capacity // lanes


def save(agent: str, lanes: int, work: Path) -> None:
    parts, capacity = parts_of(agent, lanes)
    parts.compile()
    state = parts.driver.init(jax.vmap(jax.random.key)(jnp.zeros(1, int)))
    state, _ = parts.driver.warm_up(state, 0, 2_000)  # frames of an unfinished episode; the rest of the ring is empty
    checkpoints = Checkpoints(work, parts.snapshots)
    new = TEN_MINUTES * STEPS_PER_SECOND // lanes
    for step, num_rows in ((1, capacity), (2, capacity + new), (3, capacity + 2 * new)):
        start = time.perf_counter()
        checkpoints.save(step, num_rows, state, {})
        seconds = time.perf_counter() - start
        rows = num_rows if step == 1 else new
        share = "" if step == 1 else f": {100 * seconds / TEN_MINUTES:.2f} % of ten minutes"
        print(f"{rows * lanes:,} new rows in {seconds:.1f} s{share}; peak {peak():.2f} GB", flush=True)
    size = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
    print(f"on disk: {size / 1e9:.2f} GB", flush=True)


def grow(agent: str, work: Path) -> None:
    """Lines of JSON; the rows are noise that does not matter: nothing is compressed."""
    parts, _ = parts_of(agent, 1)
    parts.compile()
    state = parts.driver.init(jax.vmap(jax.random.key)(jnp.zeros(1, int)))
    checkpoints, before, size = Checkpoints(work, parts.snapshots), 0, 0
    for step, rows in enumerate((30_000, 50_000, 100_000, 120_000, 300_000, 320_000), 1):
        start = time.perf_counter()
        checkpoints.save(step, rows, state, {})
        seconds = time.perf_counter() - start
        after = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
        facts = {"rows": rows, "new": rows - before, "seconds": round(seconds, 2), "megabytes": (after - size) // 10**6}
        print(json.dumps(facts), flush=True)
        before, size = rows, after


def load(agent: str, lanes: int, work: Path) -> None:
    parts, _ = parts_of(agent, lanes)
    parts.compile()
    checkpoints, start = Checkpoints(work, parts.snapshots), time.perf_counter()
    step = checkpoints.steps()[0]
    saved = checkpoints.load(step)
    state = parts.snapshots.restore([saved.snapshot], [saved.ledger["lanes"]])
    state = jax.block_until_ready(checkpoints.load_rows(state, step, saved.segments)._replace(environment=()))
    print(f"resumed in {time.perf_counter() - start:.1f} s; peak {peak():.2f} GB", flush=True)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform == "linux" else 1) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="fqf")
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("runs/checkpoints"))
    parser.add_argument("--growth", action="store_true", help="time and bytes as the replay grows")
    parser.add_argument("--part", choices=("save", "load"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        tidy_process()
        (save if arguments.part == "save" else load)(arguments.agent, arguments.lanes, arguments.work)
        return
    arguments.work.mkdir(parents=True)
    if arguments.growth:
        tidy_process()
        grow(arguments.agent, arguments.work)
        shutil.rmtree(arguments.work)
        return
    for part in ("save", "load"):
        subprocess.run([sys.executable, *sys.argv, "--part", part], check=True)
    shutil.rmtree(arguments.work)


if __name__ == "__main__":
    main()
