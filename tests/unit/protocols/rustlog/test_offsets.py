"""Commits that have to wait for their coordinator, and the lags kept of them."""

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from broker._native.protocols.rustlog.counters import RustLogCounters
from broker.core.groups.commands.offsets import CommitResponse, FetchOffsetsResponse
from broker.core.security import Security
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.model.limits import RUSTLOG_LAGS_MAX
from broker.protocols.rustlog.binary import Binary
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, RefusalError
from broker.protocols.rustlog.handlers import offsets
from broker.protocols.rustlog.json_form import Json
from broker.protocols.rustlog.lags import Lag, Lags
from broker.protocols.rustlog.messages import Committed, GroupOffset, OffsetCommit, OffsetFetch

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
COMMIT = OffsetCommit("g", "topic", 0, 7)


class Clock:
    """A clock that advances a second each time it is read."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        self.now_ms += 1000
        return self.now_ms


class Groups:
    """A coordinator that returns one error after another, the last one forever."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.errors = deque(errors)
        self.asked = 0

    def _next(self) -> ErrorCode:
        self.asked += 1
        return self.errors.popleft() if len(self.errors) > 1 else self.errors[0]

    async def commit_offsets(self, _: Any) -> CommitResponse:
        return CommitResponse((self._next(),))

    async def fetch_offsets(self, _: Any) -> FetchOffsetsResponse:
        return FetchOffsetsResponse(self._next(), {"topic": {0: None}})


def log(last_stable_offset: int, **flags: bool) -> Any:
    """Return a log with the attributes that lags use."""
    facts = {"is_loading": False, "is_offline": False, **flags}
    return SimpleNamespace(last_stable_offset=last_stable_offset, **facts)


class Topics(dict[str, Any]):
    """Topics by name, each of one log."""


def topics(**logs: Any) -> Topics:
    """Return topics that have these logs for partition 0."""
    return Topics(
        {
            name: SimpleNamespace(
                log=lambda number, each=each: None if number else each,
                has_partition=lambda number: number == 0,
            )
            for name, each in logs.items()
        }
    )


def call(groups: Groups, *, is_json: bool = False) -> Call:
    """Return the context of a request."""
    known = topics(topic=log(10), __consumer_offsets=log(0))
    broker: Any = SimpleNamespace(
        groups=groups, clock=Clock(), topics=known, links=None, security=Security()
    )
    session = Session(broker, "192.0.2.7", "broker.example", 9092)
    return Call(session, Json() if is_json else Binary(), RustLogCounters(), Lags())


def test_a_commit_waits_until_the_coordinator_has_loaded() -> None:
    groups = Groups(AWAY, LOADING, ErrorCode.NONE)

    assert asyncio.run(offsets.commit(COMMIT, call(groups))) == Committed()
    assert groups.asked == 3


def test_an_offset_fetch_waits_until_the_coordinator_has_loaded() -> None:
    groups = Groups(LOADING, ErrorCode.NONE)

    found = asyncio.run(offsets.fetch(OffsetFetch("g", "topic", 0), call(groups)))
    assert found == GroupOffset(None)


@pytest.mark.parametrize("error", [LOADING, AWAY, ErrorCode.NOT_COORDINATOR])
def test_the_wait_for_the_coordinator_is_limited(error: ErrorCode) -> None:
    with pytest.raises(RefusalError, match="still loading") as caught:
        asyncio.run(offsets.commit(COMMIT, call(Groups(error))))

    assert caught.value.failure is Failure.COMMIT
    assert caught.value.text == "Offset commit failed: the group is still loading, try again"


@pytest.mark.parametrize(
    "error",
    [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS],
)
def test_a_commit_to_a_group_with_members_is_refused_without_waiting(error: ErrorCode) -> None:
    groups = Groups(error)

    with pytest.raises(RefusalError, match="live members of another protocol"):
        asyncio.run(offsets.commit(COMMIT, call(groups)))
    assert groups.asked == 1


def test_a_refused_commit_leaves_no_lag_entry() -> None:
    refused = call(Groups(ErrorCode.UNKNOWN_MEMBER_ID))
    with pytest.raises(RefusalError):
        asyncio.run(offsets.commit(COMMIT, refused))
    assert list(refused.lags.of(refused.broker.topics)) == []

    done = call(Groups(ErrorCode.NONE))
    asyncio.run(offsets.commit(COMMIT, done))
    assert list(done.lags.of(done.broker.topics)) == [Lag("topic", 0, "g", 3)]


def test_lags_are_reported_only_for_partitions_in_service() -> None:
    lags = Lags()
    known: Any = topics(a=log(5), b=log(5, is_loading=True), c=log(5, is_offline=True), d=log(1))
    for name in "abcde":
        lags.committed(name, 0, "g", 2)
    lags.committed("a", 1, "g", 2)
    lags.committed("a", 0, "g", 1)

    assert list(lags.of(known)) == [Lag("a", 0, "g", 4), Lag("d", 0, "g", 0)]


def test_lags_are_kept_only_for_the_latest_commits() -> None:
    lags = Lags()
    known: Any = topics(a=log(5))
    for number in range(RUSTLOG_LAGS_MAX + 5):
        lags.committed("a", 0, f"{number:05}", 0)
    lags.committed("a", 0, "00005", 1)
    lags.committed("a", 0, "new", 0)

    groups = [each.group for each in lags.of(known)]
    assert len(groups) == RUSTLOG_LAGS_MAX
    assert "00005" in groups
    assert "00006" not in groups
