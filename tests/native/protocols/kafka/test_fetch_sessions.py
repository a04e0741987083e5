"""Incremental fetch sessions (KIP-227) on the native path of a Fetch."""

from random import Random

import pytest

from broker._native.log.partition_log import PartitionLog
from tests.support.native_log import Logs, placed, records
from tests.support.native_wire import (
    FETCH,
    Client,
    Wire,
    base_offset,
    changed,
    fetch,
    incremental,
    partition,
    produce,
    response,
    session_of,
)

BATCH = records(2)
LONG_MS = 600_000  # longer than a test waits


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_epoch_0_begins_a_session_with_a_full_response(client: Client, version: int) -> None:
    body = client.ask(fetch(version, (0, 0), (1, 0), session_epoch=0))

    assert body["session_id"] > 0
    assert changed(body) == [0, 1]
    assert len(client.wire.sessions) == 1


def test_an_incremental_fetch_returns_only_what_has_changed(client: Client) -> None:
    session = session_of(client, (0, 0), (1, 0), (2, 0))

    assert changed(client.ask(incremental(session, 1))) == []
    base_offset(client, produce(9, (1, BATCH)))
    body = client.ask(incremental(session, 2))
    assert changed(body) == [1]
    assert partition(body)["records"] == placed(BATCH, 0)
    assert changed(client.ask(incremental(session, 3, (1, 2)))) == []


def test_records_that_the_client_did_not_read_past_are_returned_again(client: Client) -> None:
    session = session_of(client, (0, 0))
    base_offset(client, produce(9, (0, BATCH)))

    for epoch in (1, 2, 3):
        body = client.ask(incremental(session, epoch))
        assert partition(body)["records"] == placed(BATCH, 0)


def test_an_error_is_in_every_response_until_it_is_resolved(client: Client) -> None:
    session = session_of(client, (0, 99), (1, 0))

    for epoch in (1, 2):
        body = client.ask(incremental(session, epoch))
        assert changed(body) == [0]
        assert partition(body)["error_code"] == 1
    assert changed(client.ask(incremental(session, 3, (0, 0)))) == []


def test_a_partition_added_to_a_topic_can_join_a_session(client: Client) -> None:
    session = session_of(client, (0, 0))
    entry = client.wire.table.find("topic")
    assert entry is not None
    more = client.wire.logs.create(len(entry.logs))

    client.wire.serve(*entry.logs, more)
    for number in (0, more.partition):
        base_offset(client, produce(9, (number, BATCH)))

    body = client.ask(incremental(session, 1, (more.partition, 0)))
    assert changed(body) == [0, more.partition]
    assert len(body["responses"]) == 1  # one topic


def test_partitions_are_added_to_and_removed_from_a_session(client: Client) -> None:
    session = session_of(client, (0, 0), (1, 0))
    for number in range(3):
        base_offset(client, produce(9, (number, BATCH)))

    assert changed(client.ask(incremental(session, 1, (2, 0), forgotten=(0,)))) == [1, 2]
    assert changed(client.ask(incremental(session, 2, forgotten=(1, 2)))) == []


def test_an_incremental_fetch_waits_and_is_woken(client: Client, wire: Wire) -> None:
    session = session_of(client, (0, 0), (1, 0))
    client.send(fetch(11, session_id=session, session_epoch=1, max_wait_ms=LONG_MS, min_bytes=1))
    assert client.frames() == []

    base_offset(wire.connect(), produce(9, (1, BATCH)))

    assert changed(response(FETCH, 11, client.frame())[1]) == [1]


def test_a_session_can_continue_on_another_connection(client: Client, wire: Wire) -> None:
    session = session_of(client, (0, 0))
    client.close()
    base_offset(wire.connect(), produce(9, (0, BATCH)))

    assert changed(wire.connect().ask(incremental(session, 1))) == [0]


@pytest.mark.parametrize("epoch", [2, 5, -2])
def test_a_wrong_epoch_is_refused_and_the_session_stays(client: Client, epoch: int) -> None:
    session = session_of(client, (0, 0))

    body = client.ask(incremental(session, epoch))

    assert (body["error_code"], body["session_id"], body["responses"]) == (71, 0, [])
    assert changed(client.ask(incremental(session, 1))) == []


def test_an_epoch_is_valid_once(client: Client) -> None:
    session = session_of(client, (0, 0))
    client.ask(incremental(session, 1))

    assert client.ask(incremental(session, 1))["error_code"] == 71


@pytest.mark.parametrize("session", [0, 1, -5])
def test_an_unknown_session_is_refused(client: Client, session: int) -> None:
    known = session_of(client, (0, 0))

    assert session != known
    assert client.ask(incremental(session, 1))["error_code"] == 70


def test_epoch_minus_1_ends_the_session_with_a_full_response(client: Client) -> None:
    session = session_of(client, (0, 0))

    body = client.ask(incremental(session, -1, (0, 0), (1, 0)))

    assert changed(body) == [0, 1]
    assert body["session_id"] == 0
    assert len(client.wire.sessions) == 0
    assert client.ask(incremental(session, 1))["error_code"] == 70


def test_a_new_session_ends_the_one_named_in_its_request(client: Client) -> None:
    session = session_of(client, (0, 0))

    body = client.ask(fetch(11, (1, 0), session_id=session, session_epoch=0))

    assert body["session_id"] not in {0, session}
    assert len(client.wire.sessions) == 1


def test_a_session_of_names_is_not_continued_with_ids(client: Client) -> None:
    session = session_of(client, (0, 0))

    assert client.ask(fetch(13, session_id=session, session_epoch=1))["error_code"] == 106


def test_the_number_of_sessions_is_limited_and_clients_without_one_still_read(
    client: Client,
) -> None:
    sessions = [session_of(client, (0, 0)) for _ in range(4)]

    assert [session > 0 for session in sessions] == [True, True, True, False]
    assert len(client.wire.sessions) == 3


def test_an_address_that_has_all_sessions_gives_up_the_oldest_for_another_address(
    client: Client, wire: Wire
) -> None:
    mine = [session_of(client, (0, 0)) for _ in range(3)]
    waits = wire.connect()
    waits.send(fetch(11, session_id=mine[0], session_epoch=1, max_wait_ms=LONG_MS))
    assert [changed(client.ask(incremental(mine[at], 1))) for at in (1, 2)] == [[], []]
    other = wire.connect(host="there")

    theirs = session_of(other, (0, 0))

    assert theirs > 0
    assert session_of(other, (0, 0)) == 0  # both have their share
    ended = response(FETCH, 11, waits.frame())[1]
    assert (ended["session_id"], ended["error_code"], ended["responses"]) == (0, 0, [])
    assert client.ask(incremental(mine[0], 2))["error_code"] == 70
    assert [changed(client.ask(incremental(mine[at], 2))) for at in (1, 2)] == [[], []]
    assert session_of(client, (0, 0)) == 0
    assert changed(other.ask(incremental(theirs, 1))) == []
    assert len(wire.sessions) == 3


def test_of_many_addresses_the_one_with_most_gives_up_what_it_used_least_recently(
    client: Client, logs: Logs, choices: Random
) -> None:
    wire = Wire(logs, sessions_max=6)
    wire.serve(client.wire.log())
    clients = {host: wire.connect(host=host) for host in ("a", "b", "c", "d")}
    expected: dict[str, list[int]] = {}  # in the order of use
    epochs: dict[int, int] = {}

    def use(host: str, session: int) -> None:
        expected[host].remove(session)
        expected[host].append(session)
        body = clients[host].ask(incremental(session, epochs[session]))
        assert body["error_code"] == 0
        epochs[session] += 1

    for _ in range(200):
        host = choices.choice([*clients])
        if expected.get(host) and choices.random() < 0.5:
            use(host, choices.choice(expected[host]))
            continue
        session = session_of(clients[host], (0, 0))
        if sum(map(len, expected.values())) == 6:
            heaviest = max(expected, key=lambda each: len(expected[each]))
            is_taken = len(expected[heaviest]) > len(expected.get(host, ())) + 1
            assert (session > 0) == is_taken
            if not is_taken:
                continue
            lost = expected[heaviest].pop(0)
            assert clients[heaviest].ask(incremental(lost, epochs[lost]))["error_code"] == 70
        expected.setdefault(host, []).append(session)
        epochs[session] = 1
    for host, sessions in expected.items():
        for session in [*sessions]:
            use(host, session)
    assert len(wire.sessions) == 6
    wire.close()


def test_an_address_whose_sessions_hold_all_partitions_gives_up_some_for_another_address(
    logs: Logs, log: PartitionLog
) -> None:
    wire = Wire(logs, fetch_partitions_max=3)
    wire.serve(log, *(logs.create(number) for number in range(1, 4)))
    whole = [(number, 0) for number in range(4)]
    mine = session_of(wire.connect(), *whole)
    assert session_of(wire.connect(), (0, 0)) == 0
    other = wire.connect(host="there")

    assert session_of(other, *whole) == 0  # it would have as many
    assert session_of(other, (0, 0)) > 0

    assert wire.connect().ask(incremental(mine, 1))["error_code"] == 70
    wire.close()


def test_an_idle_session_is_evicted_for_a_new_one(logs: Logs) -> None:
    wire = Wire(logs, sessions_max=1, session_idle_ms=0)
    wire.serve(logs.create(is_group_commit=False))
    client = wire.connect()
    first = session_of(client, (0, 0))

    second = session_of(client, (0, 0))

    assert len(wire.sessions) == 1
    assert client.ask(incremental(first, 1))["error_code"] == 70
    assert changed(client.ask(incremental(second, 1))) == []
    wire.close()


def test_the_partitions_held_by_fetches_are_limited(logs: Logs, log: PartitionLog) -> None:
    wire = Wire(logs, fetch_partitions_max=3)
    wire.serve(log, *(logs.create(number) for number in range(1, 4)))
    clients = [wire.connect() for _ in range(3)]
    whole = [(number, 0) for number in range(4)]

    session = session_of(clients[0], *whole)
    assert wire.sessions.partitions == 4
    assert session_of(clients[1], (0, 0)) == 0  # no more sessions
    assert changed(clients[2].ask(fetch(11, *whole, max_wait_ms=LONG_MS))) == [0, 1, 2, 3]
    assert clients[0].ask(incremental(session, 1, (0, 1)))["error_code"] == 70

    assert wire.sessions.partitions == 0
    clients[2].send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
    assert clients[2].frames() == []
    wire.close()


def test_idle_sessions_are_evicted_for_the_partitions_of_others(logs: Logs) -> None:
    wire = Wire(logs, session_idle_ms=0, fetch_partitions_max=0)
    wire.serve(logs.create(is_group_commit=False))
    client = wire.connect()

    sessions = [session_of(client, (0, 0)) for _ in range(3)]

    assert all(sessions)
    assert len(wire.sessions) == wire.sessions.partitions == 1
    wire.close()


def test_session_ids_of_two_broker_starts_differ(logs: Logs, client: Client) -> None:
    other = Wire(logs)
    other.serve(None)

    ids = {session_of(client, (0, 0)) for _ in range(3)}
    other.serve(client.wire.log())
    stale = session_of(other.connect(), (0, 0))

    assert stale not in ids
    other.close()


def test_a_session_with_a_deleted_partition_returns_the_error_and_ends(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    """A topic of the same name may be recreated, which only a full fetch finds."""
    session = session_of(client, (0, 0), (1, 0))

    log.retire()

    body = client.ask(incremental(session, 1))
    assert (changed(body), partition(body)["error_code"]) == ([0], 3)
    assert client.ask(incremental(session, 2))["error_code"] == 70
    assert len(wire.sessions) == 0
