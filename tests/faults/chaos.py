"""A long campaign of kills, over agents and environments: `make chaos`, or

    .venv/bin/python tests/faults/chaos.py [--kills 12] [--at-once 2] [--work runs/chaos] [--out docs/results]

For every pair, a run that is left alone and one that is killed, resumed, killed again and so on; then all that both
have left is compared. Finished pairs are kept in WORK and not repeated. Writes docs/results/resume.md after every pair.
"""

import argparse
import json
import os
import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.harness import digests, start, torment
from faults.victim import run_directory

from fqf.agents import AGENTS
from fqf.rundir import provenance

SMALL = {
    "steps": 12_000,
    "learning_starts_steps": 200,
    "hidden": 16,
    "batch_size": 8,
    "replay_capacity": 700,
    "target_period_steps": 100,
    "log_every_steps": 50,
    "checkpoint_steps": 50,
    "evaluate_every_steps": 3_000,
    "evaluation_episodes": 5,
}
HOST = {"evaluation_lanes": 2, "steps": 4_000, "evaluate_every_steps": 1_000}
ATARI = {
    **HOST,
    "protocol": "dopamine",
    "steps": 1_500,
    "evaluate_every_steps": 500,
    "evaluation_steps": 50,
    "episode_cap_frames": 800,
}
FAMILIES = {
    "classic/cartpole": {},
    "minatar/breakout": {"lanes": 4},
    "toy/exponential": {"lanes": 4, "update_period_steps": 4},
    "gym/CartPole-v1": {**HOST, "lanes": 2},
    "atari/breakout": {**ATARI, "lanes": 2},
    "atari/pong": {**ATARI, "replay": "prioritized"},
}
EVERYWHERE = ("fqf", "rainbow")
ENVIRONMENTS = {agent: list(FAMILIES) if agent in EVERYWHERE else ["classic/cartpole"] for agent in AGENTS}
HEADER = "| agent | environment | kills | while a checkpoint was written | before one was | same bytes |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12, help="per pair of agent and environment")
    parser.add_argument("--at-once", type=int, default=2, help="pairs")
    parser.add_argument("--work", type=Path, default=Path("runs/chaos"))
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    arguments = parser.parse_args()
    cache = {"JAX_COMPILATION_CACHE_DIR": str(arguments.work.absolute() / "compiled")}
    os.environ.update(cache | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"})
    pairs = [(agent, env) for agent, envs in ENVIRONMENTS.items() for env in envs]

    def torture(number: int) -> dict:
        agent, env = pairs[number]
        job = {**SMALL, **FAMILIES[env], "environment": env, "agent": agent}
        work = arguments.work / f"{agent}.{env.replace('/', '.')}"
        return campaign(work, job, arguments.kills, random.Random(number))

    results = {}
    with ThreadPoolExecutor(arguments.at_once) as pool:
        for pair, result in zip(pairs, pool.map(torture, range(len(pairs))), strict=True):
            results[pair] = result
            print(f"{len(results)} of {len(pairs)}: {' on '.join(pair)}: {result}", flush=True)
            write(arguments.out / "resume.md", results, len(pairs))


def campaign(work: Path, job: dict, kills: int, rng: random.Random) -> dict:
    done = work / "result.json"
    if done.is_file():
        return json.loads(done.read_text())
    shutil.rmtree(work, ignore_errors=True)
    process = start(work / "calm", [job])
    messages = process.communicate()[1]
    assert process.returncode == 0, f"{job} fails without being killed: {messages}"
    outcome = torment(work / "storm", [job], kills, rng, patience=1.0, haste=0.3)
    same = digests(work / "calm", [job]) == digests(work / "storm", [job])
    result = {"kills": outcome.kills, "in_checkpoint": outcome.in_checkpoint, "in_vain": outcome.in_vain, "same": same}
    done.write_text(json.dumps(result | {"commit": provenance()["commit"]}))
    if same:
        for side in ("calm", "storm"):
            shutil.rmtree(run_directory(work / side, job))
    return json.loads(done.read_text())


def write(path: Path, results: dict, total: int) -> None:
    kills = sum(result["kills"] for result in results.values())
    same = sum(result["same"] for result in results.values())
    commits = ", ".join(sorted({f"`{result['commit']}`" for result in results.values()}))
    lines = [
        "# Killed and resumed",
        "",
        f"{kills} kills (SIGKILL) over {len(results)} of {total} pairs of agent and environment; {same} of the runs",
        "ended with the same bytes as the run that was left alone: config, metrics, evaluations, policy, scores,",
        "distributions, and the hashes of parameters, optimiser, priorities, replay, environment and keys. A process",
        "is killed at a random moment within a second after it has written a checkpoint, which it does every 50 steps;",
        "three in ten without waiting for one, within the six seconds in which it starts, compiles and loads.",
        f"Printed by `make chaos` at {commits}.",
        "",
        HEADER,
        "|---|---|---|---|---|---|",
    ]
    for (agent, env), result in results.items():
        verdict = "yes" if result["same"] else "**NO**"
        counts = " | ".join(str(result[name]) for name in ("kills", "in_checkpoint", "in_vain"))
        lines.append(f"| `{agent}` | `{env}` | {counts} | {verdict} |")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
