"""On a node of the cluster: one command in a process of its own, which never outlives whoever asked for it.

Ray's workers load this file by its path, and it needs nothing but Python: importing `fqf` would cost every worker JAX.

    attend.py PARENT CORES COMMAND...      becomes COMMAND, held to those cores, and killed when its parent dies
"""

import contextlib
import ctypes
import fcntl
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

LOCK_SECONDS = 30.0
"""How long to wait for a process that is on its way out, as after a driver or a node was lost."""
PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def attend(order: dict[str, Any]) -> dict[str, Any]:
    """Start what is ordered, wait for its end, and tell of it. An interrupt is passed on, so that runs save."""
    heed_interrupts()
    start = time.monotonic()
    told = {"node": platform.node(), "code": None, "message": "", "locked": False, "unfit": False}
    if not Path(order["shared"]).is_dir():
        return told | {"unfit": True, "message": f"{platform.node()} does not see {order['shared']}: it must be shared"}
    if order["directory"] and (holder := wait_for_lock(Path(order["directory"]), order.get("patience", LOCK_SECONDS))):
        return told | {"code": 2, "locked": True, "message": f"{order['directory']} is in use by process {holder}"}
    cores, claims = claim_cores(order["cores"])
    said = Path(order["output"])
    try:
        with said.open("ab") as output:
            code = run(order, cores, claims, output)
        message = last_line(said).removeprefix("fqf: ")
        if not message:
            said.unlink(missing_ok=True)
    finally:
        for claim in claims:
            os.close(claim)
    return told | {"code": code, "message": message, "seconds": time.monotonic() - start}


def heed_interrupts() -> None:
    """By an interrupt Ray asks for an end. Whoever was started in the background of a script ignores them, and so would
    all that it starts."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(order: dict[str, Any], cores: list[int], claims: list[int], output: Any) -> int:
    wrapper = [sys.executable, "-S", "-E", __file__, str(os.getpid()), ",".join(map(str, cores))]
    process = subprocess.Popen(  # by this thread: the system kills the process when the *thread* that started it ends
        [*wrapper, sys.executable, *order["arguments"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        env=environment(order["environment"]),
        cwd=order["cwd"] if Path(order["cwd"]).is_dir() else order["shared"],
        pass_fds=claims,  # cores are taken for as long as the process lives
    )
    asked = False
    try:
        while True:
            try:
                return process.wait(0.5)  # not longer: an interrupt by Ray is seen only in between
            except subprocess.TimeoutExpired:
                continue
            except (KeyboardInterrupt, SystemExit):
                if not asked:  # a second signal would end it without a checkpoint
                    process.terminate()
                asked = True
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def environment(wanted: dict[str, str]) -> dict[str, str]:
    """The node's own, and what was ordered. Ray's number of threads goes: a run's cores say how many it has."""
    return {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | wanted


def last_line(path: Path) -> str:
    """What a process said in the end, as far as it matters."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip()[:500] for line in reversed(lines) if line.strip()), "")


def wait_for_lock(directory: Path, patience: float) -> str:
    """Until no process is at work in a run directory; if one still is, who."""
    end = time.monotonic() + patience
    while True:
        try:
            descriptor = os.open(directory / "lock", os.O_RDWR)
        except OSError:
            return ""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return ""
        except BlockingIOError:
            if time.monotonic() > end:
                return os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
        except OSError:  # no locks on this file system: the run itself will say so
            return ""
        finally:
            os.close(descriptor)
        time.sleep(0.1)


def claim_cores(count: int) -> tuple[list[int], list[int]]:
    """So many cores that no other run of ours has on this machine, and the open locks on them. If fewer are free, as
    when somebody else runs a suite, too, the rest are shared."""
    if not hasattr(os, "sched_getaffinity"):
        return [], []
    there = sorted(os.sched_getaffinity(0))
    if count >= len(there):
        return there, []
    directory = Path(tempfile.gettempdir()) / f"fqf-cores-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    cores: list[int] = []
    claims: list[int] = []
    for core in there:
        if len(cores) == count:
            break
        claim = os.open(directory / str(core), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(claim)
        else:
            cores.append(core)
            claims.append(claim)
    return sorted(cores + [core for core in there if core not in cores][: count - len(cores)]), claims


def become(parent: int, cores: list[int], command: list[str]) -> None:
    """Die with the parent, keep to the cores, and be the command; all three outlast `exec`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could ask to be told
        sys.exit(1)
    if cores:
        os.sched_setaffinity(0, cores)
    with contextlib.suppress(OSError):
        os.setsid()  # a Ctrl-C in the driver's terminal is the driver's
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray's workers block some
    os.execv(command[0], command)


if __name__ == "__main__":
    become(int(sys.argv[1]), [int(core) for core in sys.argv[2].split(",") if core], sys.argv[3:])
