"""When a supervisor starts, restarts and ends workers, with a clock of the test."""

from broker.model.limits import (
    WORKER_FAILED_SECONDS,
    WORKER_FAILURES_MAX,
    WORKER_PAUSE_SECONDS,
    WORKER_PAUSE_SECONDS_MAX,
    WORKERS_STOP_SECONDS,
)
from broker.server.workers.policy import (
    EXIT_FAILED,
    Announce,
    Exit,
    Kill,
    Policy,
    Start,
    Stop,
)

STARTED = 100.0
LATER = STARTED + WORKER_FAILED_SECONDS + 1


def announced() -> Policy:
    """Return two workers that are ready."""
    policy = Policy([1, 2])
    assert policy.begin(STARTED) == [Start(0), Start(1)]
    assert policy.ready(1) == []
    assert policy.ready(0) == [Announce()]
    return policy


def fail(policy: Policy, now: float) -> float:
    """Let worker 0 end at once until it is to be started after a pause; return when."""
    assert policy.ended(0, -11, now) == []
    assert policy.due is not None
    assert policy.tick(policy.due - 0.001) == []
    due = policy.due
    assert policy.tick(due) == [Start(0)]
    return due


def test_workers_are_announced_once_when_all_are_ready() -> None:
    policy = announced()
    policy.ended(0, -9, LATER)

    assert policy.ready(0) == []


def test_a_worker_that_has_run_for_a_while_is_started_again_at_once() -> None:
    policy = announced()

    assert policy.ended(1, -9, LATER) == [Start(1)]
    assert policy.due is None


def test_a_worker_that_was_asked_to_end_by_somebody_else_is_started_again() -> None:
    assert announced().ended(1, 0, LATER) == [Start(1)]


def test_pauses_between_restarts_double() -> None:
    policy, now = announced(), LATER
    policy.ended(0, -11, now)
    assert policy.ended(0, -11, now) == [Start(0)]  # the first failure soon after a start

    pauses = []
    for _ in range(WORKER_FAILURES_MAX - 2):
        due = fail(policy, now)
        pauses.append(round(due - now, 3))
        now = due

    expected = [WORKER_PAUSE_SECONDS * 2**n for n in range(WORKER_FAILURES_MAX - 2)]
    assert pauses == [min(each, WORKER_PAUSE_SECONDS_MAX) for each in expected]


def test_a_worker_that_ends_again_and_again_ends_all() -> None:
    policy, now = announced(), LATER
    policy.ended(0, 74, now)
    actions = policy.ended(0, 74, now)
    while actions == [Start(0)]:
        actions = policy.ended(0, 74, now)
        if not actions:
            assert policy.due is not None
            now = policy.due
            actions = policy.tick(now)

    assert actions == [Stop(1)]
    assert policy.reason.startswith(f"worker 1 has ended {WORKER_FAILURES_MAX} times in a row")
    assert policy.ended(1, 0, now) == [Exit(74)]


def test_a_worker_that_runs_for_a_while_has_no_failures_any_more() -> None:
    policy = announced()
    now = LATER
    for _ in range(3 * WORKER_FAILURES_MAX):
        assert policy.ended(0, -11, now) == [Start(0)]
        now += WORKER_FAILED_SECONDS


def test_a_worker_that_does_not_start_the_first_time_ends_all() -> None:
    policy = Policy([1, 2])
    policy.begin(STARTED)
    policy.ready(1)

    assert policy.ended(0, 73, STARTED) == [Stop(1)]
    assert policy.ended(1, 0, STARTED) == [Exit(73)]
    assert policy.reason == "worker 1 has not started"


def test_a_stop_asks_all_workers_and_waits_for_them() -> None:
    policy = announced()

    assert policy.stop(LATER) == [Stop(0), Stop(1)]
    assert policy.ended(1, 0, LATER) == []
    assert policy.ended(0, 0, LATER) == [Exit(0)]
    assert policy.reason == ""


def test_a_stop_before_the_workers_are_ready_is_in_order_too() -> None:
    policy = Policy([1, 2])
    policy.begin(STARTED)

    assert policy.stop(STARTED) == [Stop(0), Stop(1)]
    policy.ended(0, 0, STARTED)
    assert policy.ended(1, 0, STARTED) == [Exit(0)]


def test_a_stop_does_not_wait_for_a_worker_that_was_to_be_started_again() -> None:
    policy = announced()
    policy.ended(0, -11, LATER)
    policy.ended(0, -11, LATER)
    policy.ended(0, -11, LATER)

    assert policy.stop(LATER) == [Stop(1)]
    assert policy.tick(LATER + 1) == []
    assert policy.ended(1, 0, LATER + 1) == [Exit(0)]


def test_workers_that_do_not_stop_are_killed() -> None:
    policy = announced()
    policy.stop(LATER)
    policy.ended(0, 0, LATER)

    assert policy.due == LATER + WORKERS_STOP_SECONDS
    assert policy.tick(policy.due - 0.001) == []
    assert policy.tick(policy.due) == [Kill(1)]
    assert policy.ended(1, -9, policy.due) == [Exit(EXIT_FAILED)]


def test_a_second_signal_kills_at_once() -> None:
    policy = announced()
    policy.stop(LATER)
    policy.ended(0, 0, LATER)

    assert policy.stop(LATER) == [Kill(1)]


def test_the_exit_code_is_that_of_a_worker_that_could_not_stop_in_order() -> None:
    policy = announced()
    policy.stop(LATER)

    policy.ended(0, 74, LATER)
    assert policy.ended(1, 0, LATER) == [Exit(74)]
