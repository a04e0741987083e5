"""Bad RustLog clients: every input is answered or ends the connection; others are served."""

import socket
import struct
from random import Random

import pytest

from tests.support.broker_process import Broker, BrokerProcess, spends_at_most, wait_until
from tests.support.rustlog_client import (
    LIST_TOPICS,
    METRICS,
    PING,
    RustLogClient,
    commit,
    create_topic,
    describe_partition,
    fetch,
    frame,
    offset_fetch,
    produce,
    read_error,
    read_fetched,
    string,
)

pytestmark = pytest.mark.usefixtures("still_well")

MIB = 1 << 20
FRAME_MAX = 10_485_760
GROWTH_BYTES_MAX = 48 * MIB
JSON_PRODUCE = b'{"Produce":{"topic":"no-such","partition":0,"records":[[1,2],[]]}}'


def requests(topic: str) -> list[bytes]:
    """Return a request of each kind, most of them refused."""
    return [
        produce(topic, 0, [b"hi", b""]),
        fetch(topic, 0, 0, 100, "group"),
        fetch(topic, 0, 0, 100),
        commit("group", topic, 0, 1),
        offset_fetch("group", topic, 0),
        create_topic(topic, 0),
        LIST_TOPICS,
        b"\x07" + string(topic),
        describe_partition(topic, 0),
        METRICS,
        JSON_PRODUCE,
    ]


def test_every_request_may_arrive_byte_by_byte(broker: Broker, topic: str) -> None:
    with RustLogClient(broker.address) as client, RustLogClient(broker.address) as whole:
        client.create(topic)
        for request in requests(topic)[1:]:
            for byte in frame(request):
                client.send(bytes([byte]))
            answer = client.receive()
            assert request == METRICS or answer == whole.ask(request)


def test_every_request_may_be_cut_anywhere(broker: Broker, topic: str) -> None:
    with RustLogClient(broker.address) as client:
        client.create(topic)
        for request in requests(topic):
            for size in range(1, len(request)):
                answer = client.ask(request[:size])
                if request == JSON_PRODUCE:
                    assert answer == b'{"Error":{"message":"failed to parse request"}}'
                else:
                    assert read_error(answer)[1].startswith("Decode error: decode error: ")
        client.ping()


def test_arbitrary_bytes_in_a_frame_are_answered(broker: Broker, choices: Random) -> None:
    with RustLogClient(broker.address) as client:
        client.ping()
        for _ in range(3_000):
            kind = choices.choice([*range(1, 10), 255, 123, 32, 200])
            answer = client.ask(bytes([kind]) + choices.randbytes(choices.randrange(60)))
            assert answer


def test_the_frame_that_crashes_the_original_is_refused(broker: Broker) -> None:
    deadly = b"\x01" + string("demo") + bytes(4) + b"\xff\xff\xff\xff"
    with RustLogClient(broker.address) as client:
        for _ in range(100):
            code, text = read_error(client.ask(deadly))
            assert (code, text) == (2, "Decode error: decode error: truncated record length")


def test_a_produce_of_millions_of_empty_records_costs_time_but_little_memory(
    broker: Broker, topic: str
) -> None:
    before = broker.private_memory() if isinstance(broker, BrokerProcess) else 0
    with RustLogClient(broker.address) as client, RustLogClient(broker.address) as other:
        client.create(topic)
        count = (FRAME_MAX - 100 - len(topic)) // 4
        records = struct.pack(">I", 0) * count
        head = b"\x01" + string(topic) + struct.pack(">II", 0, count)
        client.send(frame(head + records))
        with spends_at_most(broker, 1):
            other.ping()
        assert client.receive() == b"\x01" + bytes(8) + struct.pack(">I", count)
        assert other.high_watermark(topic) == count
        if isinstance(broker, BrokerProcess):
            assert broker.private_memory() < before + GROWTH_BYTES_MAX


@pytest.mark.parametrize(
    "text",
    [
        b'{"Produce":{"topic":"t","partition":0,"records":[' + b"[]," * 3_000_000,
        b'{"Produce":{"topic":"t","partition":0,"records":[[' + b"1," * 5_000_000,
        b"{" + b"[" * 10_000_000,
        b'{"a":' + b'{"a":' * 2_000_000,
        b'{"' + b"\\u0000" * 1_700_000,
        b"{" + b" " * 10_000_000,
        b'{"a":' + b"1" * 10_000_000,
    ],
    ids=lambda text: repr(text[:60]),
)
def test_a_frame_of_json_that_is_not_a_request_is_refused(broker: Broker, text: bytes) -> None:
    with RustLogClient(broker.address) as client, RustLogClient(broker.address) as other:
        client.send(frame(text))
        with spends_at_most(broker, 1):
            other.ping()
        assert client.receive() == b'{"Error":{"message":"failed to parse request"}}'


def test_memory_of_large_frames_is_released(broker: Broker) -> None:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("the memory of a broker elsewhere cannot be read")
    with RustLogClient(broker.address) as client:
        client.ping()
        before = broker.private_memory()
        for size in (1, 9, 10, 4, 2, 10):
            client.ask(b"{" + b"[" * (size * 1_000_000))
        wait_until(
            lambda: broker.private_memory() < before + 6 * MIB, "memory of frames is released"
        )


def test_a_peer_that_never_reads_its_responses_is_served_only_up_to_a_limit(
    broker: Broker, topic: str
) -> None:
    with RustLogClient(broker.address) as filler:
        filler.create(topic)
        for _ in range(10):
            filler.produce(topic, [b"x" * 1_000_000])
    before = broker.private_memory() if isinstance(broker, BrokerProcess) else 0
    with RustLogClient(broker.address) as deaf:
        deaf.socket.settimeout(1.0)
        asked = 0
        try:
            while asked < 500_000:
                deaf.send(frame(fetch(topic, 0, 0, 2**32 - 1)) * 100)
                asked += 100
        except TimeoutError:
            pass
        assert asked < 500_000
        if isinstance(broker, BrokerProcess):
            assert broker.private_memory() < before + GROWTH_BYTES_MAX * 2
        with RustLogClient(broker.address) as other:
            assert len(read_fetched(other.ask(fetch(topic, 0, 0, 100))).records) == 1


def test_a_half_closed_peer_gets_its_responses(broker: Broker, topic: str) -> None:
    with RustLogClient(broker.address) as client:
        client.create(topic)
        client.send(frame(produce(topic, 0, [b"a"])) + frame(fetch(topic, 0, 0, 99)) + frame(PING))
        client.socket.shutdown(socket.SHUT_WR)

        assert client.receive()[0] == 1
        assert read_fetched(client.receive()).records == [b"a"]
        assert client.receive() == PING
        client.expect_closed()


@pytest.mark.parametrize("size", [1, 4, 5, 20])
def test_an_end_of_stream_within_a_frame_has_no_response(
    broker: Broker, topic: str, size: int
) -> None:
    with RustLogClient(broker.address) as client:
        client.ping()
        client.send(frame(produce(topic, 0, [b"a"] * 3))[:size])
        client.socket.shutdown(socket.SHUT_WR)

        client.expect_closed()


def test_a_peer_that_disconnects_while_it_is_served_does_no_harm(
    broker: Broker, topic: str
) -> None:
    with RustLogClient(broker.address) as client:
        client.create(topic)
        for _ in range(50):
            with RustLogClient(broker.address) as gone:
                gone.send(frame(produce(topic, 0, [b"x" * 1_000] * 100)) * 5)
        client.ping()
