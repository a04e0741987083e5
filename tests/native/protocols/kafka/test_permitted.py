"""The native paths serve what is known to be allowed, and leave everything else to Python."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker._native.log.permissions import DESCRIBE, READ, WRITE, PermissionEpoch, Permissions
from tests.support.native_log import records
from tests.support.native_wire import (
    LIST_OFFSETS,
    Client,
    Wire,
    changed,
    fetch,
    incremental,
    produce,
    request,
)

BATCH = records(2)
PRODUCER = 5
FETCH_SESSION_ID_NOT_FOUND = 70


class Guarded:
    """A wire whose poller asks for permissions, and a client with some."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        wire.poller.authorizes = True
        self.epoch = PermissionEpoch()
        self.known = Permissions(self.epoch, wire.table)
        self.client = self.connect(self.known)

    def connect(self, known: Permissions) -> Client:
        return self.wire.connect(SimpleNamespace(permissions=known))

    def is_left(self, data: bytes, client: Client | None = None) -> bool:
        """Send a request; return whether it was left to Python, which then answers nothing."""
        before = len(self.wire.slow)
        (client or self.connect(self.known)).send(data)
        return len(self.wire.slow) > before


@pytest.fixture
def guarded(wire: Wire) -> Guarded:
    return Guarded(wire)


def list_offsets() -> bytes:
    partition = {"partition_index": 0, "timestamp": -1}
    body = {"replica_id": -1, "topics": [{"name": "topic", "partitions": [partition]}]}
    return request(LIST_OFFSETS, 6, body)


CASES: list[tuple[str, bytes, int]] = [
    *((f"produce v{version}", produce(version, (0, BATCH)), WRITE) for version in (3, 9, 13)),
    *((f"fetch v{version}", fetch(version, (0, 0)), READ) for version in (4, 12, 18)),
    ("list offsets", list_offsets(), DESCRIBE),
]


@pytest.mark.parametrize(("data", "bits"), [each[1:] for each in CASES], ids=[c[0] for c in CASES])
def test_a_request_is_served_when_it_is_known_to_be_allowed(
    guarded: Guarded, data: bytes, bits: int
) -> None:
    assert guarded.is_left(data)
    guarded.known.allow("topic", (READ | WRITE | DESCRIBE) & ~bits)
    assert guarded.is_left(data)

    guarded.known.allow("topic", bits)
    assert not guarded.is_left(data)

    guarded.epoch.advance()
    assert guarded.is_left(data)


@pytest.mark.parametrize(("data", "bits"), [each[1:] for each in CASES], ids=[c[0] for c in CASES])
def test_a_super_user_is_served(guarded: Guarded, data: bytes, bits: int) -> None:
    del bits
    everything = Permissions(guarded.epoch, guarded.wire.table, is_unlimited=True)

    assert not guarded.is_left(data, guarded.connect(everything))


def test_a_login_changes_what_a_connection_may_do(guarded: Guarded) -> None:
    guarded.known.allow("topic", WRITE)
    session: Any = SimpleNamespace(permissions=Permissions(guarded.epoch, guarded.wire.table))
    client = guarded.wire.connect(session)

    session.permissions = guarded.known

    assert not guarded.is_left(produce(9, (0, BATCH)), client)


def test_a_transaction_needs_its_id_too(guarded: Guarded) -> None:
    guarded.wire.log().admit_transaction(PRODUCER, 1)
    batch = records(producer_id=PRODUCER, producer_epoch=1, base_sequence=0, is_transactional=True)
    data = produce(9, (0, batch), transactional_id="x")
    guarded.known.allow("topic", WRITE)
    assert guarded.is_left(data)
    guarded.known.allow_transaction("y")
    assert guarded.is_left(data)

    guarded.known.allow_transaction("x")
    assert not guarded.is_left(data)

    guarded.epoch.advance()
    guarded.known.allow("topic", WRITE)
    assert guarded.is_left(data)


def test_a_fetch_session_is_looked_at_again_after_a_change(guarded: Guarded) -> None:
    guarded.known.allow("topic", READ)
    session = guarded.client.ask(fetch(12, (0, 0), (1, 0), session_epoch=0))["session_id"]
    assert session > 0
    assert changed(guarded.client.ask(incremental(session, 1))) == []

    guarded.epoch.advance()
    assert guarded.is_left(incremental(session, 2))

    guarded.known.allow("topic", READ)
    assert changed(guarded.client.ask(incremental(session, 2))) == []


@pytest.mark.parametrize("may_read", [False, True])
def test_a_fetch_session_is_not_for_another_client(guarded: Guarded, may_read: bool) -> None:
    guarded.known.allow("topic", READ)
    session = guarded.client.ask(fetch(12, (0, 0), session_epoch=0))["session_id"]
    known = Permissions(guarded.epoch, guarded.wire.table)
    if may_read:
        known.allow("topic", READ)
    other = guarded.connect(known)

    assert other.ask(incremental(session, 1))["error_code"] == FETCH_SESSION_ID_NOT_FOUND
    if may_read:
        for epoch in (-1, 0):  # which end a session, and begin another one in its place
            ending = fetch(12, (0, 0), session_id=session, session_epoch=epoch)
            assert other.ask(ending)["error_code"] == 0

    assert guarded.client.ask(incremental(session, 1))["error_code"] == 0


def test_a_replica_needs_the_action_of_a_broker(guarded: Guarded) -> None:
    guarded.wire.table.brokers = {2: 1}
    guarded.known.allow("topic", READ)
    data = fetch(17, (0, 0), session_epoch=0, replica_state={"replica_id": 2, "replica_epoch": 1})
    assert guarded.is_left(data)

    guarded.known.allow_copies()
    assert not guarded.is_left(data)

    guarded.epoch.advance()
    assert guarded.is_left(data)
