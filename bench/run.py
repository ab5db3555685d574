"""How fast fqf is beside what one would use instead: `make bench`.

    .venv/bin/python bench/run.py [--only updates cartpole ...] [--rounds 7] [--out docs/results]

Both sides are processes that stay; they work by turns, ours, theirs, ours, theirs, so that a noisy machine disturbs
both alike. A figure is a ratio of medians. Writes OUT/speed.json with every number, then speed.md and speed.png.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import report

from fqf.rundir import provenance

HERE = Path(__file__).parent
PEERS = HERE / ".venv"
TURN_SECONDS = 1.0
PAUSE_SECONDS = 0.25
"""After a turn, until the threads that wait for more work have gone to sleep."""


class Case(NamedTuple):
    """A unit of work, and whose."""

    side: str
    name: str
    arguments: dict[str, Any]


Times = dict[str, list[float]]
"""Seconds per unit of every turn, by label."""


class Sides:
    """The two processes."""

    def __init__(self, processes: Mapping[str, subprocess.Popen]) -> None:
        self._processes = processes
        self.versions = {name: self._read(name)["versions"] for name in processes}

    def _read(self, side: str) -> dict[str, Any]:
        line = self._processes[side].stdout.readline()
        if not line:
            raise SystemExit(f"the process of {side} has died; its last words are above")
        return json.loads(line)

    def ask(self, side: str, question: dict[str, Any]) -> dict[str, Any]:
        process = self._processes[side]
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return self._read(side)

    def seconds(self, case: Case, count: int) -> float:
        return self.ask(case.side, {"case": case.name, "arguments": case.arguments, "count": count})["seconds"]

    def forget(self) -> None:
        for side in self._processes:
            self.ask(side, {"forget": True})


@contextmanager
def started() -> Iterator[Sides]:
    pythons = {"ours": Path(sys.executable), "theirs": PEERS / "bin" / "python"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = {
        side: subprocess.Popen([str(python), str(HERE / "worker.py"), side], **pipes)
        for side, python in pythons.items()
    }
    try:
        yield Sides(processes)
    finally:
        for process in processes.values():
            process.kill()


def by_turns(sides: Sides, cases: Mapping[str, Case], rounds: int) -> Times:
    """Each case once per round, for about a second."""
    counts = {}
    for label, case in cases.items():
        unit = sides.seconds(case, 8)  # the first call compiles
        unit = min(unit, sides.seconds(case, 8)) / 8
        counts[label] = max(1, round(TURN_SECONDS / unit / 8)) * 8
    times: Times = {label: [] for label in cases}
    for _ in range(rounds):
        for label, case in cases.items():
            times[label].append(sides.seconds(case, counts[label]) / counts[label])
            time.sleep(PAUSE_SECONDS)
    sides.forget()
    return times


def both(name: str, **arguments: Any) -> dict[str, Case]:
    return {side: Case(side, name, arguments) for side in ("ours", "theirs")}


def updates(sides: Sides, rounds: int) -> dict[str, Times]:
    """The learner at Atari's size, with a large product of matrices, by either side's library, in the same rounds."""
    product = {f"product, {side}": Case(side, "sgemm", {}) for side in ("ours", "theirs")}
    results = {}
    for agent, count in (("fqf", 8), ("fqf", 32), ("fqf", 64), ("iqn", 32), ("qr_dqn", 200), ("c51", 51), ("dqn", 1)):
        cases = both("update", agent=agent, num_fractions=count) | product
        if (agent, count) == ("fqf", 32):
            current = {"agent": agent, "num_fractions": count, "target_fractions": "current"}
            cases |= {"ours, current": Case("ours", "update", current)}
        results[f"{agent} {count}"] = told(f"update {agent} {count}", by_turns(sides, cases, rounds))
    return results


def growth(sides: Sides, rounds: int) -> dict[str, Times]:
    """FQF against our own IQN with N = N' = K, and both as N grows."""
    results = {}
    for count in (8, 16, 32, 64, 128):
        cases = {a: Case("ours", "update", {"agent": a, "num_fractions": count}) for a in ("fqf", "iqn")}
        results[f"N = {count}"] = told(f"growth {count}", by_turns(sides, cases, rounds))
    return results


def cartpole(sides: Sides, rounds: int) -> dict[str, Times]:
    cases = both("cartpole") | {
        "ours, 8 seeds": Case("ours", "cartpole", {"seeds": 8}),
        "sb3-contrib's QR-DQN": Case("theirs", "cartpole_qrdqn", {}),
    }
    return {"N = 32": told("cartpole", by_turns(sides, cases, rounds))}


def minatar(sides: Sides, rounds: int) -> dict[str, Times]:
    sizes = (8, 32)
    return {f"N = {n}": told(f"minatar {n}", by_turns(sides, both("minatar", num_fractions=n), rounds)) for n in sizes}


def pong(sides: Sides, rounds: int) -> dict[str, Times]:
    """Whole agents, then the environment alone."""
    sizes, lanes = (8, 32), (1, 8)
    agents = {f"N = {n}": told(f"pong {n}", by_turns(sides, both("pong", num_fractions=n), rounds)) for n in sizes}
    return agents | {
        f"{n} lanes": told(
            f"pong, {n} lanes alone",
            by_turns(
                sides,
                {"ours": Case("ours", "pong_lanes", {"lanes": n}), "bare": Case("ours", "pong_bare", {"lanes": n})},
                rounds,
            ),
        )
        for n in lanes
    }


def memory(sides: Sides, rounds: int) -> dict[str, float]:
    """Peak of a whole run with a million frames, by the study that tells each stage."""
    command = [sys.executable, str(HERE.parent / "studies" / "host.py"), "memory"]
    last = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    print(last, flush=True)
    return {"gigabytes": float(last.split()[1])}


def checkpoints(sides: Sides, rounds: int) -> list[dict[str, float]]:
    """Time and bytes of a checkpoint as the buffer grows, by the study of checkpoints."""
    with tempfile.TemporaryDirectory() as directory:
        command = [
            sys.executable,
            str(HERE.parent / "studies" / "checkpoints.py"),
            "--growth",
            "--work",
            directory + "/a",
        ]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    print(*lines, sep="\n", flush=True)
    return [json.loads(line) for line in lines]


def start(sides: Sides, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds from `fqf train` to the first line that tells of an update: programs compiled, then kept from before."""
    results = {}
    for env in ("classic/cartpole", "atari/pong"):
        with tempfile.TemporaryDirectory() as directory:
            turns = {state: first_update(env, Path(directory), state) for state in ("cold", "warm")}
        print(f"start on {env}: {', '.join(f'{name} {seconds:.1f} s' for name, seconds in turns.items())}", flush=True)
        results[env] = turns
    return results


def first_update(env: str, directory: Path, name: str) -> float:
    """One update and no long evaluation before it; the directory is also the user's cache."""
    small = {"learning_starts_steps": 100, "steps": 2_000, "log_every_steps": 4}
    atari = {"evaluation_steps": 1, "episode_cap_frames": 400, "replay_capacity": 1_000}
    small |= atari if "atari" in env else {"evaluation_episodes": 1}
    options = [text for key, value in small.items() for text in (f"--{key.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "fqf.cli", "train", "--env", env, "--runs", str(directory / name), "--quiet"]
    began = time.monotonic()
    process = subprocess.Popen([*command, *options], env={**os.environ, "XDG_CACHE_HOME": str(directory)})
    try:
        while process.poll() is None:
            time.sleep(0.02)
            lines = [line for path in (directory / name).rglob("metrics.jsonl") for line in path.open()]
            if any('"updates": 0' not in line for line in lines):
                return time.monotonic() - began
    finally:
        process.kill()
        process.wait()
    raise SystemExit(f"{' '.join(process.args)} has ended before its first update")


SECTIONS: dict[str, Callable[[Sides, int], dict[str, Any]]] = {
    "updates": updates,
    "growth": growth,
    "cartpole": cartpole,
    "minatar": minatar,
    "pong": pong,
    "start": start,
    "checkpoints": checkpoints,
    "memory": memory,
}


def told(what: str, times: Times) -> Times:
    parts = (f"{label} {1000 * median(values):.3g} ms" for label, values in times.items())
    print(f"{what}: {', '.join(parts)}", flush=True)
    return times


def median(values: list[float]) -> float:
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    arguments = parser.parse_args()
    if not PEERS.is_dir():
        raise SystemExit(f"the peers are not installed in {PEERS}: run `make bench`")
    began = time.monotonic()
    with started() as sides:
        path, commit = arguments.out / "speed.json", provenance()["commit"]
        results: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"measured": {}}
        results["versions"] = sides.versions
        for name in arguments.only:  # sections measured before stay, with their commit
            since = time.monotonic()
            results[name] = SECTIONS[name](sides, arguments.rounds)
            results["measured"][name] = {"commit": commit, "minutes": (time.monotonic() - since) / 60}
            (arguments.out / "speed.json").write_text(json.dumps(results, indent=1) + "\n")
            report.write(arguments.out)
    print(f"{(time.monotonic() - began) / 60:.0f} minutes; {arguments.out / 'speed.md'}")


if __name__ == "__main__":
    main()
