"""Which run next, and what to do with one that has ended: a loop over an executor of a few functions, so that it can be
tested, and measured with ten thousand runs, without Ray."""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Literal, NamedTuple

from fqf.suite.plan import SuiteRun

Verdict = Literal["finished", "again", "failed", "diverged", "locked", "stopped"]
DIVERGED, SIGNALS = 3, (-2, -15, 130, 143)
LOSSES = 3
"""How often in a row a run may lose its worker without having got any further."""


class Outcome(NamedTuple):
    """How a run's process ended, or that nobody knows."""

    code: int | None
    """Exit code, or minus the signal; None: the worker or its node was lost."""
    message: str = ""
    seconds: float = 0.0
    node: str = ""
    locked: bool = False
    """Another process is at work in the run's directory."""
    unfit: bool = False
    """Its node can't run anything of ours, and would answer so for every run."""


class Executor(NamedTuple):
    """Whoever runs processes."""

    slots: Callable[[], int]
    """How many runs there is room for, all in all; machines come and go."""
    submit: Callable[[SuiteRun], Hashable]
    wait: Callable[[list[Hashable]], list[tuple[Hashable, Outcome]]]
    """For a moment, or until some have ended."""
    stop: Callable[[Hashable], None]
    """Ask a run to save and end."""


class Ended(NamedTuple):
    """One attempt at one run."""

    run: SuiteRun
    verdict: Verdict
    outcome: Outcome
    attempt: int


class Attempts(NamedTuple):
    started: int = 0
    failed: int = 0
    lost: int = 0
    """Since the run last got any further."""
    position: int = 0
    """How far the run was when it was last started."""


def judge(outcome: Outcome, tried: Attempts, retries: int, stopping: bool) -> Verdict:
    """A run that failed is tried again, also where it refused to start: its node may have been short of memory, or its
    disk away. One that diverged would diverge again. A lost worker, or a signal from elsewhere, is not its failure."""
    if outcome.code == 0:
        return "finished"
    if outcome.locked:
        return "locked"
    if outcome.code == DIVERGED:
        return "diverged"
    if stopping:
        return "stopped" if is_lost(outcome) else "failed"
    return "again" if (tried.lost < LOSSES if is_lost(outcome) else tried.failed < retries) else "failed"


def is_lost(outcome: Outcome) -> bool:
    return outcome.code is None or outcome.code in SIGNALS


def schedule(
    runs: Iterable[SuiteRun],
    executor: Executor,
    retries: int,
    position: Callable[[SuiteRun], int],
    tell: Callable[[Ended], None],
    look: Callable[[list[SuiteRun]], None],
    stopping: Callable[[], bool],
) -> Counter[Verdict]:
    """Never more runs in flight than there is room for. `position` is how far a run has got on the disk, `look` is
    called now and then with those in flight."""
    waiting, flying = deque(runs), dict[Hashable, SuiteRun]()
    attempts, counts, asked = dict[SuiteRun, Attempts](), Counter[Verdict](), False
    while waiting or flying:
        if stopping() and not asked:
            asked = True
            waiting.clear()
            for handle in flying:
                executor.stop(handle)
        room = executor.slots() - len(flying)
        for _ in range(min(room, len(waiting))):
            run = waiting.popleft()
            before = attempts.get(run, Attempts())
            attempts[run] = before._replace(started=before.started + 1, position=position(run))
            flying[executor.submit(run)] = run
        look(list(flying.values()))
        for handle, outcome in executor.wait(list(flying)):
            run = flying.pop(handle)
            tried, lost = attempts.pop(run), is_lost(outcome)
            if lost and position(run) > tried.position:
                tried = tried._replace(lost=0)
            verdict = judge(outcome, tried, retries, asked)
            if verdict == "again":
                attempts[run] = tried._replace(lost=tried.lost + lost, failed=tried.failed + (not lost))
                (waiting.appendleft if lost else waiting.append)(run)
            else:
                counts[verdict] += 1
            tell(Ended(run, verdict, outcome, tried.started))
    return counts
