"""The loop that decides what runs next, over an executor without any process in it."""

from fqf.suite.plan import SuiteRun
from fqf.suite.scheduler import LOSSES, Attempts, Executor, Outcome, judge, schedule

OK, FAILED, LOST, KILLED = Outcome(0), Outcome(1), Outcome(None), Outcome(-9)
RUNS = tuple(SuiteRun("dqn", "classic/cartpole", seed, 100) for seed in range(5))


class Fake:
    """Plays a script of outcomes per seed; the last one is repeated. Every wait ends the run that flies longest."""

    def __init__(self, script=None, slots=2):
        self.script, self.slots_now = {seed: list(outcomes) for seed, outcomes in (script or {}).items()}, slots
        self.flying, self.submitted, self.most, self.stopped, self.told = {}, [], 0, [], []
        self.positions, self.count = {}, 0

    def submit(self, run):
        self.count += 1
        self.flying[self.count] = run
        self.submitted.append(run.seed)
        self.most = max(self.most, len(self.flying))
        return self.count

    def wait(self, handles):
        assert sorted(handles) == sorted(self.flying)
        if not handles:
            self.slots_now = 2  # a node has come
            return []
        run = self.flying.pop(handles[0])
        outcomes = self.script.get(run.seed, [OK])
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        return [(handles[0], Outcome(143) if handles[0] in self.stopped else outcome)]

    def run(self, runs=RUNS, retries=2, stopping=lambda: False, look=lambda flying: None):
        executor = Executor(lambda: self.slots_now, self.submit, self.wait, self.stopped.append)
        position = lambda run: self.positions.get(run.seed, 0)  # noqa: E731
        return schedule(runs, executor, retries, position, self.told.append, look, stopping)


def verdicts(fake, seed):
    return [ended.verdict for ended in fake.told if ended.run.seed == seed]


def test_all_runs_finish_and_never_more_are_in_flight_than_there_is_room_for():
    fake = Fake(slots=3)
    assert fake.run() == {"finished": 5}
    assert fake.submitted == [0, 1, 2, 3, 4]
    assert fake.most == 3


def test_without_room_it_waits_until_a_node_comes():
    fake = Fake(slots=0)
    assert fake.run() == {"finished": 5}
    assert fake.most == 2


def test_a_node_that_goes_takes_its_room_with_it():
    fake = Fake(slots=4)

    def look(flying):
        fake.slots_now = 1
        widths.append(len(flying))

    widths = []
    fake.run(look=look)
    assert widths == [4, 3, 2, 1, 1]  # nobody new until fewer than one are in flight


def test_a_run_that_fails_is_tried_again_after_the_others_and_then_given_up():
    fake = Fake({1: [FAILED], 3: [KILLED, OK]})
    assert fake.run(retries=2) == {"finished": 4, "failed": 1}
    assert verdicts(fake, 1) == ["again", "again", "failed"]
    assert verdicts(fake, 3) == ["again", "finished"]
    assert [ended.attempt for ended in fake.told if ended.run.seed == 1] == [1, 2, 3]
    assert fake.submitted[:5] == [0, 1, 2, 3, 4]


def test_without_retries_a_failure_is_final():
    fake = Fake({1: [FAILED, OK]})
    assert fake.run(retries=0) == {"finished": 4, "failed": 1}


def test_a_run_that_diverges_would_do_so_again_and_is_not_tried_again():
    fake = Fake({1: [Outcome(3), OK]})
    assert fake.run() == {"finished": 4, "diverged": 1}


def test_a_run_that_refused_to_start_is_tried_again():
    """Memory that was short, or a directory that could not be read, may be there the next time."""
    fake = Fake({1: [Outcome(2), OK], 2: [Outcome(2)]})
    assert fake.run(retries=1) == {"finished": 4, "failed": 1}
    assert (verdicts(fake, 1), verdicts(fake, 2)) == (["again", "finished"], ["again", "failed"])


def test_a_directory_in_use_is_reported_and_left_alone():
    fake = Fake({1: [Outcome(2, "is in use by process 7", locked=True), OK]})
    assert fake.run() == {"finished": 4, "locked": 1}
    assert [ended.outcome.message for ended in fake.told if ended.verdict == "locked"] == ["is in use by process 7"]


def test_a_lost_worker_is_replaced_at_once_and_costs_no_retry():
    fake = Fake({0: [LOST, LOST, OK]}, slots=1)
    assert fake.run(retries=0) == {"finished": 5}
    assert fake.submitted == [0, 0, 0, 1, 2, 3, 4]


def test_a_run_that_loses_its_workers_and_never_gets_on_is_given_up():
    fake = Fake({0: [LOST]}, slots=1)
    assert fake.run() == {"finished": 4, "failed": 1}
    assert fake.submitted.count(0) == LOSSES + 1


def test_a_run_that_gets_on_may_lose_any_number_of_workers():
    fake = Fake({0: [LOST] * 20 + [OK]}, slots=1)

    def look(flying):
        fake.positions[0] = fake.positions.get(0, 0) + 1  # a checkpoint further while it flies

    assert fake.run(look=look) == {"finished": 5}


def test_a_signal_from_elsewhere_is_a_loss():
    fake = Fake({0: [Outcome(143), OK]})
    assert fake.run(retries=0) == {"finished": 5}


def test_stopping_lets_runs_in_flight_save_and_starts_no_others():
    fake, looks = Fake(slots=3), []
    counts = fake.run(stopping=lambda: len(looks) >= 1, look=looks.append)
    # Three start and one of them ends; then the two in flight are asked to stop, and two never start.
    assert counts == {"finished": 1, "stopped": 2}
    assert fake.submitted == [0, 1, 2]
    assert fake.stopped == [2, 3]


def test_a_run_that_finishes_while_it_is_asked_to_stop_is_finished():
    assert judge(OK, Attempts(), 2, stopping=True) == "finished"
    assert judge(FAILED, Attempts(), 2, stopping=True) == "failed"
    assert judge(LOST, Attempts(), 2, stopping=True) == "stopped"
