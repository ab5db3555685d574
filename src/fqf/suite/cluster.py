"""The executor on Ray: every run is a task that starts one process on a node, and tells how it ended."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fqf.errors import UserError
from fqf.suite.plan import Resources, SuiteRun
from fqf.suite.scheduler import Executor, Outcome

WAIT_SECONDS = 0.5
STORE_BYTES = 100_000_000
"""Ray's object store; orders and records are a few hundred bytes."""
NODES_SECONDS = 2.0
"""Between two looks at which nodes there are."""


def load_ray(local: bool) -> Any:
    """Ray comes in only when a suite runs. Started here, it listens on the loopback interface only: it takes the
    address that it would take on a laptop with macOS."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's own advice against its warning
    if local:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        import ray
    except ImportError:
        raise UserError("a suite needs Ray: pip install 'fqf[cluster]' (or use --jobs, which does not)") from None
    return ray


@contextlib.contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster, or started on this machine."""
    ray = load_ray(local=address is None)
    if address is not None:
        refuse_unreachable(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    try:
        if address is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
            ray.init("local", num_cpus=cores, include_dashboard=False, object_store_memory=STORE_BYTES, **quiet)
        else:
            ray.init(address, **quiet)
    except Exception as error:  # where a busy machine is too slow for Ray, it raises just that
        ray.shutdown()
        where = f"no Ray cluster at {address}" if address else "Ray did not start on this machine"
        raise UserError(f"{where}: {' '.join(str(error).split())}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def refuse_unreachable(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if address != "auto" and not (host and port.isdigit() and "/" not in host):
        raise UserError(f"address is {address!r}, but must be auto, or host:port, such as 10.0.0.1:6379")
    try:
        if address != "auto":
            socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        advice = "start one with `ray start --head`, or leave out --address to run on this machine"
        raise UserError(f"no Ray cluster at {address} ({error}): {advice}") from None


def make_task() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What a worker does. It is made inside a function, so that Ray sends its code: by name, all of fqf would have to
    be imported there."""

    def task(order):
        import importlib.util
        import pathlib
        import platform
        import runpy

        found = importlib.util.find_spec("fqf")
        if found is None or found.origin is None:
            said = f"fqf is not installed on {platform.node()}, or not in its PYTHONPATH"
            return {"code": None, "unfit": True, "message": said}
        return runpy.run_path(str(pathlib.Path(found.origin).parent / "suite" / "attend.py"))["attend"](order)

    return task


def ray_executor(
    ray: Any,
    resources: Resources,
    order: Callable[[SuiteRun], Mapping[str, Any]],
    task: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Executor:
    """`order` says what a node has to start for a run (attend.py)."""
    demand = {"CPU": float(resources.cpus), "memory": resources.memory_gb * 1e9, "GPU": resources.gpus}
    refuse_larger_than_any_node([node["Resources"] for node in ray.nodes() if node["Alive"]], demand)

    # A lost worker is our business, not Ray's: the run's directory says what is left to do.
    how = {"num_cpus": resources.cpus, "memory": int(demand["memory"]), "num_gpus": resources.gpus, "max_retries": 0}
    remote = ray.remote(**how)(task or make_task())
    seen: tuple[float, int] = (0.0, 0)

    def slots() -> int:
        nonlocal seen
        if time.monotonic() - seen[0] > NODES_SECONDS:
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            seen = (time.monotonic(), sum(room(node, demand) for node in nodes))
        return seen[1]

    def wait(handles: list[Hashable]) -> list[tuple[Hashable, Outcome]]:
        if not handles:
            time.sleep(WAIT_SECONDS)
            return []
        done, _ = ray.wait(handles, num_returns=1, timeout=WAIT_SECONDS)
        more, _ = ray.wait(handles, num_returns=len(handles), timeout=0) if done else ([], [])
        return [(handle, outcome_of(ray, handle)) for handle in more or done]

    return Executor(slots, lambda run: remote.remote(dict(order(run))), wait, lambda handle: ray.cancel(handle))


def outcome_of(ray: Any, handle: Any) -> Outcome:
    try:
        told = ray.get(handle)
    except ray.exceptions.TaskCancelledError:
        return Outcome(None, "was stopped before it began")
    except ray.exceptions.RayTaskError as error:  # attend.py itself: a full disk, a missing directory
        return Outcome(1, str(error).strip().splitlines()[-1])
    except ray.exceptions.RayError as error:
        return Outcome(None, f"its worker was lost: {type(error).__name__}")
    return Outcome(**{name: told[name] for name in Outcome._fields if name in told})


def room(node: Mapping[str, float], demand: Mapping[str, float]) -> int:
    """How many runs a node takes at once."""
    return min(int(node.get(name, 0.0) / amount + 1e-9) for name, amount in demand.items() if amount > 0)


def refuse_larger_than_any_node(nodes: list[Mapping[str, float]], demand: Mapping[str, float]) -> None:
    """Ray would wait for ever for a node that is large enough."""
    if any(room(node, demand) for node in nodes):
        return
    words = {
        "CPU": ("cpus", "{:g} CPUs", 1.0),
        "memory": ("memory_gb", "{:.3g} GB of memory", 1e9),
        "GPU": ("gpus", "{:g} GPUs", 1.0),
    }
    for name, amount in demand.items():
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        option, text, unit = words[name]
        if amount > most:
            has = text.format(most / unit)
            raise UserError(
                f"a run asks for {text.format(amount / unit)}, but the largest node has {has}: lower {option}"
            )
    raise UserError("no node has the CPUs, the memory and the GPUs that a run asks for at the same time")


ENVIRONMENT = ("PYTHONPATH", "XDG_CACHE_HOME", "WANDB_MODE", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_BASE_URL")
"""Trackers' too: who is offline here must not be online there."""
PREFIXES = ("JAX_", "XLA_")


def environment_to_send(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the driver's environment a run elsewhere must have, too. Nothing secret is among it."""
    chosen = {name: value for name, value in environment.items() if name in ENVIRONMENT or name.startswith(PREFIXES)}
    if paths := chosen.get("PYTHONPATH"):  # relative to where the driver is
        chosen["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep) if path)
    return chosen


def devices(gpus: float) -> dict[str, str]:
    """Runs that ask for no GPU keep off it, and those that share one share its memory, of which JAX would take three
    quarters at once."""
    if not gpus:
        return {"JAX_PLATFORMS": "cpu"}
    return {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 * gpus:.3f}"} if gpus < 1 else {}


def make_order(run: SuiteRun, arguments: list[str], runs: Path, journal: Path, asked: Resources) -> dict[str, Any]:
    """Small and plain, as all that goes through Ray."""
    return {
        "arguments": arguments,
        "cores": asked.cpus,
        "cwd": str(Path.cwd()),
        "directory": str(runs / run.id),
        "environment": devices(asked.gpus) | environment_to_send(os.environ),
        "output": str(journal / "output" / f"{run.id.replace('/', '.')}.txt"),
        "shared": str(journal),
    }
