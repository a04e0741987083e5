"""The native connections: frames in pieces, replies in order, long polls, and who hangs up when."""

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker.codec import schema
from tests.native_log import Logs, appended, batches, placed, records
from tests.native_wire import (
    API_VERSIONS,
    FETCH,
    FETCH_VERSIONS,
    FRAME_BYTES_MAX,
    PRODUCE,
    PRODUCE_VERSIONS,
    Client,
    Fields,
    Wire,
    fetch,
    produce,
    request,
    response,
)

COMMIT = CommitThread(1)  # one for all tests: what they sync, they wait for
BATCH = records(2)
ACKS_BYTES_MAX = 1 << 20  # as in socket_connection.pyx
LONG_MS = 600_000  # a wait that no test sees the end of
SHORT_MS = 20

each_produce_version = pytest.mark.parametrize("version", PRODUCE_VERSIONS)
each_fetch_version = pytest.mark.parametrize("version", FETCH_VERSIONS)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """One data directory."""
    return Logs(tmp_path, COMMIT)


@pytest.fixture
def log(logs: Logs) -> PartitionLog:
    """Partition 0; what is written is visible, without a sync."""
    return logs.create(is_group_commit=False)


@pytest.fixture
def wire(logs: Logs, log: PartitionLog) -> Iterator[Wire]:
    """A poller that serves that partition and two like it."""
    wire = Wire(logs)
    wire.serve(log, *(logs.create(number, is_group_commit=False) for number in (1, 2)))
    yield wire
    wire.close()


@pytest.fixture
def client(wire: Wire) -> Client:
    """One connection."""
    return wire.connect()


@pytest.fixture
def durable(logs: Logs) -> Iterator[Wire]:
    """A poller whose partition acknowledges what is synced."""
    wire = Wire(logs)
    wire.serve(logs.create(3))
    yield wire
    wire.close()


@pytest.fixture
def recording() -> Iterator[None]:
    """Let a test make file operations fail."""
    file_ops.start_recording()
    yield
    file_ops.stop_recording()


def partition(body: Fields, place: int = 0) -> Fields:
    """Return one partition of a response to a request for one topic."""
    (topic,) = body["responses"]
    partitions = topic.get("partitions") or topic.get("partition_responses")
    return partitions[place]


def base_offset(client: Client, data: bytes) -> int:
    """Send a Produce request; where its batch stands."""
    answer = partition(client.ask(data))
    assert answer["error_code"] == 0
    return int(answer["base_offset"])


# ---- Produce ----------------------------------------------------------------------------------


@each_produce_version
def test_a_produce_is_appended_and_answered(
    client: Client, log: PartitionLog, version: int
) -> None:
    log.append(BATCH)

    body = client.ask(produce(version, (0, BATCH), correlation_id=7))

    answer = partition(body)
    assert (answer["index"], answer["error_code"], answer["base_offset"]) == (0, 0, 2)
    assert answer["log_append_time_ms"] == -1
    assert answer["log_start_offset"] == (0 if version >= 5 else -1)
    assert log.read(2, 1000) == placed(BATCH, 2)
    assert not client.wire.slow


@each_produce_version
def test_a_produce_that_comes_byte_by_byte_is_served_once(
    client: Client, log: PartitionLog, version: int
) -> None:
    for byte in produce(version, (0, BATCH)):
        assert client.frames() == []
        client.send(bytes([byte]))

    assert partition(response(PRODUCE, version, client.frame())[1])["base_offset"] == 0
    assert log.log_end_offset == 2


@each_produce_version
def test_a_produce_cut_short_appends_nothing(wire: Wire, log: PartitionLog, version: int) -> None:
    data = produce(version, (0, BATCH))

    for size in range(len(data)):
        client = wire.connect()
        client.send(data[:size])
        assert client.frames() == []
        client.close()

    assert log.log_end_offset == 0
    assert wire.closed == ["closed by the peer"] * len(data)


@each_produce_version
def test_a_produce_body_cut_short_is_not_served_by_the_native_path(
    wire: Wire, log: PartitionLog, version: int
) -> None:
    data = produce(version, (0, BATCH))
    head = len(data) - len(schema.request(PRODUCE).encode(version, {"topic_data": []}))

    for size in range(18, len(data)):
        client = wire.connect()
        client.send((size - 4).to_bytes(4) + data[4:size])
        assert client.frames() == []

    assert head > 18
    assert log.log_end_offset == 0
    assert (
        len(wire.slow)
        + wire.closed.count("request with a key, version or header that is not served")
        == len(data) - 18
    )


def test_several_partitions_of_several_requests_are_answered_in_order(
    client: Client, logs: Logs
) -> None:
    data = b"".join(
        produce(9, (2, BATCH), (0, BATCH), correlation_id=number) for number in range(50)
    )

    client.send(data)

    answers = [response(PRODUCE, 9, frame) for frame in client.frames()]
    assert [correlation_id for correlation_id, _ in answers] == list(range(50))
    assert [partition(body, 1)["base_offset"] for _, body in answers] == list(range(0, 100, 2))
    assert [partition(body)["index"] for _, body in answers] == [2] * 50


def test_a_long_produce_arrives_in_many_pieces(client: Client, log: PartitionLog) -> None:
    large = records(1, size=1_000_000)
    data = b"".join(produce(9, (0, large), correlation_id=number) for number in range(3))

    for start in range(0, len(data), 77_777):
        client.send(data[start : start + 77_777])

    found = [response(PRODUCE, 9, frame)[0] for frame in client.frames()]
    assert found == [0, 1, 2]
    assert log.read(1, 1 << 21) == placed(large, 1) + placed(large, 2)


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_waits_until_its_batch_is_durable(durable: Wire, acks: int) -> None:
    client = durable.connect()

    client.send(produce(9, (0, BATCH), acks=acks))

    log = durable.log()
    assert client.frames() == [] or log.durable_end == 2
    assert partition(response(PRODUCE, 9, client.frame())[1])["base_offset"] == 0
    assert log.durable_end == 2


def test_a_produce_with_acks_0_is_never_answered(client: Client, log: PartitionLog) -> None:
    client.send(produce(9, (0, BATCH), acks=0))
    client.send(produce(9, (0, BATCH), correlation_id=5))

    assert response(PRODUCE, 9, client.frame())[0] == 5
    assert log.log_end_offset == 4


def test_replies_keep_their_order_while_a_sync_is_pending(durable: Wire) -> None:
    client = durable.connect()

    client.send(
        produce(9, (0, BATCH), correlation_id=1)
        + request(API_VERSIONS, 0, {}, correlation_id=2)
        + produce(9, (0, BATCH), correlation_id=3)
    )
    (pending,) = durable.slow
    pending.send(b"\0\0\0\0\0\0")

    frames = client.wait_frames(3)
    assert [int.from_bytes(frame[4:8]) for frame in frames] == [1, 2, 3]


def test_a_repeated_batch_is_answered_when_its_original_is_durable(durable: Wire) -> None:
    client = durable.connect()
    batch = records(2, producer_id=1, producer_epoch=0, base_sequence=0)

    client.send(produce(9, (0, batch)) + produce(9, (0, batch)))

    frames = client.wait_frames(2)
    answers = [partition(response(PRODUCE, 9, frame)[1]) for frame in frames]
    assert [answer["base_offset"] for answer in answers] == [0, 0]


@each_produce_version
def test_a_failed_sync_is_answered_with_storage_error(
    durable: Wire, recording: None, version: int
) -> None:
    client = durable.connect()
    file_ops.fail("sync_data", ".log", errno.EIO)

    answer = partition(client.ask(produce(version, (0, BATCH))))

    assert answer["error_code"] == 56
    assert answer["base_offset"] == answer["log_start_offset"] == -1


def test_acks_0_to_a_failing_disk_closes_the_connection(client: Client, recording: None) -> None:
    file_ops.fail("write", ".log", errno.ENOSPC)

    client.send(produce(9, (0, records(1, size=10_000)), acks=0))

    assert client.is_closed


@pytest.mark.parametrize(
    "data",
    [
        produce(9, (7, BATCH)),
        produce(9, (0, None)),
        produce(9, (0, BATCH[:-1])),
        produce(9, (0, BATCH), (0, BATCH)),
        produce(9, (0, BATCH), acks=2),
        request(PRODUCE, 9, {"acks": 1, "transactional_id": "t"}),
        produce(2, (0, BATCH)),
    ],
    ids=["partition", "null", "batch", "twice", "acks", "transactional", "old"],
)
def test_what_is_odd_goes_to_python_and_changes_nothing(
    client: Client, log: PartitionLog, data: bytes
) -> None:
    client.send(data)

    (pending,) = client.wire.slow
    assert pending.body == data[-len(pending.body) :]
    assert (pending.api_key, pending.client_id) == (PRODUCE, "test")
    assert log.log_end_offset == 0


# ---- Fetch ------------------------------------------------------------------------------------


@each_fetch_version
def test_a_fetch_returns_what_is_there(client: Client, log: PartitionLog, version: int) -> None:
    base_offset(client, produce(9, (0, BATCH)))
    base_offset(client, produce(9, (0, BATCH)))

    answer = partition(client.ask(fetch(version, (0, 1), isolation_level=version % 2)))

    assert answer["records"] == placed(BATCH, 0) + placed(BATCH, 2)
    assert (answer["error_code"], answer["high_watermark"]) == (0, 4)
    assert answer["last_stable_offset"] == 4
    assert answer["log_start_offset"] == (0 if version >= 5 else -1)
    assert answer["aborted_transactions"] == ([] if version % 2 else None)
    assert not client.wire.slow


@each_fetch_version
def test_a_fetch_that_comes_byte_by_byte_is_answered(client: Client, version: int) -> None:
    base_offset(client, produce(9, (0, BATCH)))

    for byte in fetch(version, (0, 0)):
        assert client.frames() == []
        client.send(bytes([byte]))

    assert partition(response(FETCH, version, client.frame())[1])["records"] == placed(BATCH, 0)


@each_fetch_version
def test_a_fetch_body_cut_short_is_not_served_by_the_native_path(wire: Wire, version: int) -> None:
    data = fetch(version, (0, 0), (1, 0), forgotten_topics_data=[])

    for size in range(18, len(data)):
        client = wire.connect()
        client.send((size - 4).to_bytes(4) + data[4:size])
        assert client.frames() == []

    assert len(wire.slow) + len(wire.closed) == len(data) - 18
    assert len(wire.sessions) == 0


@each_fetch_version
def test_long_runs_of_batches_arrive_whole(client: Client, log: PartitionLog, version: int) -> None:
    """Short runs are copied behind the head, long ones go by sendfile."""
    stored = []
    for size in (100, 20_000, 300_000, 5):
        data = records(1, size=size)
        stored.append(placed(data, base_offset(client, produce(9, (0, data)))))

    answer = partition(client.ask(fetch(version, (0, 0))))

    assert answer["records"] == b"".join(stored)


def test_the_first_partition_with_data_returns_a_batch_above_every_limit(
    client: Client, wire: Wire
) -> None:
    for number in (1, 2):
        base_offset(client, produce(9, (number, BATCH)))
    wanted = [
        {"partition": number, "fetch_offset": 0, "partition_max_bytes": 1} for number in range(3)
    ]

    body = client.ask(fetch(11, *wanted, max_bytes=1))

    found = [partition(body, place)["records"] for place in range(3)]
    assert found == [b"", placed(BATCH, 0), b""]


def test_the_total_limit_holds_over_the_partitions_in_the_requests_order(
    client: Client, wire: Wire
) -> None:
    for number in range(3):
        base_offset(client, produce(9, (number, BATCH)))

    body = client.ask(fetch(11, (2, 0), (0, 0), (1, 0), max_bytes=2 * len(BATCH)))

    found = [partition(body, place) for place in range(3)]
    assert [each["partition_index"] for each in found] == [2, 0, 1]
    assert [len(each["records"]) for each in found] == [len(BATCH), len(BATCH), 0]


def test_a_fetch_below_and_above_the_log_is_out_of_range(client: Client) -> None:
    base_offset(client, produce(9, (0, BATCH)))

    for offset in (-1, 3):
        answer = partition(client.ask(fetch(11, (0, offset), max_wait_ms=LONG_MS)))
        assert answer["error_code"] == 1
        assert answer["high_watermark"] == -1


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (2, 74), (3, 0), (4, 75)])
def test_a_fetch_with_another_leader_epoch_is_refused(
    client: Client, log: PartitionLog, epoch: int, error: int
) -> None:
    log.start_epoch(3)
    base_offset(client, produce(9, (0, BATCH)))
    wanted = {"partition": 0, "current_leader_epoch": epoch, "partition_max_bytes": 100}

    assert partition(client.ask(fetch(11, wanted)))["error_code"] == error


@pytest.mark.parametrize(("version", "error"), [(9, 76), (10, 0)])
@pytest.mark.parametrize("size", [100, 40_000])
def test_zstd_is_not_returned_to_a_client_that_cannot_know_it(
    client: Client, version: int, error: int, size: int
) -> None:
    """KIP-110."""
    compressed = records(1, size=size, codec=4)
    base_offset(client, produce(9, (0, BATCH)))
    base_offset(client, produce(9, (0, compressed)))

    answer = partition(client.ask(fetch(version, (0, 0))))

    assert answer["error_code"] == error
    assert len(answer["records"]) == (0 if error else len(BATCH) + len(compressed))


def test_a_reader_that_asks_about_diverging_epochs_is_answered_by_python(client: Client) -> None:
    wanted = {"partition": 0, "last_fetched_epoch": 0, "partition_max_bytes": 100}

    client.send(fetch(12, wanted))

    assert len(client.wire.slow) == 1


# ---- long polls -------------------------------------------------------------------------------


def test_nothing_is_left_to_do_once_a_deadline_has_passed(client: Client) -> None:
    body = client.ask(fetch(11, (0, 0), max_wait_ms=SHORT_MS))

    assert partition(body)["records"] == b""
    assert not client.wire.is_ready


def test_a_waiting_fetch_is_woken_by_an_append(client: Client, wire: Wire) -> None:
    client.send(fetch(11, (0, 0), (1, 0), max_wait_ms=LONG_MS))
    assert client.frames() == []

    base_offset(wire.connect(), produce(9, (1, BATCH)))

    body = response(FETCH, 11, client.frame())[1]
    assert partition(body, 1)["records"] == placed(BATCH, 0)


def test_a_waiting_fetch_waits_for_as_many_bytes_as_it_wants(client: Client, wire: Wire) -> None:
    client.send(fetch(11, (0, 0), (1, 0), max_wait_ms=LONG_MS, min_bytes=3 * len(BATCH)))
    other = wire.connect()

    base_offset(other, produce(9, (0, BATCH)))
    base_offset(other, produce(9, (1, BATCH)))
    assert client.frames() == []
    base_offset(other, produce(9, (0, BATCH)))

    body = response(FETCH, 11, client.frame())[1]
    found = [partition(body, place)["records"] for place in range(2)]
    assert found == [placed(BATCH, 0) + placed(BATCH, 2), placed(BATCH, 0)]


def test_a_waiting_fetch_counts_no_more_of_a_partition_than_it_asked_for(
    client: Client, wire: Wire
) -> None:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": len(BATCH)}
    client.send(fetch(11, wanted, max_wait_ms=LONG_MS, min_bytes=2 * len(BATCH)))

    base_offset(wire.connect(), produce(9, (0, records(1, size=5000))))

    assert client.frames() == []


def test_a_fetch_of_a_log_that_was_just_opened_is_answered_at_once(logs: Logs) -> None:
    log = logs.create(8, is_group_commit=False)
    appended(log, BATCH)
    recovery.close(log)
    wire = Wire(logs)
    wire.serve(logs.attach(2, partition=8))

    client = wire.connect()
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))

    assert len(client.frames()) == 1
    wire.close()


def test_min_bytes_0_never_waits(client: Client) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS, min_bytes=0))

    assert len(client.frames()) == 1


def test_a_fetch_of_nothing_does_not_wait(client: Client) -> None:
    client.send(fetch(11, max_wait_ms=LONG_MS))

    assert len(client.frames()) == 1


def test_an_error_does_not_wait(client: Client) -> None:
    client.send(fetch(11, (0, 0), (1, 99), max_wait_ms=LONG_MS))

    assert partition(response(FETCH, 11, client.frame())[1], 1)["error_code"] == 1


def test_a_waiting_fetch_holds_back_what_follows_on_its_connection_only(
    client: Client, wire: Wire
) -> None:
    client.send(
        fetch(11, (0, 0), max_wait_ms=LONG_MS, correlation_id=1)
        + produce(9, (1, BATCH), correlation_id=2)
    )
    other = wire.connect()

    assert base_offset(other, produce(9, (1, BATCH))) == 0
    assert client.frames() == []
    base_offset(other, produce(9, (0, BATCH)))

    frames = client.frames()
    assert [int.from_bytes(frame[4:8]) for frame in frames] == [1, 2]
    assert partition(response(PRODUCE, 9, frames[1])[1])["base_offset"] == 2


def test_a_deleted_partition_wakes_who_waits_for_it(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    for version, error in ((11, 3), (13, 100)):
        client.send(fetch(version, (0, 0), max_wait_ms=LONG_MS))
        log.retire()
        wire.run()

        answer = partition(response(FETCH, version, client.frame())[1])
        assert answer["error_code"] == error


def test_a_log_that_goes_offline_wakes_who_waits_for_it(
    client: Client, wire: Wire, recording: None
) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
    file_ops.fail("write", ".log", errno.ENOSPC)

    wire.connect().send(produce(9, (0, BATCH)))

    assert partition(response(FETCH, 11, client.frame())[1])["error_code"] == 56


def test_many_waiting_fetches_are_woken_by_one_append(wire: Wire) -> None:
    waiting = [wire.connect() for _ in range(100)]
    for client in waiting:
        client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))

    base_offset(wire.connect(), produce(9, (0, BATCH)))

    for client in waiting:
        body = response(FETCH, 11, client.frame())[1]
        assert partition(body)["records"] == placed(BATCH, 0)


# ---- sessions (KIP-227) -----------------------------------------------------------------------


def session_of(client: Client, *wanted: tuple[int, int], version: int = 11) -> int:
    """Begin a session; its id."""
    body = client.ask(fetch(version, *wanted, session_epoch=0))
    assert body["error_code"] == 0
    return int(body["session_id"])


def incremental(
    session: int, epoch: int, *wanted: tuple[int, int], forgotten: tuple[int, ...] = ()
) -> bytes:
    """Return a fetch within a session."""
    topics = [{"topic": "topic", "partitions": list(forgotten)}] if forgotten else []
    return fetch(11, *wanted, session_id=session, session_epoch=epoch, forgotten_topics_data=topics)


def changed(body: Fields) -> list[int]:
    """Return the partitions in a response."""
    assert body["error_code"] == 0
    return [each["partition_index"] for topic in body["responses"] for each in topic["partitions"]]


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_epoch_0_begins_a_session_with_a_full_answer(client: Client, version: int) -> None:
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


def test_what_was_not_read_on_is_offered_again(client: Client) -> None:
    session = session_of(client, (0, 0))
    base_offset(client, produce(9, (0, BATCH)))

    for epoch in (1, 2, 3):
        body = client.ask(incremental(session, epoch))
        assert partition(body)["records"] == placed(BATCH, 0)


def test_an_error_is_told_in_every_answer_until_it_is_mended(client: Client) -> None:
    session = session_of(client, (0, 99), (1, 0))

    for epoch in (1, 2):
        body = client.ask(incremental(session, epoch))
        assert changed(body) == [0]
        assert partition(body)["error_code"] == 1
    assert changed(client.ask(incremental(session, 3, (0, 0)))) == []


def test_partitions_come_and_go_within_a_session(client: Client) -> None:
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


def test_a_session_goes_on_on_another_connection(client: Client, wire: Wire) -> None:
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


def test_an_epoch_is_good_once(client: Client) -> None:
    session = session_of(client, (0, 0))
    client.ask(incremental(session, 1))

    assert client.ask(incremental(session, 1))["error_code"] == 71


@pytest.mark.parametrize("session", [0, 1, -5])
def test_an_unknown_session_is_refused(client: Client, session: int) -> None:
    known = session_of(client, (0, 0))

    assert session != known
    assert client.ask(incremental(session, 1))["error_code"] == 70


def test_epoch_minus_1_ends_the_session_with_a_full_answer(client: Client) -> None:
    session = session_of(client, (0, 0))

    body = client.ask(incremental(session, -1, (0, 0), (1, 0)))

    assert changed(body) == [0, 1]
    assert body["session_id"] == 0
    assert len(client.wire.sessions) == 0
    assert client.ask(incremental(session, 1))["error_code"] == 70


def test_a_new_session_ends_the_one_that_its_request_names(client: Client) -> None:
    session = session_of(client, (0, 0))

    body = client.ask(fetch(11, (1, 0), session_id=session, session_epoch=0))

    assert body["session_id"] not in {0, session}
    assert len(client.wire.sessions) == 1


def test_a_session_of_names_is_not_continued_with_ids(client: Client) -> None:
    session = session_of(client, (0, 0))

    assert client.ask(fetch(13, session_id=session, session_epoch=1))["error_code"] == 106


def test_sessions_are_bounded_and_who_gets_none_reads_on_without(client: Client) -> None:
    sessions = [session_of(client, (0, 0)) for _ in range(4)]

    assert [session > 0 for session in sessions] == [True, True, True, False]
    assert len(client.wire.sessions) == 3


def test_a_session_that_is_idle_for_too_long_makes_room(tmp_path: Path) -> None:
    logs = Logs(tmp_path, COMMIT)
    wire = Wire(logs, sessions_max=1, session_idle_ms=0)
    wire.serve(logs.create(is_group_commit=False))
    client = wire.connect()
    first = session_of(client, (0, 0))

    second = session_of(client, (0, 0))

    assert len(wire.sessions) == 1
    assert client.ask(incremental(first, 1))["error_code"] == 70
    assert changed(client.ask(incremental(second, 1))) == []
    wire.close()


def test_session_ids_of_two_broker_lives_differ(logs: Logs, client: Client) -> None:
    other = Wire(logs)
    other.serve(None)

    ids = {session_of(client, (0, 0)) for _ in range(3)}
    other.serve(client.wire.log())
    stale = session_of(other.connect(), (0, 0))

    assert stale not in ids
    other.close()


def test_a_session_that_knows_a_deleted_partition_says_so_and_ends(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    """A topic of the same name may come back, which only a full fetch finds."""
    session = session_of(client, (0, 0), (1, 0))

    log.retire()

    body = client.ask(incremental(session, 1))
    assert (changed(body), partition(body)["error_code"]) == ([0], 3)
    assert client.ask(incremental(session, 2))["error_code"] == 70
    assert len(wire.sessions) == 0


# ---- connections end --------------------------------------------------------------------------


def test_a_client_that_goes_while_its_fetch_waits_is_forgotten(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))

    client.close()
    appended(log, BATCH)
    wire.run()

    assert wire.closed == ["closed by the peer"]


def test_a_client_may_go_in_the_turn_that_wakes_its_fetch(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
    appended(log, BATCH)
    client.socket.close()

    wire.poller()  # the hang-up; the append becomes visible at the end of the same turn
    wire.run()

    assert wire.closed == ["reset by the peer"]


def test_a_deadline_may_pass_in_the_turn_that_wakes_a_fetch(durable: Wire) -> None:
    log = durable.log()
    clients = [durable.connect() for _ in range(20)]
    for client in clients:
        client.send(fetch(11, (0, 0), max_wait_ms=SHORT_MS))
    appended(log, BATCH)
    durable.poller.end()

    for client in clients:
        assert client.frame()


def test_a_client_that_goes_while_acknowledgements_are_pending_is_forgotten(durable: Wire) -> None:
    client = durable.connect()
    log = durable.log()
    client.socket.send(b"".join(produce(9, (0, BATCH)) for _ in range(100)))
    durable.poller()

    client.close()
    durable.logs.sync(log)
    durable.run()

    assert log.durable_end == log.log_end_offset > 0
    assert durable.closed == ["closed by the peer"]


def test_a_session_outlives_the_connection_that_waits_on_it(
    client: Client, wire: Wire, log: PartitionLog
) -> None:
    session = session_of(client, (0, 0))
    client.send(fetch(11, session_id=session, session_epoch=1, max_wait_ms=LONG_MS))
    client.close()

    appended(log, BATCH)
    wire.run()

    assert changed(wire.connect().ask(incremental(session, 2))) == [0]


def test_a_session_that_is_ended_from_elsewhere_while_it_waits_is_answered(
    client: Client, wire: Wire
) -> None:
    session = session_of(client, (0, 0))
    client.send(fetch(11, session_id=session, session_epoch=1, max_wait_ms=2 * SHORT_MS))

    wire.connect().ask(incremental(session, -1, (0, 0)))

    assert changed(response(FETCH, 11, client.frame())[1]) == []


def test_the_poller_may_close_with_everything_under_way(logs: Logs) -> None:
    wire = Wire(logs)
    log = logs.create(9)
    wire.serve(log)
    for _ in range(5):
        wire.connect().send(fetch(11, (0, 0), max_wait_ms=LONG_MS))
        wire.connect().send(produce(9, (0, BATCH)))
        wire.connect().send(request(API_VERSIONS, 0, {}))
        wire.connect().send(b"\0\0\1")

    wire.close()
    logs.sync(log)
    for pending in wire.slow:
        pending.send(b"")


def test_a_poller_may_be_dropped_with_everything_under_way(logs: Logs) -> None:
    log = logs.create(9)
    wire = Wire(logs)
    wire.serve(log)
    wire.connect().socket.send(produce(9, (0, BATCH)))
    wire.poller()

    for client in wire.clients:
        client.socket.close()
    logs.turn.schedule = None
    del wire, client

    logs.sync(log)
    assert log.durable_end == 2


# ---- frames -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [-1, 0, 9, FRAME_BYTES_MAX + 1, 2**31 - 1, -(2**31)])
def test_a_frame_of_an_impossible_size_closes_the_connection(client: Client, size: int) -> None:
    client.send(produce(9, (0, BATCH)))
    client.frames()

    client.send((size & 0xFFFFFFFF).to_bytes(4) + bytes(20))

    assert client.is_closed


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\xff" * 8]
)
def test_what_is_no_kafka_is_closed(client: Client, data: bytes) -> None:
    client.send(data)

    assert client.is_closed


@pytest.mark.parametrize(("key", "version"), [(3, 0), (127, 0), (PRODUCE, 14), (FETCH, -1)])
def test_a_key_or_version_that_is_not_served_closes_the_connection(
    client: Client, key: int, version: int
) -> None:
    client.send(produce(9, (0, BATCH)))
    client.frames()
    data = bytearray(fetch(11, (0, 0)))
    data[4:8] = key.to_bytes(2) + version.to_bytes(2, signed=True)

    client.send(bytes(data))

    assert client.is_closed


def test_any_version_of_api_versions_is_handed_on(client: Client) -> None:
    data = bytearray(request(API_VERSIONS, 3, {}))
    data[6:8] = (99).to_bytes(2)

    client.send(bytes(data))

    (pending,) = client.wire.slow
    assert pending.api_version == 99


def test_a_header_of_too_many_tagged_fields_closes_the_connection(client: Client) -> None:
    data = produce(9, (0, BATCH))
    tags = bytes([65]) + b"\x01\x00" * 65
    data = (len(data) - 4 + len(tags) - 1).to_bytes(4) + data[4:18] + tags + data[19:]

    client.send(data)

    assert client.is_closed


def test_unknown_tagged_fields_are_stepped_over(client: Client) -> None:
    data = produce(9, (0, BATCH))
    tags = b"\x02\x05\x03abc\x07\x00"
    data = (len(data) - 4 + len(tags) - 1).to_bytes(4) + data[4:18] + tags + data[19:]

    assert base_offset(client, data) == 0


# ---- requests that Python answers ---------------------------------------------------------------


def ask_slowly(client: Client, correlation_id: int = 0) -> None:
    """Send a request that Python answers."""
    client.send(request(API_VERSIONS, 0, {}, correlation_id))


def test_an_answer_of_any_size_goes_out_whole(client: Client) -> None:
    for size in (0, 1, 151, 152, 153, 5000, 300_000):
        ask_slowly(client, size)
        client.wire.slow.pop().send(b"x" * size)

        frame = client.frame()
        assert (len(frame), frame[8:]) == (size + 8, b"x" * size)


@pytest.mark.parametrize("large_answers", [0, 8])
def test_a_connection_has_a_bounded_number_of_acknowledgements_pending(
    logs: Logs, large_answers: int
) -> None:
    """Replies that wait for a sync are bounded by their bytes; more requests wait in the socket."""
    wire = Wire(logs)
    wire.serve(*(logs.create(10 + number) for number in range(20)))
    client = wire.connect()
    for _ in range(large_answers):
        ask_slowly(client)
        wire.slow.pop().send(b"x" * 1_000_000)
        client.frame()
    unwatched = CommitThread(1)
    logs.turn.commit = unwatched  # nobody takes what it has finished: nothing becomes durable

    data = produce(9, *((number, BATCH) for number in range(20))) * 100
    for _ in range(50):
        try:
            assert client.socket.send(data) == len(data)  # else the socket is full
        except (BlockingIOError, AssertionError):
            break
        wire.run()

    reply_bytes = 20 * (4 + 2 + 8 + 8 + 8 + 1 + 1 + 1) + 23
    requests = wire.log().log_end_offset // 2
    assert requests == ACKS_BYTES_MAX // reply_bytes + 1
    wire.close()


def test_an_answer_of_none_is_no_answer(client: Client) -> None:
    ask_slowly(client, 1)
    client.wire.slow.pop().send(None)
    ask_slowly(client, 2)
    client.wire.slow.pop().send(b"!")

    assert int.from_bytes(client.frame()[4:8]) == 2


def test_a_request_is_answered_once(client: Client) -> None:
    ask_slowly(client)
    pending = client.wire.slow.pop()
    pending.send(b"")

    with pytest.raises(RuntimeError):
        pending.send(b"")
    with pytest.raises(RuntimeError):
        pending.close()


def test_a_request_may_be_answered_by_closing(client: Client) -> None:
    client.send(produce(9, (0, BATCH), correlation_id=1) + request(API_VERSIONS, 0, {}))
    client.wire.slow.pop().close()
    client.wire.run()

    assert int.from_bytes(client.frame()[4:8]) == 1
    assert client.is_closed


def test_a_request_that_is_dropped_unanswered_closes_its_connection(client: Client) -> None:
    ask_slowly(client)

    client.wire.slow.clear()
    client.wire.run()

    assert client.is_closed


def test_an_answer_after_the_end_of_its_connection_goes_nowhere(client: Client) -> None:
    ask_slowly(client)
    client.close()

    client.wire.slow.pop().send(b"late")
    client.wire.run()

    assert client.wire.closed == ["closed by the peer"]


def test_the_next_request_waits_for_the_answer_of_the_one_before(client: Client) -> None:
    client.send(request(API_VERSIONS, 0, {}) * 3 + produce(9, (0, BATCH)))

    for _ in range(3):
        (pending,) = client.wire.slow
        client.wire.slow.clear()
        pending.send(b"")
        client.wire.run()

    assert len(client.frames()) == 4


def test_a_large_frame_that_waits_its_turn_is_served_whole(
    client: Client, log: PartitionLog
) -> None:
    large = records(1, size=200_000)
    data = request(API_VERSIONS, 0, {}) + produce(9, (0, large)) * 3
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)

    sent = 0
    while sent < len(data):
        try:
            sent += client.socket.send(data[sent:])
        except BlockingIOError:
            break
        client.wire.run()
    client.wire.slow.pop().send(b"")
    client.wire.run()
    client.send(data[sent:])

    assert len(client.frames()) == 4
    assert len(batches(log.read(0, 1 << 20))) == 3
