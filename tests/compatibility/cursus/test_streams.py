"""Cursus's STREAM: frames, keepalives, and every way in which a stream ends."""

import re
import resource
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from broker.codec import encode
from tests.compatibility.cursus.streams import JavaConsumer, PythonConsumer, StreamingConsumer
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch
from tests.support.segment_files import restore_batch
from tests.support.wire_client import WireClient

StartBroker = Callable[..., BrokerProcess]
KEEPALIVE_S_MAX = 2.0
SIGNS_OF_LIFE_MAX = 10
CLOSE = "STREAM_CONTROL type=CLOSE reason={} offset={}"
FRAME_MAX = 16 << 20  # what the clients read
MANY = 1000
IDLE_STREAMS = 1000


@pytest.fixture
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of four partitions."""
    return cursus_topic(4)


@pytest.fixture
def other(broker: Broker) -> Iterator[CursusClient]:
    """A second connection."""
    with CursusClient(broker.address) as client:
        yield client


def publish(client: CursusClient, topic: str, *payloads: bytes, partition: int = 0) -> None:
    """Write acknowledged records."""
    body = batch(topic, partition, [Message(each) for each in payloads])
    assert b'"status":"OK"' in client.answer(body)


def next_frame(client: CursusClient) -> bytes:
    """Return the next frame that is not a keepalive; it must come within a few frames."""
    for _ in range(SIGNS_OF_LIFE_MAX):
        frame = client.frame()
        assert frame is not None, "the broker has closed the connection"
        if frame:
            return frame
    raise AssertionError("only keepalives")


def next_batch(client: CursusClient, *, is_original: bool = False) -> list[Message]:
    """The records of the next frame."""
    return read_batch(next_frame(client), is_original=is_original).messages


def next_text(client: CursusClient) -> str:
    """The next frame as text."""
    return next_frame(client).decode()


def payloads(messages: list[Message]) -> list[bytes]:
    return [each.payload for each in messages]


# ---- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [str, envelope])
def test_a_stream_sends_existing_records_and_then_new_ones(
    cursus: CursusClient, other: CursusClient, topic: str, wrapped: Callable[[str], str | bytes]
) -> None:
    message = Message(b"hi", 1, b"p", b"k", 5, b"made", 3, 4, b"{}")
    other.answer(batch(topic, 0, [message, message._replace(seq=2)]))

    cursus.send(wrapped(f"STREAM topic={topic} partition=0 group=g"))
    first = cursus.frame()
    publish(other, topic, b"later")

    assert first is not None
    found = read_batch(first)
    assert (found.topic, found.partition, found.acks) == (topic.encode(), 0, b"1")
    assert (found.seq_start, found.seq_end) == (1, 2)
    assert found.messages == [message, message._replace(seq=2, offset=1)]
    assert next_batch(cursus) == [Message(b"later", offset=2)]


def test_the_positional_form_is_answered_in_the_documented_layout(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    publish(other, topic, b"a", b"b", partition=2)

    cursus.send(f"STREAM {topic} 2 1")

    assert payloads(next_batch(cursus, is_original=True)) == [b"b"]


def test_offset_minus_one_in_the_positional_form_starts_at_the_end(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    publish(other, topic, b"a")
    cursus.send(f"STREAM {topic} 0 -1")
    wait_until_streaming(cursus)

    publish(other, topic, b"b")

    assert payloads(next_batch(cursus, is_original=True)) == [b"b"]


def wait_until_streaming(client: CursusClient) -> None:
    """Wait until the broker streams: an idle stream sends nothing at first."""
    host, port = client.socket.getpeername()
    with CursusClient(f"{host}:{port}") as later:
        for _ in range(2):  # requests on the first connection are served earlier
            later.ask("LIST")


@pytest.mark.parametrize(
    ("asked", "offsets"),
    [
        ("", [2, 3]),
        ("offset=1", [2, 3]),
        ("offset=3", [3]),
        ("autoOffsetReset=latest", [2, 3]),
    ],
)
def test_a_stream_starts_at_the_higher_of_the_requested_and_the_committed_offset(
    cursus: CursusClient, other: CursusClient, topic: str, asked: str, offsets: list[int]
) -> None:
    publish(other, topic, b"a", b"b", b"c", b"d")
    group = uuid.uuid4().hex
    other.ask(f"JOIN_GROUP topic={topic} group={group} member=m")
    assert other.ask(f"COMMIT {topic} {group} 0 2") == "OK"

    cursus.send(f"STREAM topic={topic} partition=0 group={group} {asked}")

    assert [each.offset for each in next_batch(cursus)] == offsets


def test_a_stream_without_an_offset_starts_at_the_end_if_auto_offset_reset_says_so(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    publish(other, topic, b"a")
    cursus.send(f"STREAM topic={topic} partition=0 group=new autoOffsetReset=latest")
    wait_until_streaming(cursus)

    publish(other, topic, b"b")

    assert payloads(next_batch(cursus)) == [b"b"]


def test_a_frame_has_at_most_as_many_records_as_requested(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    publish(other, topic, *(b"%d" % number for number in range(5)))

    cursus.send(f"STREAM topic={topic} partition=0 group=g batch=2")

    assert [len(next_batch(cursus)) for _ in range(3)] == [2, 2, 1]


def test_a_backlog_larger_than_any_frame_is_streamed_whole(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    count = 20
    for number in range(count):
        publish(other, topic, b"%d" % number + bytes(1_000_000))

    cursus.send(f"STREAM topic={topic} partition=0 group=g")
    offsets: list[int] = []
    while len(offsets) < count:
        frame = cursus.frame()
        assert frame is not None
        assert len(frame) < FRAME_MAX
        offsets += [each.offset for each in read_batch(frame).messages] if frame else []

    assert offsets == list(range(count))


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("batch_max", [1, MANY])
def test_compressed_and_plain_batches_are_streamed_together(
    cursus: CursusClient,
    other: CursusClient,
    wire: WireClient,
    topic: str,
    compression: str,
    batch_max: int,
) -> None:
    publish(other, topic, b"before")
    rows = [(b"k", b"%d" % number) for number in range(3)]
    [body] = encode(rows, compression=compression, timestamp_ms=0)
    wire_requests.produce(wire, topic, body)
    publish(other, topic, b"behind")

    cursus.send(f"STREAM topic={topic} partition=0 group=g batch={batch_max}")
    found: list[Message] = []
    while len(found) < 5:
        found += next_batch(cursus)

    assert [each.offset for each in found] == [0, 1, 2, 3, 4]
    assert payloads(found) == [b"before", b"0", b"1", b"2", b"behind"]


def test_more_decompressed_records_than_the_unsent_limit_are_all_delivered(
    cursus: CursusClient, wire: WireClient, topic: str
) -> None:
    rows = [(None, b"%d" % number + bytes(10_000)) for number in range(600)]
    [body] = encode(rows, compression="zstd", timestamp_ms=0, batch_bytes_max=1 << 30)
    wire_requests.produce(wire, topic, body)

    cursus.send(f"STREAM topic={topic} partition=0 group=g")
    offsets: list[int] = []
    while len(offsets) < len(rows):
        offsets += [each.offset for each in next_batch(cursus)]

    assert offsets == list(range(len(rows)))


def test_a_batch_that_cannot_be_decompressed_is_skipped_and_logged(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    broker.expected_complaints.append("stream skipped records that it cannot send")
    broker.expected_complaints.append("segments are not those that the clean stop left")
    with CursusClient(broker.address) as client:
        client.ask("CREATE topic=t partitions=1")
        publish(client, "t", b"a")
    bomb = [(None, bytes(70 << 20))]
    [body] = encode(bomb, compression="zstd", timestamp_ms=0, batch_bytes_max=1 << 30)
    broker.stop()
    restore_batch(broker.data_dir / "t-0", body)
    broker.start()
    with CursusClient(broker.address) as client:
        publish(client, "t", b"b")

        client.send("STREAM topic=t partition=0 group=g")
        found: list[Message] = []
        while len(found) < 2:
            found += next_batch(client)

    assert [each.offset for each in found] == [0, 2]
    assert "stream skipped records that it cannot send" in broker.stderr()


# ---- keepalives ----------------------------------------------------------------------------------


def test_an_idle_stream_sends_keepalives(cursus: CursusClient, topic: str) -> None:
    cursus.send(f"STREAM topic={topic} partition=0 group=g")
    times = [time.monotonic()]

    for _ in range(2):
        assert cursus.frame() == b""
        times.append(time.monotonic())

    # The first may be delayed by the request; only a generous limit is checked.
    assert times[-1] - times[0] < 2 * KEEPALIVE_S_MAX + 1.5


def test_a_positional_stream_sends_no_keepalives(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    cursus.send(f"STREAM {topic} 0 0")
    other.send(f"STREAM topic={topic} partition=0 group=g")
    assert other.frame() == b""
    assert other.frame() == b""  # more than one interval has passed

    cursus.socket.settimeout(0.01)
    with pytest.raises(TimeoutError):
        cursus.socket.recv(1)


# ---- ends ----------------------------------------------------------------------------------------


def test_a_new_stream_of_a_group_replaces_the_previous_one(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    publish(other, topic, b"a", b"b")
    command = f"STREAM topic={topic} partition=0 group=g"
    cursus.send(command)
    assert len(next_batch(cursus)) == 2

    other.send(command)

    assert next_text(cursus) == CLOSE.format("replaced", 2)
    assert cursus.frame() is None
    assert len(next_batch(other)) == 2


def test_streams_of_other_groups_and_positional_streams_continue(
    broker: Broker, cursus: CursusClient, topic: str
) -> None:
    commands = [
        f"STREAM topic={topic} partition=0 group=g",
        f"STREAM topic={topic} partition=0 group=h",
        f"STREAM topic={topic} partition=1 group=g",
        f"STREAM {topic} 0 0",
        f"STREAM {topic} 0 0",
    ]
    clients = [CursusClient(broker.address) for _ in commands]
    try:
        for client, command in zip(clients, commands, strict=True):
            client.send(command)
        wait_until_streaming(clients[-1])
        publish(cursus, topic, b"a")
        publish(cursus, topic, b"a", partition=1)
        for client, command in zip(clients, commands, strict=True):
            found = next_batch(client, is_original="=" not in command)
            assert payloads(found) == [b"a"]
    finally:
        for client in clients:
            client.close()


def test_the_streams_of_a_deleted_topic_are_ended(
    broker: Broker, cursus: CursusClient, other: CursusClient
) -> None:
    name = f"gone-{uuid.uuid4().hex[:8]}"
    other.ask(f"CREATE topic={name} partitions=1")
    publish(other, name, b"a")
    cursus.send(f"STREAM topic={name} partition=0 group=g")
    next_batch(cursus)
    with CursusClient(broker.address) as positional:
        positional.send(f"STREAM {name} 0 0")
        next_batch(positional, is_original=True)

        assert other.ask(f"DELETE topic={name}") == f"OK topic={name} deleted=true"

        assert next_text(cursus) == CLOSE.format("removed", 1)
        assert cursus.frame() is None
        assert positional.frame() is None


def delete_records(address: str, topic: str, offset: int) -> None:
    """Move the log start."""
    with WireClient(address) as wire:
        partition = {"partition_index": 0, "offset": offset}
        wire.request(
            "DeleteRecords",
            1,
            {"topics": [{"name": topic, "partitions": [partition]}], "timeout_ms": 10_000},
        )


def test_a_stream_below_the_log_start_is_closed_with_the_first_available_offset(
    broker: Broker, cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    publish(other, topic, b"a", b"b", b"c")
    delete_records(broker.address, topic, 2)

    cursus.send(f"STREAM topic={topic} partition=0 group=g offset=1")

    assert next_text(cursus) == (
        f"{CLOSE.format('offset_out_of_range', 2)} requested=1 earliest=2 latest=3"
    )
    assert cursus.frame() is None
    other.send(f"STREAM {topic} 0 1")
    assert next_text(other) == "ERROR: OFFSET_OUT_OF_RANGE requested=1 earliest=2 latest=3"
    other.send(f"STREAM topic={topic} partition=0 group=g")
    assert payloads(next_batch(other)) == [b"c"]


def test_a_stopping_broker_ends_its_streams(start_broker: StartBroker) -> None:
    broker = start_broker()
    with CursusClient(broker.address) as client, CursusClient(broker.address) as positional:
        client.ask("CREATE topic=t partitions=1")
        publish(client, "t", b"a")
        client.send("STREAM topic=t partition=0 group=g")
        positional.send("STREAM t 0 0")
        next_batch(client)
        next_batch(positional, is_original=True)

        assert broker.stop() == 0

        assert next_text(client) == CLOSE.format("stopped", 1)
        assert client.frame() is None
        assert positional.frame() is None


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("STREAM topic={t} partition=0", "invalid_stream_syntax"),
        ("STREAM partition=0 group=g", "invalid_stream_syntax"),
        ("STREAM topic={t} partition=x group=g", "invalid_stream_syntax"),
        ("STREAM topic={t} partition=0 group=g isolation=x", "invalid_isolation isolation=x"),
        (
            "STREAM topic={t} partition=0 group=g autoOffsetReset=x",
            "invalid_auto_offset_reset value=x",
        ),
        (
            "STREAM topic={t} partition=0 group=g offset=-1",
            'command_failed reason="invalid offset value: -1"',
        ),
        (
            "STREAM topic={t} partition=9 group=g",
            "command_failed reason=\"partition 9 out of range for topic '{t}' (0-3)\"",
        ),
        (
            "STREAM topic=nope partition=0 group=g",
            "command_failed reason=\"topic 'nope' does not exist\"",
        ),
        ("STREAM {t} 0", 'unknown_command command="STREAM {t} 0"'),
    ],
)
def test_an_invalid_stream_is_refused_and_the_connection_stays_open(
    cursus: CursusClient, topic: str, command: str, error: str
) -> None:
    assert cursus.ask(command.format(t=topic)) == f"ERROR: {error.format(t=topic)}"
    assert cursus.ask(f"LIST topic={topic}").startswith("OK ")


def test_a_request_sent_during_a_stream_is_served_after_the_stream_ends(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    command = f"STREAM topic={topic} partition=0 group=g"
    here = member_of(other, topic, "m", "g")
    cursus.send(f"{command} {here}")
    cursus.send(f"LIST topic={topic}")
    assert cursus.frame() == b""  # of the stream

    other.ask(f"JOIN_GROUP topic={topic} group=g member=second")

    assert "GEN_MISMATCH" in next_text(cursus)
    assert next_text(cursus).startswith(f"OK topic={topic}")


def test_the_stream_of_a_disconnected_peer_is_removed(
    broker: Broker, cursus: CursusClient, topic: str
) -> None:
    before = open_sockets(broker)
    clients = [CursusClient(broker.address) for _ in range(3)]
    clients[0].send(f"STREAM topic={topic} partition=0 group=g")
    clients[1].send(f"STREAM {topic} 0 0")
    clients[2].send(f"STREAM {topic} 0 0")
    wait_until_streaming(cursus)
    for client in clients:
        client.close()

    wait_until(lambda: open_sockets(broker) <= before, "the connections are closed")


def open_sockets(broker: Broker) -> int:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("another broker's descriptors are not ours to see")
    return broker.open_files()


# ---- groups --------------------------------------------------------------------------------------


def member_of(client: CursusClient, topic: str, name: str, group: str) -> str:
    """Join; return the member's arguments for a command."""
    answer = client.ask(f"JOIN_GROUP topic={topic} group={group} member={name}")
    found = re.match(r"OK generation=(\d+) member=(\S+) ", answer)
    assert found, answer
    return f"generation={found[1]} member={found[2]}"


def test_a_rebalance_is_announced_on_the_streams_of_the_members(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    group = uuid.uuid4().hex
    here = member_of(other, topic, "m", group)
    cursus.send(f"STREAM topic={topic} partition=0 group={group} {here}")
    wait_until_streaming(cursus)

    member_of(other, topic, "second", group)

    member = here.split("member=")[1]
    assert next_text(cursus) == (
        f"ERROR: GEN_MISMATCH current=2 requested=1 group={group} member={member}"
        " reason=REBALANCE_REQUIRED"
    )
    # The connection serves the next stream on it.
    here = member_of(other, topic, "m", group)
    publish(other, topic, b"a")
    cursus.send(f"STREAM topic={topic} partition=0 group={group} {here}")
    assert payloads(next_batch(cursus)) == [b"a"]


def test_a_stream_with_an_old_generation_is_refused(cursus: CursusClient, topic: str) -> None:
    group = uuid.uuid4().hex
    old = member_of(cursus, topic, "m", group)
    member_of(cursus, topic, "second", group)

    answer = cursus.ask(f"STREAM topic={topic} partition=0 group={group} {old}")

    assert answer.startswith("ERROR: GEN_MISMATCH current=2 requested=1 ")


def test_a_stream_of_a_client_that_is_not_a_member_ignores_rebalances(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    group = uuid.uuid4().hex
    member_of(other, topic, "m", group)
    cursus.send(f"STREAM topic={topic} partition=0 group={group} generation=7 member=nobody")
    wait_until_streaming(cursus)

    member_of(other, topic, "second", group)
    publish(other, topic, b"a")

    assert payloads(next_batch(cursus)) == [b"a"]


def test_the_stream_of_a_leaving_member_ends(
    cursus: CursusClient, other: CursusClient, topic: str
) -> None:
    group = uuid.uuid4().hex
    here = member_of(other, topic, "m", group)
    cursus.send(f"STREAM topic={topic} partition=0 group={group} {here}")
    wait_until_streaming(cursus)

    assert other.ask(f"LEAVE_GROUP topic={topic} group={group} {here}").startswith("OK ")

    assert next_text(cursus).startswith("ERROR: member_not_found member=m-")


# ---- clients -------------------------------------------------------------------------------------


CONSUMERS = pytest.mark.parametrize("consumer_type", [JavaConsumer, PythonConsumer])
ROUNDS = 12


def numbered(client: CursusClient, topic: str, start: int, count: int) -> set[bytes]:
    """Write records to all four partitions in turn; return their payloads."""
    written = [b"%d" % number for number in range(start, start + count)]
    for place in range(4):
        publish(client, topic, *written[place::4], partition=place)
    return set(written)


def poll_until(consumers: Sequence[StreamingConsumer], wanted: set[bytes]) -> None:
    """Let consumers read until everything has been delivered to one of them."""

    def is_all_there() -> bool:
        for each in consumers:
            each.poll()
        return wanted <= {got.payload for each in consumers for got in each.got}

    wait_until(is_all_there, "every record is delivered", 30)


@CONSUMERS
def test_two_streaming_members_share_partitions_and_take_over_without_losing_records(
    broker: Broker, cursus: CursusClient, topic: str, consumer_type: type[StreamingConsumer]
) -> None:
    group = uuid.uuid4().hex
    first, second = (consumer_type(broker.address, topic, group, each) for each in ("a", "b"))
    written: set[bytes] = set()
    first.start()
    for number in range(ROUNDS):  # the second member exists in the middle ones
        written |= numbered(cursus, topic, number * 40, 40)
        members = [first] if number < 4 or number >= 8 else [first, second]
        if number == 4:
            second.start()
        if number == 8:
            second.close()
        poll_until([first, second], written)
        for each in members:
            each.commit()
            each.beat()
        assert sorted(p for each in members for p in each.member.partitions) == [0, 1, 2, 3]

    assert first.member.generation <= 4  # a join each, and a leave
    assert {got.payload for each in (first, second) for got in each.got} == written
    # Only records not committed at a rebalance are read twice.
    delivered = len(first.got) + len(second.got)
    assert delivered <= len(written) + 2 * 40
    first.close()


@CONSUMERS
def test_consumers_resume_from_their_commits_after_kill_9(
    start_broker: StartBroker, consumer_type: type[StreamingConsumer]
) -> None:
    broker = start_broker()
    with CursusClient(broker.address) as client:
        client.ask("CREATE topic=t partitions=4")
        written = numbered(client, "t", 0, 400)
    first = consumer_type(broker.address, "t", "g", "a")
    first.start()
    poll_until([first], written)
    first.commit()

    broker.kill()
    broker.start()
    first.close()  # it is still a member

    with CursusClient(broker.address) as client:
        more = numbered(client, "t", 400, 40)
    again = consumer_type(broker.address, "t", "g", "a")
    again.start()
    poll_until([again], more)
    assert {got.payload for got in again.got} == more
    again.close()


def test_a_client_resumes_at_the_offset_named_in_an_out_of_range_close(
    broker: Broker, cursus: CursusClient, topic: str
) -> None:
    publish(cursus, topic, b"a", b"b", b"c")
    delete_records(broker.address, topic, 2)
    group = uuid.uuid4().hex
    for consumer_type in (JavaConsumer, PythonConsumer):
        consumer = consumer_type(broker.address, topic, group, consumer_type.__name__)
        consumer.start()
        poll_until([consumer], {b"c"})
        consumer.close()


# ---- what streams take ---------------------------------------------------------------------------


def test_streams_to_peers_that_never_read_use_little_memory(start_broker: StartBroker) -> None:
    broker = start_broker()
    streams = 100
    with CursusClient(broker.address) as client:
        client.ask("CREATE topic=t partitions=1")
        for _ in range(400):
            publish(client, "t", bytes(100_000))
        before = broker.private_memory()
        readers = [CursusClient(broker.address) for _ in range(streams)]
        for number, reader in enumerate(readers):
            reader.send(f"STREAM topic=t partition=0 group=g{number}")
        # By then the others had many turns to fill their sockets.
        with CursusClient(broker.address) as reading:
            reading.send("STREAM topic=t partition=0 group=reading")
            offset = 0
            while offset < 400:
                offset = next_batch(reading)[-1].offset + 1

        # Each holds at most the unsent limit and the rest of one read.
        assert broker.private_memory() - before < streams * 600_000 + (8 << 20)
        for reader in readers:
            reader.close()
        wait_until(
            lambda: broker.private_memory() - before < 24 << 20, "what they took is given back"
        )


def test_streams_to_peers_that_never_read_share_one_budget_of_decompressed_batches(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    streams, decompressed = 16, 60 << 20
    with CursusClient(broker.address) as client, WireClient(broker.address) as wire:
        client.ask("CREATE topic=t partitions=1")
        rows = [(None, bytes(decompressed // 100)) for _ in range(100)]
        [body] = encode(rows, compression="zstd", timestamp_ms=0, batch_bytes_max=1 << 30)
        wire_requests.produce(wire, "t", body)
        before = broker.private_memory()
        readers = [CursusClient(broker.address) for _ in range(streams)]
        for number, reader in enumerate(readers):
            reader.send(f"STREAM topic=t partition=0 group=g{number}")
        # What is decompressed for it comes behind what was decompressed for the others.
        client.send("STREAM topic=t partition=0 group=reading")
        offsets: list[int] = []
        while len(offsets) < len(rows):
            offsets += [each.offset for each in next_batch(client)]

        # At most 128 MiB are kept; as much is in flight, and each stream has a frame or two.
        assert broker.private_memory() - before < (256 << 20) + streams * (4 << 20)
        assert offsets == list(range(len(rows)))
        # A peer that begins to read gets all records, whatever was dropped meanwhile.
        for reader in readers[:3]:
            found: list[int] = []
            while len(found) < len(rows):
                found += [each.offset for each in next_batch(reader)]
            assert found == offsets
        for reader in readers:
            reader.close()


def test_a_thousand_idle_streams_receive_keepalives_and_new_records(
    start_broker: StartBroker,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < IDLE_STREAMS * 2:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(IDLE_STREAMS * 4, hard), hard))
    broker = start_broker()
    with CursusClient(broker.address) as client:
        client.ask("CREATE topic=t partitions=1")
        client.ask("FETCH_OFFSET topic=t partition=0 group=g0")
        before = broker.private_memory()
        streams = [CursusClient(broker.address) for _ in range(IDLE_STREAMS)]
        try:
            for number, each in enumerate(streams):
                each.send(f"STREAM topic=t partition=0 group=g{number}")
            for each in streams:
                assert each.frame() == b""
            assert broker.private_memory() - before < IDLE_STREAMS * 16_000
            publish(client, "t", b"a")
            for each in streams:
                assert payloads(next_batch(each)) == [b"a"]
        finally:
            for each in streams:
                each.close()
