"""Which errors are retried, and for how long."""

import pytest

from broker.client.retry import check, is_retriable, with_retries
from broker.model.errors import ErrorCode, PeerError, RequestError, Unreachable
from tests.support.manual_clock import ManualClock

LOADING = RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
REFUSED = RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)


class Trouble:
    """Fails with the given errors in turn, and takes time for it."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.clock = ManualClock()

    def ask(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def with_retries(self, final: frozenset[ErrorCode] = frozenset()) -> str:
        return with_retries(
            self.ask,
            give_up_seconds=1,
            final=final,
            clock=self.clock,
            sleep=lambda seconds: self.clock.advance(round(seconds * 1000)),
        )


def test_a_successful_request_is_tried_once() -> None:
    trouble = Trouble()

    assert trouble.with_retries() == "answer"
    assert trouble.calls == 1


@pytest.mark.parametrize("error", [LOADING, Unreachable("gone")])
def test_retriable_errors_are_retried(error: Exception) -> None:
    trouble = Trouble(error, error)

    assert trouble.with_retries() == "answer"
    assert trouble.calls == 3


@pytest.mark.parametrize("error", [REFUSED, PeerError("no answer"), ValueError("ours")])
def test_other_errors_are_raised_at_once(error: Exception) -> None:
    trouble = Trouble(error)

    with pytest.raises(type(error)):
        trouble.with_retries()
    assert trouble.calls == 1


def test_a_retriable_error_may_be_declared_final() -> None:
    trouble = Trouble(LOADING)

    with pytest.raises(RequestError):
        trouble.with_retries(frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}))
    assert trouble.calls == 1


def test_the_last_error_is_raised_when_the_time_is_over() -> None:
    trouble = Trouble(*[LOADING] * 100, Unreachable("never seen"))

    with pytest.raises(RequestError, match="COORDINATOR_LOAD"):
        trouble.with_retries()
    assert trouble.calls == 11  # at 0.1 s each


def test_an_error_code_is_raised_with_its_meaning_and_origin() -> None:
    with pytest.raises(RequestError, match=r"host:1: .*no such topic.* \(UNKNOWN_TOPIC") as raised:
        check(3, "host:1")
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    check(0, "host:1")


def test_an_unknown_error_code_is_not_retried() -> None:
    with pytest.raises(RequestError, match="unknown error code 999") as raised:
        check(999, "host:1")
    assert not is_retriable(raised.value)
