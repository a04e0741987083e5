"""V1's native paths and Python handlers agree: same responses, byte for byte, and records.

Every line goes to two brokers in this process (served_topic.py).
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.protocols.v1 import protocol as v1
from broker.codec import encode, records
from broker.model.clock import SystemClock
from broker.model.config import load
from broker.model.limits import V1_CONSUME_BYTES_MAX, V1_CONSUME_RECORDS_MAX
from broker.model.topic_config import TopicConfig
from broker.protocols.v1.dispatch import STORAGE_FAILURE, V1
from tests.support.batches import batch_of
from tests.support.served_topic import ServedTopic, fast_and_slow

PARTITIONS = 3
PRODUCER = 7
NOW_MS = SystemClock().wall_ms()
OWN = {"polylog.durability": "os"}
CONFIG = TopicConfig(OWN, load())


class Served(ServedTopic):
    """A V1 broker, and a connection to it."""

    partition_count = PARTITIONS

    def __init__(self, *where: Any, **what: Any) -> None:
        """Open a connection that speaks V1."""
        super().__init__(*where, **what)
        self.protocol = v1.V1(V1(), STORAGE_FAILURE)
        self.wire.poller.serve_with({"v1": self.protocol}, self.dispatch, self.requests.closed)
        self.client = self.connect()
        self.ask(b"V1|0|PING|")  # which makes it V1, whatever the next line is
        self.handed_over = 0

    def ask(self, line: bytes) -> bytes:
        """Return the line of the response."""
        self.client.send(line + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            self.run()
            try:
                data = self.client.socket.recv(1 << 20)
            except BlockingIOError:
                continue
            assert data, "closed"
            answer += data
        return answer

    def append(self, data: bytes, partition: int) -> None:
        """Append a batch as a Kafka client does."""
        log = self.partitions[partition]
        log.admit_transaction(PRODUCER, 0)
        status, *_ = log.append(data)
        assert status == 0, status
        self.wire.run()

    def end_transaction(self, partition: int, *, is_abort: bool) -> None:
        """Append a marker."""
        kind = b"\0\0\0\0" if is_abort else b"\0\0\0\1"
        marker = batch_of(
            [(kind, b"\0" * 6, [])],
            NOW_MS,
            producer_id=PRODUCER,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        self.partitions[partition].append_internal(marker)
        self.wire.run()

    def state(self) -> list[Any]:
        """Return every record that the logs have."""
        return [
            [(each.offset, each.key, each.value) for each in records(log.read(0, 1 << 30))]
            for log in self.partitions
        ]


def two(path: Path, config: TopicConfig = CONFIG) -> AbstractContextManager[tuple[Served, Served]]:
    """Lend the native and the Python broker."""
    return fast_and_slow(Served, path, config)


def assert_same(line: bytes, served: tuple[Served, Served]) -> bytes:
    """Send to both; return their response."""
    fast, slow = (each.ask(line) for each in served)
    assert fast == slow
    return fast


# ---- lines and batches -----------------------------------------------------------------------

LETTERS = st.sampled_from(
    ["a", "hw=", ",", "%", "|", ":", " ", "\xa0", "\u2003", "€", "😀", "\x7f", "\t"]
)
WORDS = st.lists(st.binary(max_size=3) | LETTERS.map(str.encode), max_size=6).map(b"".join)
ENDS = st.sampled_from([b"", b" acks=1", b" acks=0", b" ACKS=1", b" acks=2", b" ", b"\r", b" x"])
IDS = st.sampled_from([b"1", b"a-long-correlation-id", b" 7 ", b"\xff", b"", b"x y"])
VALUES = st.lists(WORDS | st.none(), min_size=1, max_size=5)


@st.composite
def produce(draw: st.DrawFn) -> bytes:
    """Return a PRODUCE, mostly of the common kind."""
    if draw(st.booleans()):
        key = draw(st.sampled_from(["user1", "user9", "a", ""]))
        return f"V1|{draw(st.integers(0))}|PRODUCE|topic {key}:{draw(st.integers())}".encode()
    message = b":".join(draw(st.lists(WORDS, min_size=1, max_size=3)))
    return b"V1|%b|PRODUCE|topic %b%b" % (draw(IDS), message.replace(b"\n", b""), draw(ENDS))


@st.composite
def consume(draw: st.DrawFn) -> bytes:
    """Return a CONSUME, mostly of the common kind."""
    partition = draw(st.integers(0, 2) | st.sampled_from([-1, 3, 1 << 31, 1 << 32, 1 << 70]))
    offset = draw(st.integers(0, 12) | st.sampled_from([-1, 1 << 31, (1 << 63) - 1, 1 << 63]))
    end = draw(st.sampled_from([b"", b"", b"", b"\r", b" ", b" 1"]))
    zeros = draw(st.sampled_from([b"", b"", b"", b"0", b"+"]))
    return b"V1|%b|CONSUME|topic %d %b%d%b" % (draw(IDS), partition, zeros, offset, end)


@st.composite
def batch(draw: st.DrawFn) -> tuple[int, bytes]:
    """Return a partition and what a Kafka client may append to it."""
    values = draw(VALUES)
    options: dict[str, Any] = {"compression": draw(st.sampled_from(["none", "none", "gzip"]))}
    if draw(st.integers(0, 3)) == 0:
        options |= {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": 0}
        options["is_transactional"] = True
    rows = [(b"key", value, [("header", b"x")] if draw(st.booleans()) else []) for value in values]
    [data] = encode(rows, timestamp_ms=NOW_MS, **options)
    return draw(st.integers(0, 2)), data


ENDINGS = st.tuples(st.integers(0, 2), st.booleans())


@given(st.lists(produce() | consume() | batch() | ENDINGS, min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_native_and_python_paths_return_the_same_bytes_and_leave_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    with two(tmp_path_factory.mktemp("both")) as served:
        for step in steps:
            if isinstance(step, bytes):
                assert_same(step.replace(b"\n", b""), served)
                continue
            partition, what = step
            for each in served:
                if isinstance(what, bool):
                    each.end_transaction(partition, is_abort=what)
                else:
                    log = each.partitions[partition]
                    log.admit_transaction(PRODUCER, 0)
                    log.append(what)  # refused by both where it repeats itself
                    each.wire.run()
        for partition in range(PARTITIONS):
            assert_same(b"V1|9|CONSUME|topic %d 0" % partition, served)

        fast, slow = served
        assert fast.state() == slow.state()


def test_common_lines_are_served_natively(tmp_path: Path) -> None:
    with two(tmp_path) as served:
        for line in (
            b"V1|1|PRODUCE|topic user1:a",
            b"V1|2|PRODUCE|topic user1:a,b acks=1",
            b"V1|3|PRODUCE|topic user1: acks=0\r",
            "V1|4|PRODUCE|topic user1:größe€".encode(),
            b"V1|5|CONSUME|topic 2 0",
            b"V1|6|CONSUME|topic 2 4",
            b"V1|7|CONSUME|topic 0 7\r",
        ):
            assert b"|OK|" in assert_same(line, served)

        fast, slow = served
        assert (fast.handed_over, slow.handed_over) == (0, 7)


def test_the_answers_equal_those_of_the_original_server(tmp_path: Path) -> None:
    with two(tmp_path) as served:
        assert assert_same(b"V1|7|PRODUCE|topic user1:a,b", served) == (
            b"V1|7|OK|partition=2 offset=0 hw=0\n"
        )
        assert assert_same(b"V1|8|CONSUME|topic 2 0", served) == (
            b"V1|8|OK|messages=0:a%2Cb hw=0 escaped=[0]\n"
        )
        assert assert_same(b"V1|9|CONSUME|topic 1 0", served) == b"V1|9|OK|messages= hw=-1\n"


@pytest.mark.parametrize("size", [1, 500, 200_000])
def test_native_and_python_paths_limit_response_lines_alike(tmp_path: Path, size: int) -> None:
    count = 12_000 if size == 1 else 3 * V1_CONSUME_BYTES_MAX // size + 1
    batches = encode([b"," * size] * count, timestamp_ms=NOW_MS)

    with two(tmp_path) as served:
        for each in served:
            for data in batches:
                each.append(data, 0)
        offset = 0
        while offset < count:
            line = assert_same(b"V1|7|CONSUME|topic 0 %d" % offset, served)
            messages = line.removeprefix(b"V1|7|OK|messages=").partition(b" ")[0].split(b",")
            assert messages[0].startswith(b"%d:" % offset)
            offset += len(messages)
            assert len(messages) <= V1_CONSUME_RECORDS_MAX
            assert sum(map(len, messages)) + len(messages) - 1 <= V1_CONSUME_BYTES_MAX

        fast, _ = served
        assert fast.handed_over == 0


def test_a_record_longer_than_a_line_is_returned_alone(tmp_path: Path) -> None:
    config = TopicConfig(OWN | {"max.message.bytes": str(4 << 20)}, load())
    [data] = encode([b"x" * (V1_CONSUME_BYTES_MAX + 1), b"y"], batch_bytes_max=4 << 20)

    with two(tmp_path, config) as served:
        for each in served:
            each.append(data, 0)

        first = assert_same(b"V1|7|CONSUME|topic 0 0", served)
        assert first.endswith(b"xxx hw=1\n")
        assert first.count(b":") == 1
        assert assert_same(b"V1|7|CONSUME|topic 0 1", served) == b"V1|7|OK|messages=1:y hw=1\n"


def test_many_requests_for_large_responses_are_answered_over_several_turns(tmp_path: Path) -> None:
    [data] = encode([b"x" * 900_000])

    with two(tmp_path) as served:
        for each in served:
            each.append(data, 0)
        fast, _ = served
        lines = b"V1|7|CONSUME|topic 0 0\n" * 8
        answers = fast.ask(lines[:-1])
        while answers.count(b"\n") < 8:
            answers += fast.ask(b"V1|7|PING|")

        assert answers.count(b" hw=0\n") == 8
        assert fast.handed_over == answers.count(b"PONG")


@pytest.mark.parametrize("has_followers", [True, False])
def test_a_partition_in_the_follower_role_is_left_to_python(
    tmp_path: Path, has_followers: bool
) -> None:
    with two(tmp_path) as (fast, _):
        fast.protocol.has_followers = has_followers

        fast.ask(b"V1|1|PRODUCE|topic user1:a")

        assert fast.handed_over == int(has_followers)


def test_native_and_python_paths_refuse_a_failed_append(tmp_path: Path) -> None:
    with two(tmp_path) as served:
        for each in served:
            assert b"|OK|" in each.ask(b"V1|1|PRODUCE|topic user1:a")
            each.partitions[2].take_offline("the test says so")
        refused = b"V1|1|" + STORAGE_FAILURE

        for line in (b"V1|1|PRODUCE|topic user1:a", b"V1|1|CONSUME|topic 2 0"):
            assert assert_same(line, served) == refused


def test_an_append_whose_sync_fails_is_refused(tmp_path: Path) -> None:
    with two(tmp_path, TopicConfig({}, load())) as (fast, _):
        fast.client.socket.send(b"V1|1|PRODUCE|topic user1:a\nV1|2|PRODUCE|topic user9:a\n")
        fast.wire.poller()  # appends, and requests a sync whose end no later turn sees

        fast.partitions[2].take_offline("the test says so")
        fast.partitions[0].take_offline("the test says so")
        fast.wire.run()

        assert fast.handed_over == 0
        assert fast.client.socket.recv(1000) == (
            b"V1|1|" + STORAGE_FAILURE + b"V1|2|" + STORAGE_FAILURE
        )
