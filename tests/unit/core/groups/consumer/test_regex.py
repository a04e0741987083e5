"""Stored patterns that the engine cannot compile, and searches that take many turns."""

import pytest

from broker.core.coordination.machine import Moment
from broker.core.groups.commands.consumer import ConsumerHeartbeat
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.groups.consumer.regex import RegexJob
from broker.core.groups.records.consumer import (
    ConsumerMember,
    ConsumerMemberRecord,
    RegexRecord,
)
from broker.core.groups.settings import ConsumerSettings
from broker.model import limits
from broker.model.limits import COORDINATOR_SLICE_DECISIONS
from broker.model.security_limits import PATTERNS_AUTHORIZED_MS
from tests.support.fakes import FakeTopics

UNREADABLE = "(a"


def topics() -> FakeTopics:
    made = FakeTopics()
    made.put("t", 1)
    return made


def test_an_invalid_pattern_matches_nothing() -> None:
    job = RegexJob([UNREADABLE, "t.*"], topics())

    assert job.run(1_000)

    assert job.matched == {UNREADABLE: (), "t.*": ("t",)}


def test_a_stored_pattern_that_cannot_be_compiled_is_logged_once() -> None:
    group = ConsumerGroup("g", ConsumerSettings(), topics())
    group.replay(ConsumerMemberRecord("g", "a", ConsumerMember("a", topic_regex=UNREADABLE)))
    joining = ConsumerHeartbeat(
        "g", "b", 0, rebalance_timeout_ms=1, topic_names=(), topic_regex="t.*", owned={}
    )

    decision = group.heartbeat(joining, "b", Moment(0, 0))

    for record in decision.records:
        group.replay(record)  # type: ignore[arg-type]
    resolved = {
        each.regex: each.resolved.topics
        for each in decision.records
        if isinstance(each, RegexRecord) and each.resolved is not None
    }
    assert resolved == {UNREADABLE: (), "t.*": ("t",)}
    [note] = [each for each in decision.notes if UNREADABLE in each]
    assert "not a pattern of RE2" in note
    again = group.heartbeat(joining._replace(member_id="c"), "c", Moment(9_999, 0))
    assert not [each for each in again.notes if UNREADABLE in each]


def test_topics_that_a_member_may_not_describe_are_neither_matched_nor_assigned() -> None:
    seen = topics()
    seen.put("t2", 1)
    first = seen.get("t")
    assert first is not None
    group = ConsumerGroup("g", ConsumerSettings(), seen)
    allowed = {"t"}
    heartbeat = ConsumerHeartbeat(
        "g", "b", 0, rebalance_timeout_ms=1, topic_names=(), topic_regex="t.*", owned={}
    )._replace(may_describe=allowed.__contains__)

    def matched(request: ConsumerHeartbeat, now_ms: int) -> tuple[str, ...]:
        for record in group.heartbeat(request, "b", Moment(now_ms, 0)).records:
            group.replay(record)  # type: ignore[arg-type]
        return group.state.regexes["t.*"].topics

    assert matched(heartbeat, 0) == ("t",)
    assert [*group.state.current["b"].assigned] == [first.topic_id]
    allowed.add("t2")
    again = heartbeat._replace(member_epoch=group.state.current["b"].epoch, owned=None)
    assert matched(again, PATTERNS_AUTHORIZED_MS - 1) == ("t",)
    assert matched(again, PATTERNS_AUTHORIZED_MS) == ("t", "t2")


def test_a_slice_of_a_regex_search_weighs_as_much_as_many_decisions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REGEX_MATCHES_PER_SLICE", 1)
    group = ConsumerGroup("g", ConsumerSettings(), topics())
    joining = ConsumerHeartbeat(
        "g", "b", 0, rebalance_timeout_ms=1, topic_names=(), topic_regex="t.*", owned={}
    )
    for record in group.heartbeat(joining, "b", Moment(0, 0)).records:
        group.replay(record)  # type: ignore[arg-type]

    weights = [group.tick(Moment(ms, 0)).weight for ms in range(1, 9)]

    assert weights[0] == COORDINATOR_SLICE_DECISIONS
    assert weights[-1] == 0
