"""A record acknowledged by one protocol is read by the others, or reported as too large.

    writer                          largest value            what limits it
    Kafka, old Kafka                max.message.bytes        the topic's setting
    Cursus batch, PUBLISH           16 MiB in a frame        the limit of its newer clients
    RustLog                         10 MiB in a frame        its frame
    V1                              a line of 64 KiB

A reader whose response cannot carry a record reports its offset and size and continues after it.
"""

import json
import struct
import uuid
from collections.abc import Callable, Iterator
from random import Random

import pytest

from broker.model.limits import (
    CURSUS_RECORD_BYTES_MAX,
    RUSTLOG_FRAME_BYTES_MAX,
    RUSTLOG_RECORD_BYTES_MAX,
    V1_REQUEST_BYTES_MAX,
)
from tests.support import rustlog_client, wire_requests
from tests.support.batches import batch_of, records_of
from tests.support.broker_process import BrokerProcess
from tests.support.cursus_client import CursusClient, Message, batch, read_batch
from tests.support.line_client import LineClient
from tests.support.native_log import NOW_MS
from tests.support.rustlog_client import ConnectionEndedError, RefusedError, RustLogClient
from tests.support.wire_client import WireClient

MIB = 1 << 20
CURSUS_OVERHEAD = 48
LARGEST_OF_CURSUS = CURSUS_RECORD_BYTES_MAX - CURSUS_OVERHEAD
TOPIC_BYTES = 20
LARGEST_WRITTEN = LARGEST_OF_CURSUS - TOPIC_BYTES  # the name of the topic is in the frame, too
SETTINGS = ("socket.request.max.bytes=73400320",)
LARGER_THAN_ANY = 40 * MIB


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that takes batches of 64 MiB."""
    broker = BrokerProcess(tmp_path_factory.mktemp("large"), settings=SETTINGS)
    broker.start()
    yield broker
    assert broker.stop() == 0
    broker.check()


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex}"[:TOPIC_BYTES]


def value_of(size: int) -> bytes:
    """Return a value that can be in a line unencoded."""
    return b"0123456789abcdef" * (size // 16) + b"x" * (size % 16)


# ---- writers: each creates its topic and writes a value, then a short one
# --------------------------


def write_kafka(address: str, topic: str, size: int) -> None:
    with WireClient(address) as client:
        wire_requests.create_topic(client, topic, max_message_bytes=str(64 * MIB))
        for value in (value_of(size), b"behind"):
            sent = batch_of([(None, value, [])], NOW_MS)
            assert wire_requests.produce(client, topic, sent)[0] == 0


def create_cursus(client: CursusClient, topic: str) -> None:
    assert client.ask(f"CREATE topic={topic} partitions=1").startswith("OK")


def write_cursus_batch(address: str, topic: str, size: int) -> None:
    with CursusClient(address) as client:
        create_cursus(client, topic)
        sent = batch(topic, 0, [Message(value_of(size)), Message(b"behind")])
        assert json.loads(client.answer(sent))["status"] == "OK"


def write_cursus_publish(address: str, topic: str, size: int) -> None:
    with CursusClient(address) as client:
        create_cursus(client, topic)
        for value in (value_of(size), b"behind"):
            head = f"PUBLISH topic={topic} producerId=p message=".encode()
            assert json.loads(client.answer(head + value))["status"] == "OK"


def write_rustlog(address: str, topic: str, size: int) -> None:
    with RustLogClient(address) as client:
        client.create(topic)
        for value in (value_of(size), b"behind"):
            client.produce(topic, [value])


def write_v1(address: str, topic: str, size: int) -> None:
    with WireClient(address) as client:
        wire_requests.create_topic(client, topic)
    with LineClient(address) as lines:
        for value in (value_of(size).decode(), "behind"):
            assert lines.command(f"PRODUCE {topic} k:{value}").startswith("OK|")


# ---- readers: the size of the value at offset 0, None if it is reported not to fit ---------------


def read_kafka(address: str, topic: str) -> int | None:
    with WireClient(address) as client:
        data = fetched(client, topic, 12)
        [(offset, _, _, value, _), *_] = records_of(data)
        assert offset == 0
        return len(value or b"")


def read_old_kafka(address: str, topic: str) -> int | None:
    with WireClient(address) as client:
        data = fetched(client, topic, 2, 1 << 30)  # before version 3 a message may be truncated
        # Offset, size, CRC, magic 1, attributes, timestamp, key, value.
        offset, _, _, magic, _, _, key = struct.unpack_from(">qiIbbqi", data)
        at = 30 + max(key, 0)
        end = at + 4 + int.from_bytes(data[at : at + 4])
        assert (offset, magic) == (0, 1)
        assert len(data) >= end
        assert fetched(client, topic, 3).startswith(data[:end])
        return end - at - 4


def fetched(client: WireClient, topic: str, version: int, bytes_max: int = 1000) -> bytes:
    """Return the records at offset 0 of a fetch with that limit of bytes."""
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": bytes_max}
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": bytes_max,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
    }
    [response] = client.request("Fetch", version, body)["responses"]
    [partition] = response["partitions"]
    assert partition["error_code"] == 0
    data: bytes = partition["records"]
    return data


def read_v1(address: str, topic: str) -> int | None:
    with LineClient(address) as client:
        answer = client.ask(f"V1|1|CONSUME|{topic} 0 0".encode())
        if b" too_large=[0:" in answer:
            assert answer.startswith(b"V1|1|OK|messages=1:behind hw=1")
            return None
        value, behind, _ = answer.removeprefix(b"V1|1|OK|messages=0:").partition(b" ")
        assert behind
        return len(value.partition(b",")[0])


def read_rustlog(address: str, topic: str) -> int | None:
    with RustLogClient(address) as client:
        answer = client.ask(rustlog_client.fetch(topic, 0, 0, 1 << 30))
        if answer.startswith(b"\xfe"):
            assert b"offset 0 does not fit" in answer
            assert answer.endswith(b"go on at offset 1")
            assert client.fetch(topic, 1).records == [b"behind"]
            return None
        return len(rustlog_client.read_fetched(answer).records[0])


def read_rustlog_json(address: str, topic: str) -> int | None:
    with RustLogClient(address) as client:
        ask = {"topic": topic, "partition": 0, "offset": 0, "max_bytes": 1 << 30}
        answer = client.ask_json({"Fetch": ask})
        if "Error" in answer:
            assert answer["Error"]["message"].endswith("go on at offset 1")
            found = client.ask_json({"Fetch": ask | {"offset": 1}})["Fetch"]["records"]
            assert bytes(found[0]["payload"]) == b"behind"
            return None
        return len(answer["Fetch"]["records"][0]["payload"])


def read_cursus(address: str, topic: str) -> int | None:
    with CursusClient(address) as client:
        answer = client.answer(f"CONSUME topic={topic} partition=0 offset=0 group=g")
        if answer.startswith(b"ERROR"):
            assert b"go on at offset 1: it takes " in answer
            assert (
                read_batch(client.answer(f"CONSUME topic={topic} partition=0 offset=1 group=g"))
                .messages[0]
                .payload
                == b"behind"
            )
            return None
        return len(read_batch(answer).messages[0].payload)


def read_cursus_stream(address: str, topic: str) -> int | None:
    with CursusClient(address) as client:
        client.send(f"STREAM topic={topic} partition=0 offset=0 group=s")
        frame = b""
        while not frame:
            frame = client.frame() or b""
        [first, *_] = read_batch(frame).messages
        return len(first.payload) if first.offset == 0 else None


WRITERS = [
    (write_kafka, 2 * MIB),
    (write_kafka, LARGER_THAN_ANY),
    (write_cursus_batch, 2 * MIB),
    (write_cursus_batch, LARGEST_WRITTEN),
    (write_cursus_publish, LARGEST_WRITTEN - 1),
    (write_rustlog, RUSTLOG_RECORD_BYTES_MAX - 300),
]
Reader = Callable[[str, str], int | None]
READERS: dict[Reader, int] = {  # the largest value that each must read
    read_kafka: 1 << 30,
    read_old_kafka: 1 << 30,
    read_v1: 15 * MIB,
    read_rustlog: RUSTLOG_RECORD_BYTES_MAX,
    read_rustlog_json: RUSTLOG_FRAME_BYTES_MAX // 4,
    read_cursus: LARGEST_OF_CURSUS,
    read_cursus_stream: LARGEST_OF_CURSUS,
}


@pytest.mark.parametrize(
    ("write", "size"), WRITERS, ids=[f"{write.__name__}-{size}" for write, size in WRITERS]
)
def test_a_large_record_is_read_by_every_client_that_can_carry_it_and_reported_to_the_others(
    large: BrokerProcess, topic: str, write: Callable[[str, str, int], None], size: int
) -> None:
    write(large.address, topic, size)

    for read, size_max in READERS.items():
        found = read(large.address, topic)
        assert found == (size if size <= size_max else None), read.__name__


# The largest value that each writer must take; a larger one is refused.
LARGEST = {
    write_kafka: LARGER_THAN_ANY,
    write_cursus_batch: LARGEST_WRITTEN,
    write_cursus_publish: LARGEST_WRITTEN - 1,
    write_rustlog: RUSTLOG_RECORD_BYTES_MAX - 300,
    write_v1: V1_REQUEST_BYTES_MAX - 300,
}
BOUNDS = sorted({1, MIB, *LARGEST.values(), *(each for each in READERS.values() if each < 1 << 30)})


def test_a_record_of_any_size_that_is_written_is_read_or_reported_by_every_client(
    large: BrokerProcess, topic: str, choices: Random
) -> None:
    write = choices.choice(list(LARGEST))
    bounds = [each for each in BOUNDS if each <= 2 * LARGEST[write]]
    size = max(choices.choice(bounds) + choices.choice((-1, 0, 1)), 1)
    try:
        write(large.address, topic, size)
    except (AssertionError, RefusedError, ConnectionEndedError, ValueError):
        assert size > LARGEST[write]
        return

    for read, size_max in READERS.items():
        found = read(large.address, topic)
        is_reported = found is None and size > size_max
        assert is_reported or found == size, (write, read, size)


def test_rustlog_refuses_a_record_that_its_responses_cannot_carry(large: BrokerProcess) -> None:
    with RustLogClient(large.address) as client:
        client.create("r")
        with pytest.raises(RefusedError, match="no answer to a fetch has room"):
            client.produce("r", [bytes(RUSTLOG_RECORD_BYTES_MAX + 1)])

        assert client.produce("r", [bytes(RUSTLOG_RECORD_BYTES_MAX)]) == 0
        assert len(client.fetch("r", 0, 1 << 30).records[0]) == RUSTLOG_RECORD_BYTES_MAX
