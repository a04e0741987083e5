"""Why a group does not consume."""

from typing import Any

import pytest

from broker.cli.group.explanation import Facts, findings
from broker.client.groups import Group, Member
from broker.client.lag import Lag
from broker.model.address import Address

READING = Member("m-1", None, "app", "10.0.0.1", None, ("t",), (("t", 0),), None)
IDLE = Member("m-2", None, "spare", "10.0.0.2", None, ("t",), (), None)


def group(*members: Member, state: str = "Stable") -> Group:
    return Group("g", "classic", "consumer", state, "range", None, Address("b", 9092), members)


def lag(committed: int | None = 10, start: int = 0, end: int = 10, **others: Any) -> Lag:
    first = start if committed is None else max(committed, start)
    values = {
        "records": max(end - first, 0),
        "seconds": 0.0,
        "deleted": 0 if committed is None else max(start - committed, 0),
        "retention_percent": 0.0,
    } | others
    return Lag(committed, start, end, **values)


def facts(found: Group, at: Lag | None = None, **others: Any) -> Facts:
    at = at or lag()
    values: dict[str, Any] = {
        "committed": {("t", 0): at.committed} if at.committed is not None else {},
        "lags": {("t", 0): at},
        "stable": {("t", 0): at.end},
        "existing": {("t", 0)},
        "led": {("t", 0)},
        "missing_topics": set(),
    } | others
    return Facts(found, **values)


def told(
    now: Facts, earlier: Facts | None = None, seconds: float = 3
) -> list[tuple[str, str, str]]:
    found = findings(earlier or now, now, seconds)
    assert all(each.fix for each in found if each.severity != "ok")
    return [(each.severity, each.subject, each.reason) for each in found]


def test_a_group_that_has_read_everything_is_well() -> None:
    assert told(facts(group(READING))) == [("ok", "g", "it consumes; 0 records are left to read")]


@pytest.mark.parametrize(
    ("now", "severity", "subject", "reason"),
    [
        (facts(group(state="Empty")), "problem", "g", "it has no members"),
        (facts(group(READING, state="PreparingRebalance")), "problem", "g", "it is rebalancing"),
        (facts(group(READING), missing_topics={"t"}), "problem", "t", "a member subscribes to it"),
        (facts(group(READING), missing_topics={"u"}), "warning", "u", "there are offsets of it"),
        (facts(group(READING), led=set()), "problem", "t-0", "has no leader"),
        (facts(group(READING, IDLE)), "warning", "spare", "has no partition"),
        (facts(group(IDLE)), "problem", "t-0", "none has the partition"),
        (facts(group(READING), lag(11)), "problem", "t-0", "after the end 10 of the log"),
        (facts(group(READING), lag(3, start=5)), "problem", "t-0", "2 records were deleted before"),
        (
            facts(group(READING), lag(6, start=5, retention_percent=80.0)),
            "warning",
            "t-0",
            "80 % of the log are not read",
        ),
        (
            facts(group(READING), lag(8), stable={("t", 0): 8}),
            "warning",
            "t-0",
            "a transaction is open since offset 8",
        ),
        (facts(group(READING), lag(8)), "warning", "t-0", "has committed nothing for 3 s"),
    ],
)
def test_what_keeps_a_group_from_consuming_is_told_with_a_fix(
    now: Facts, severity: str, subject: str, reason: str
) -> None:
    assert any(
        (severity, subject) == (found, about) and reason in text for found, about, text in told(now)
    ), told(now)


def test_problems_come_first() -> None:
    now = facts(group(READING, IDLE), lag(11))

    assert [severity for severity, _, _ in told(now)] == ["problem", "warning"]


def test_a_rebalance_that_has_ended_is_no_problem() -> None:
    rebalancing = facts(group(READING, state="CompletingRebalance"))

    assert told(facts(group(READING)), rebalancing)[0][0] == "ok"


def test_a_commit_between_the_looks_shows_that_the_member_works() -> None:
    assert told(facts(group(READING), lag(8)), facts(group(READING), lag(7))) == [
        ("ok", "g", "it consumes; 2 records are left to read")
    ]


def test_a_young_log_that_is_not_read_is_not_near_its_deletion() -> None:
    now = facts(group(READING), lag(1, retention_percent=90.0))

    assert all("of the log are not read" not in reason for _, _, reason in told(now))
