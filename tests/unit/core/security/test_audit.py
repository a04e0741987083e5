"""Which events are recorded, what becomes of them when they cannot be, and how they look."""

import json
from typing import Any

import pytest

from broker.core.security.audit import (
    AUDIT_TOPIC,
    Account,
    AccountChange,
    Audit,
    Decision,
    Event,
    Kind,
    Login,
    Peer,
    kind_of,
)
from broker.core.security.audit_queue import AuditQueue
from broker.core.security.ocsf import Dropped, Lifecycle, Producer, Recorded, fields_of
from broker.model.security_limits import AUDIT_LINE_BYTES_MAX, AUDIT_TEXT_CHARACTERS_MAX

PEER = Peer("192.0.2.7", "SASL_SSL", "kafka")
PRODUCER = Producer(3, "a-cluster", "1.2")
ALICE = "User:alice"


def decision(operation: str, *, is_allowed: bool, name: str = "orders") -> Decision:
    """Return what the authorizer has decided about a topic."""
    return Decision(PEER, ALICE, "AnyApi", operation, "Topic", name, is_allowed)


def login(failure: str = "") -> Login:
    """Return a login of alice."""
    return Login(PEER, ALICE, "SCRAM-SHA-256", failure)


ACCOUNT = Account(PEER, ALICE, "User:bob", AccountChange.CREATE, "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (login(), Kind.LOGIN),
        (login("wrong password"), Kind.LOGIN),
        (ACCOUNT, Kind.ADMINISTRATION),
        (decision("Create", is_allowed=True), Kind.ADMINISTRATION),
        (decision("AlterConfigs", is_allowed=True), Kind.ADMINISTRATION),
        (decision("Describe", is_allowed=True), Kind.QUESTION),
        (decision("Read", is_allowed=True), Kind.ACCESS),
        (decision("ClusterAction", is_allowed=True), Kind.ACCESS),
        (decision("Write", is_allowed=True), Kind.ACCESS),
        (decision("Read", is_allowed=False), Kind.DENIAL),
        (decision("Create", is_allowed=False), Kind.DENIAL),
    ],
)
def test_events_have_the_kinds_of_the_setting(event: Event, kind: Kind) -> None:
    assert kind_of(event) is kind


def test_only_wanted_kinds_are_recorded() -> None:
    recorded: list[Event] = []

    def refuse(event: Event) -> bool:
        recorded.append(event)
        return False

    audit = Audit([Kind.DENIAL], (), refuse)

    assert audit(login())
    assert not audit(decision("Read", is_allowed=False))

    assert recorded == [decision("Read", is_allowed=False)]
    assert audit.wants(Kind.DENIAL)
    assert not audit.wants(Kind.ACCESS)


def test_of_excluded_principals_only_refusals_are_recorded() -> None:
    recorded: list[Event] = []

    def take(event: Event) -> bool:
        recorded.append(event)
        return True

    audit = Audit(list(Kind), [ALICE], take)
    refusals: list[Event] = [login("wrong password"), decision("Read", is_allowed=False)]
    others: list[Event] = [login(), decision("Create", is_allowed=True), ACCOUNT]

    assert all(map(audit, [*others, *refusals]))

    assert recorded == refusals


def test_reading_the_audit_makes_no_more_of_it() -> None:
    recorded: list[Event] = []

    def take(event: Event) -> bool:
        recorded.append(event)
        return True

    audit = Audit(list(Kind), (), take)
    denied = decision("Read", is_allowed=False, name=AUDIT_TOPIC)
    altered = decision("AlterConfigs", is_allowed=True, name=AUDIT_TOPIC)
    for operation in ("Read", "Describe"):
        assert audit(decision(operation, is_allowed=True, name=AUDIT_TOPIC))
    assert all(map(audit, [denied, altered]))

    assert recorded == [denied, altered]


# ---- the queue -----------------------------------------------------------------------------------


def queue(events_max: int = 3, *, is_fail_closed: bool = False) -> AuditQueue:
    """Return a queue whose events are all at the same time."""
    return AuditQueue(events_max, is_fail_closed=is_fail_closed, wall_ms=lambda: 1000)


def taken(waiting: AuditQueue) -> list[Recorded]:
    """Return all events of a queue, as they would be written."""
    return [each.event for each in waiting.take(100)]


def test_events_are_taken_in_order_until_they_are_written() -> None:
    waiting = queue()
    events: list[Event] = [login(), login("wrong password"), ACCOUNT]
    assert all(map(waiting.put, events))

    assert taken(waiting) == events
    waiting.not_written()
    assert taken(waiting) == events
    waiting.written()

    assert not len(waiting)
    assert taken(waiting) == []


def test_events_that_come_while_others_are_written_are_kept() -> None:
    waiting = queue()
    waiting.put(login())
    waiting.take(100)

    waiting.put(ACCOUNT)
    waiting.written()

    assert taken(waiting) == [ACCOUNT]


def test_events_without_room_are_counted_and_the_count_is_an_event() -> None:
    waiting = queue(1)

    assert waiting.put(login())
    assert waiting.put(ACCOUNT)  # not fail-closed: what it is about goes on
    assert waiting.put(ACCOUNT)

    assert taken(waiting) == [Dropped(2), login()]
    waiting.not_written()
    assert taken(waiting) == [Dropped(2), login()]
    waiting.written()
    assert taken(waiting) == []
    assert waiting.dropped == 2


def test_fail_closed_requests_are_refused_while_events_have_no_room() -> None:
    waiting = queue(1, is_fail_closed=True)

    assert waiting.put(login())
    assert not waiting.put(login())
    waiting.take(100)
    waiting.written()
    assert waiting.put(login())


def test_fail_closed_requests_are_refused_while_nothing_can_be_written() -> None:
    waiting = queue(100, is_fail_closed=True)
    waiting.put(login())
    waiting.take(100)
    waiting.not_written()

    refused = decision("Create", is_allowed=False)
    assert not waiting.put(decision("Create", is_allowed=True))
    assert not waiting.put(refused)

    assert taken(waiting) == [Dropped(1), login(), refused]
    waiting.written()
    assert waiting.put(decision("Create", is_allowed=True))


def test_without_fail_closed_events_wait_while_nothing_can_be_written() -> None:
    waiting = queue(100)
    waiting.put(login())
    waiting.take(100)
    waiting.not_written()

    assert waiting.put(ACCOUNT)
    assert taken(waiting) == [login(), ACCOUNT]


# ---- OCSF ----------------------------------------------------------------------------------------


def recorded(event: Recorded) -> dict[str, Any]:
    """Return an event as it is read back."""
    fields: dict[str, Any] = json.loads(json.dumps(fields_of(event, PRODUCER, 1234, 7)))
    return fields


@pytest.mark.parametrize(
    ("event", "class_uid", "activity_id", "status_id"),
    [
        (login(), 3002, 1, 1),
        (login("wrong password"), 3002, 1, 2),
        (ACCOUNT, 3001, 1, 1),
        (ACCOUNT._replace(change=AccountChange.CHANGE), 3001, 3, 1),
        (ACCOUNT._replace(change=AccountChange.DELETE), 3001, 6, 1),
        (decision("Create", is_allowed=True), 6003, 1, 1),
        (decision("Describe", is_allowed=True), 6003, 2, 1),
        (decision("Alter", is_allowed=True), 6003, 3, 1),
        (decision("Delete", is_allowed=True), 6003, 4, 1),
        (decision("ClusterAction", is_allowed=True), 6003, 99, 1),
        (decision("Read", is_allowed=False), 6003, 2, 2),
        (decision("Read", is_allowed=True), 6005, 1, 1),
        (decision("Write", is_allowed=True), 6005, 5, 1),
        (Dropped(12), 1008, 99, 2),
        (Lifecycle(is_start=True), 6002, 3, 1),
        (Lifecycle(is_start=False), 6002, 4, 1),
    ],
)
def test_each_event_has_its_class_and_what_ocsf_requires(
    event: Recorded, class_uid: int, activity_id: int, status_id: int
) -> None:
    fields = recorded(event)

    assert fields["class_uid"] == class_uid
    assert fields["category_uid"] == class_uid // 1000
    assert fields["activity_id"] == activity_id
    assert fields["type_uid"] == class_uid * 100 + activity_id
    assert fields["status_id"] == status_id
    assert fields["severity_id"] in (1, 2, 3)
    assert fields["time"] == 1234
    assert fields["metadata"]["version"] == "1.3.0"
    assert fields["metadata"]["product"]["vendor_name"] == "Polylog"
    assert fields["metadata"]["sequence"] == 7


def test_a_login_says_who_came_from_where_and_how() -> None:
    fields = recorded(login("wrong password"))

    assert fields["user"] == {"name": "alice", "type": "User", "type_id": 1}
    assert fields["src_endpoint"] == {"ip": "192.0.2.7"}
    assert fields["dst_endpoint"] == {"svc_name": "kafka", "name": "SASL_SSL"}
    assert fields["auth_protocol"] == "SCRAM-SHA-256"
    assert fields["status_detail"] == "wrong password"


def test_a_denial_says_which_operation_on_what() -> None:
    fields = recorded(decision("Write", is_allowed=False))

    assert fields["resources"] == [{"name": "orders", "type": "Topic"}]
    assert fields["api"]["operation"] == "AnyApi"
    assert fields["api"]["request"]["flags"] == ["Write"]
    assert fields["actor"]["authorizations"][0]["decision"] == "Denied"
    assert fields["actor"]["user"]["name"] == "alice"


def test_the_longest_event_is_a_line_of_bounded_size() -> None:
    text = "\U0001f600" * (AUDIT_TEXT_CHARACTERS_MAX * 10)  # 12 characters each in JSON
    peer = Peer("ffff:" * 8, "X" * 100, "kafka")
    event = Decision(peer, f"User:{text}", text, "Write", "Topic", text, False, text)

    assert len(json.dumps(recorded(event))) < AUDIT_LINE_BYTES_MAX
    for other in (
        Login(peer, text, "PLAIN", text),
        Account(peer, text, text, AccountChange.CREATE),
    ):
        assert len(json.dumps(recorded(other))) < AUDIT_LINE_BYTES_MAX


def test_odd_characters_stay_within_their_line() -> None:
    event = login()._replace(user='User:"}\n{"class_uid":1}\u2028\ud800')

    line = json.dumps(recorded(event))

    assert "\n" not in line
    assert "\u2028" not in line
    assert json.loads(line)["user"]["name"] == '"}\n{"class_uid":1}\u2028\ud800'
