"""The native paths and the Python handlers agree: same responses, byte for byte, and same logs.

Every request goes to two brokers in this process (served_topic.py). Long polls and sessions exist
only on the native path and are not tested here.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import encode
from broker.codec.compression import compress
from broker.core.logs.partition import BATCH_HEADER_BYTES
from broker.model.clock import SystemClock
from broker.model.config import load
from broker.model.errors import ErrorCode
from broker.model.limits import (
    OLD_MESSAGES_BYTES_MAX,
    PRODUCE_DECOMPRESSED_BYTES_MAX,
    PRODUCE_DECOMPRESSED_GZIP_WEIGHT,
    PRODUCE_DECOMPRESSED_PIECES_MAX,
)
from broker.model.topic_config import TopicConfig
from broker.protocols.kafka.dispatch import PROTOCOL
from tests.oracles import message_set_oracle as message_sets
from tests.oracles.message_set_oracle import LOG_APPEND_TIME, Message
from tests.support.batches import EMPTY, batch_of
from tests.support.broken_batches import CASES, COMPRESS, NONE, Case, lz4_frame
from tests.support.native_log import TOPIC_ID, records
from tests.support.native_wire import (
    FETCH,
    FETCH_VERSIONS,
    HEAD,
    LIST_OFFSETS,
    LIST_OFFSETS_VERSIONS,
    PRODUCE,
    PRODUCE_VERSIONS,
    Fields,
    request,
    response,
)
from tests.support.native_wire import produce as produce_request
from tests.support.served_topic import ServedTopic, fast_and_slow

PARTITIONS = 2  # a request may name a third
EPOCH = 2  # of partition 1
TRANSACTION = 1  # the producer that has an open one, in epoch 0
HOUR_MS = 3600 * 1000
NOW_MS = SystemClock().wall_ms()
OWN = {"max.message.bytes": "400", "polylog.durability": "os"}
CONFIG = TopicConfig(OWN, load())
FLEXIBLE_FETCH = 12
LATEST, EARLIEST = -1, -2
VERSION = 9  # of Produce, where the version does not matter
OTHER_ID = b"another id of 16"


class NoCoordinator:
    """A transaction coordinator that knows no transaction."""

    async def admit(self, *_: object, adds_implicitly: bool) -> dict[tuple[str, int], ErrorCode]:
        """Refuse every partition."""
        error = ErrorCode.PRODUCER_FENCED if adds_implicitly else ErrorCode.INVALID_TXN_STATE
        return {("topic", number): error for number in range(PARTITIONS)}


class Served(ServedTopic):
    """A Kafka broker, and a connection to it that is renewed when it closes."""

    partition_count = PARTITIONS

    def __init__(self, *where: Any, **what: Any) -> None:
        """Create a second epoch in partition 1, and a transaction in both."""
        super().__init__(*where, **what)
        self.partitions[1].start_epoch(EPOCH)
        for log in self.partitions:
            log.admit_transaction(TRANSACTION, 0)
        self.wire.serve_with(self.dispatch, self.requests.closed, PROTOCOL())
        self.client = self.connect(NoCoordinator())

    def ask(self, data: bytes) -> bytes | None:
        """Return the response, b"" when there is none, or None when the connection was closed."""
        # Every request is followed by one that is always answered, so silence is detected.
        self.client.send(data)
        self.client.send(request(PRODUCE, 3, {"acks": 1, "topic_data": []}, correlation_id=-1))
        frames: list[bytes] = []
        while not frames or frames[-1][4:8] != b"\xff" * 4:
            self.run()
            frames += self.client.frames()
            if self.client.is_closed:
                self.client.socket.close()
                self.client = self.connect(NoCoordinator())
                return None
        return b"".join(frames[:-1])

    def end_transaction(self, *, is_abort: bool, is_last: bool = False) -> None:
        """End the open transaction as its coordinator does, and begin the next if there is one."""
        for log in self.partitions:
            kind = b"\0\0\0\0" if is_abort else b"\0\0\0\1"
            log.append_internal(
                batch_of(
                    [(kind, b"\0" * 6, [])],
                    NOW_MS,
                    producer_id=TRANSACTION,
                    producer_epoch=0,
                    is_transactional=True,
                    is_control=True,
                )
            )
            if not is_last:
                log.admit_transaction(TRANSACTION, 0)
        self.wire.run()

    def state(self) -> list[Any]:
        """Return the contents of the logs."""
        ends = [(log.log_end_offset, log.high_watermark) for log in self.partitions]
        producers = [log.producer_count for log in self.partitions]
        return [ends, producers, *(log.read(0, 1 << 20) for log in self.partitions)]


def two(path: Path, config: TopicConfig = CONFIG) -> AbstractContextManager[tuple[Served, Served]]:
    """Lend the native and the Python broker."""
    return fast_and_slow(Served, path, config)


# ---- requests ---------------------------------------------------------------------------------

FAR = [-(2**63), -2, -1, 0, NOW_MS, NOW_MS + 2 * HOUR_MS, NOW_MS - 2 * HOUR_MS, 2**63 - 1]


@st.composite
def batch(draw: st.DrawFn) -> bytes | None:
    """Return what a client may send for a partition, mostly a valid batch."""
    kind = draw(st.integers(0, 20))
    if kind < 8:
        data = records(draw(st.integers(1, 3)), timestamp=NOW_MS)
    elif kind < 14:
        data = records(
            draw(st.integers(1, 2)),
            timestamp=NOW_MS,
            producer_id=draw(st.integers(0, 1)),
            producer_epoch=draw(st.integers(0, 1)),
            base_sequence=draw(st.integers(0, 3)),
            is_transactional=draw(st.sampled_from([False, False, True])),
        )
    elif kind < 16:
        data = records(timestamp=draw(st.sampled_from(FAR)))
    elif kind < 18:
        keys = draw(st.lists(st.sampled_from([b"", b"key", b"key", None]), min_size=1, max_size=3))
        compression = draw(st.sampled_from(["none", "none", "gzip", "zstd"]))
        [data] = encode([(key, b"v") for key in keys], timestamp_ms=NOW_MS, compression=compression)
    elif kind < 19:
        data = CASES[draw(st.sampled_from(sorted(CASES)))].batch(NOW_MS)
    else:
        return draw(ODD)
    return data


SOUND = records(timestamp=NOW_MS)
ODD = st.sampled_from(
    [
        None,
        b"",
        SOUND[:-1],
        SOUND[:30],
        SOUND + SOUND,
        SOUND[:-1] + b"\1",
        SOUND[:16] + b"\1" + SOUND[17:],
        EMPTY,
        records(timestamp=NOW_MS, codec=1),
        records(timestamp=NOW_MS, codec=4),
        records(timestamp=NOW_MS, codec=5),
        records(timestamp=NOW_MS, is_control=True),
        records(timestamp=NOW_MS, is_transactional=True, producer_id=1),
        records(timestamp=NOW_MS, producer_id=1),
        records(timestamp=NOW_MS, size=330),
        *encode([b"v"], timestamp_ms=NOW_MS, timestamp_type="LogAppendTime"),
        *encode([(None, b"v", [], -1), (None, b"v", [], NOW_MS + 2 * HOUR_MS)]),
    ]
)


@st.composite
def message_set(draw: st.DrawFn) -> bytes:
    """Return what an old client may send for a partition, mostly plain messages."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from([SOUND, SOUND + SOUND, b"", b"\0" * 26]))
    attributes = draw(st.sampled_from([0, 0, 0, LOG_APPEND_TIME, 1, 3, 4]))
    messages = [
        Message(
            offset=draw(st.integers(0, 3)),
            key=draw(st.none() | st.binary(max_size=8)),
            value=draw(st.none() | st.binary(max_size=60)),
            magic=draw(st.sampled_from([0, 1])),
            timestamp=draw(st.sampled_from([NOW_MS, NOW_MS, NOW_MS + 1, *FAR])),
            crc=draw(st.sampled_from([None] * 19 + [1])),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    if attributes == LOG_APPEND_TIME:
        for each in messages[draw(st.integers(0, 1)) :]:
            each.attributes = attributes
    data = message_sets.encode(messages)
    if attributes not in {0, LOG_APPEND_TIME}:
        magic = draw(st.sampled_from([0, 1]))
        compressed = compress(attributes, data, magic=magic)
        data = Message(value=compressed, magic=magic, attributes=attributes).encode()
    return data[: -1 if kind == 1 else len(data)]


def topic(draw: st.DrawFn, name_field: str) -> Fields:
    """Return a topic's name and id, mostly the known one's."""
    if draw(st.integers(0, 9)):
        return {name_field: "topic", "topic_id": TOPIC_ID}
    other = draw(st.sampled_from(["other", "no/topic", ""]))
    return {name_field: other, "topic_id": draw(st.sampled_from([OTHER_ID, bytes(16)]))}


@st.composite
def produce(draw: st.DrawFn) -> bytes:
    """Return a Produce request."""
    version = draw(st.sampled_from([0, 1, 2, *PRODUCE_VERSIONS]))
    records = batch() if version in PRODUCE_VERSIONS else message_set()
    topics = [
        {
            **topic(draw, "name"),
            "partition_data": [
                {"index": index, "records": draw(records)}
                for index in draw(st.lists(st.integers(-1, PARTITIONS), max_size=3))
            ],
        }
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))
    ]
    body = {
        "acks": draw(st.sampled_from([-1, 1, -1, 1, 0, 2])),
        "timeout_ms": 1000,
        "transactional_id": draw(st.sampled_from([None, None, "t"])),
        "topic_data": topics,
    }
    return request(PRODUCE, version, body, 5)


@st.composite
def fetch(draw: st.DrawFn) -> bytes:
    """Return a Fetch request."""
    sizes = st.sampled_from([0, 1, 80, 200, 1 << 20, -1])
    topics = [
        {
            **topic(draw, "topic"),
            "partitions": [
                {
                    "partition": index,
                    "current_leader_epoch": draw(st.sampled_from([-1, -1, -1, 0, 1, 2, 3])),
                    "fetch_offset": draw(st.integers(-1, 12)),
                    "last_fetched_epoch": draw(st.sampled_from([-1] * 9 + [0])),
                    "log_start_offset": -1,
                    "partition_max_bytes": draw(sizes),
                }
                for index in draw(st.lists(st.integers(-1, PARTITIONS), max_size=3))
            ],
        }
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))
    ]
    session_id, epoch = draw(st.sampled_from([(0, -1)] * 9 + [(0, 1), (7, 3)]))
    body = {
        "replica_id": draw(st.sampled_from([-1] * 9 + [1])),
        "max_wait_ms": 0,
        "min_bytes": draw(st.integers(0, 200)),
        "max_bytes": draw(sizes),
        "isolation_level": draw(st.integers(0, 1)),
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": topics,
    }
    return request(FETCH, draw(st.sampled_from(FETCH_VERSIONS)), body, 6)


@st.composite
def list_offsets(draw: st.DrawFn) -> bytes:
    """Return a ListOffsets request, mostly for ends of partitions."""
    times = st.sampled_from([LATEST, LATEST, EARLIEST, EARLIEST, EARLIEST, -3, -4, -7, 0, NOW_MS])
    topics = [
        {
            "name": topic(draw, "name")["name"],
            "partitions": [
                {
                    "partition_index": index,
                    "current_leader_epoch": draw(st.sampled_from([-1, -1, -1, 0, EPOCH, 3])),
                    "timestamp": draw(times),
                    "max_num_offsets": 1,
                }
                for index in draw(st.lists(st.integers(-1, PARTITIONS), max_size=3))
            ],
        }
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))
    ]
    body = {
        "replica_id": draw(st.sampled_from([-1] * 9 + [1])),
        "isolation_level": draw(st.integers(0, 1)),
        "topics": topics,
        "timeout_ms": 1000,
    }
    return request(LIST_OFFSETS, draw(st.sampled_from(LIST_OFFSETS_VERSIONS)), body, 7)


# ---- the same responses -----------------------------------------------------------------------


def assert_same(asked: bytes, served: tuple[Served, Served]) -> None:
    """Send to both, and compare the bytes of their responses."""
    fast, slow = (each.ask(asked) for each in served)
    _, key, version, *_ = HEAD.unpack_from(asked)
    if fast and slow and key == FETCH and version >= FLEXIBLE_FETCH:
        # The native path reserves space for counts before it knows them, in longer varints.
        assert response(key, version, fast) == response(key, version, slow)
    else:
        assert fast == slow


END = st.fixed_dictionaries({"is_abort": st.booleans(), "is_last": st.booleans()})


@given(st.lists(produce() | fetch() | list_offsets() | END, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_native_and_python_paths_return_the_same_bytes_and_leave_the_same_logs(
    tmp_path_factory: pytest.TempPathFactory, requests: list[bytes | dict[str, bool]]
) -> None:
    with two(tmp_path_factory.mktemp("both")) as served:
        for asked in requests:
            if isinstance(asked, dict):
                for each in served:
                    each.end_transaction(**asked)
            else:
                assert_same(asked, served)

        fast, slow = served
        assert fast.state() == slow.state()


@pytest.mark.parametrize(
    "own",
    [{"cleanup.policy": "compact"}, {"compression.type": "gzip"}],
    ids=str,
)
@given(requests=st.lists(produce(), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_native_and_python_paths_agree_on_topics_that_inspect_their_batches(
    tmp_path_factory: pytest.TempPathFactory, own: dict[str, str], requests: list[bytes]
) -> None:
    with two(tmp_path_factory.mktemp("both"), TopicConfig(OWN | own, load())) as served:
        for asked in requests:
            assert_same(asked, served)

        fast, slow = served
        assert fast.state() == slow.state()


@pytest.mark.parametrize("codec", sorted({case.codec for case in CASES.values()}))
def test_native_and_python_paths_refuse_a_batch_that_some_consumer_cannot_read(
    tmp_path: Path, codec: str
) -> None:
    answers: dict[str, int] = {}
    python: dict[str, int] = {}
    cases = {name: case for name, case in CASES.items() if case.codec == codec}
    with two(tmp_path) as served:
        fast, slow = served
        for name, case in cases.items():
            before = fast.handed_over
            asked = produce_request(VERSION, (0, case.batch(NOW_MS)))
            answers[name] = error_of(fast.ask(asked))
            assert answers[name] == error_of(slow.ask(asked)), name
            python[name] = fast.handed_over - before - 1  # an empty request follows
        assert fast.state() == slow.state()
        end = fast.partitions[0].log_end_offset

    sound = [case.counted for case in cases.values() if case.code == NONE]
    assert answers == {name: case.code for name, case in cases.items()}
    assert python == {name: int(case.code != NONE) for name, case in cases.items()}
    assert end == sum(sound)


def error_of(answer: bytes | None) -> int:
    """Return the error code of the only partition, by a request of VERSION."""
    assert answer
    _, body = response(PRODUCE, VERSION, answer)
    [topic] = body["responses"]
    [part] = topic["partition_responses"]
    return int(part["error_code"])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_short_compressed_batches_are_inspected_natively(tmp_path: Path, codec: str) -> None:
    weight = PRODUCE_DECOMPRESSED_GZIP_WEIGHT if codec == "gzip" else 1
    share = PRODUCE_DECOMPRESSED_BYTES_MAX // weight // PARTITIONS
    config = TopicConfig(OWN | {"max.message.bytes": "2000000"}, load())

    with two(tmp_path, config) as served:
        fast, slow = served
        for size, handed_over in ((share - 100, 1), (share + 100, 2)):
            [batch] = encode([bytes(size)], timestamp_ms=NOW_MS, compression=codec)
            before = fast.handed_over
            parts = [(index, batch) for index in range(PARTITIONS)]
            assert_same(produce_request(VERSION, *parts), served)

            assert fast.handed_over - before == handed_over  # an empty request follows
        assert fast.state() == slow.state()


@pytest.mark.parametrize("codec", ["gzip", "xerial", "lz4", "zstd"])
def test_a_batch_of_many_blocks_is_not_decompressed_on_the_loop(tmp_path: Path, codec: str) -> None:
    [plain] = encode([bytes(PRODUCE_DECOMPRESSED_PIECES_MAX)], timestamp_ms=NOW_MS)
    content = plain[BATCH_HEADER_BYTES:]
    pieces = [content[place : place + 1] for place in range(len(content))]
    payload = lz4_frame(*pieces) if codec == "lz4" else b"".join(map(COMPRESS[codec], pieces))
    batch = Case(codec, payload, 1, NONE, NONE).batch(NOW_MS)

    with two(tmp_path, TopicConfig(OWN | {"max.message.bytes": "2000000"}, load())) as served:
        assert_same(produce_request(VERSION, (0, batch)), served)

        fast, slow = served
        assert fast.handed_over == 2  # an empty request follows
        assert fast.state() == slow.state()
        assert fast.partitions[0].log_end_offset == 1


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_batch_repeated_after_its_transaction_ended_is_acknowledged_as_written(
    tmp_path: Path, version: int
) -> None:
    data = records(
        timestamp=NOW_MS,
        producer_id=TRANSACTION,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    part = {"index": 0, "records": data}
    topics = [{"name": "topic", "topic_id": TOPIC_ID, "partition_data": [part]}]
    asked = request(PRODUCE, version, {"acks": -1, "transactional_id": "t", "topic_data": topics})

    with two(tmp_path) as served:
        first = [each.ask(asked) for each in served]
        for each in served:
            each.end_transaction(is_abort=False, is_last=True)

        assert [each.ask(asked) for each in served] == first


@pytest.mark.parametrize(("key", "handed_over"), [(b"key", 1), (None, 2)])
def test_a_compacted_topic_accepts_plain_batches_with_keys_natively(
    tmp_path: Path, key: bytes | None, handed_over: int
) -> None:
    [data] = encode([(b"first", b"1"), (key, b"2")], timestamp_ms=NOW_MS)
    body = {
        "acks": -1,
        "topic_data": [{"name": "topic", "partition_data": [{"index": 0, "records": data}]}],
    }

    with two(tmp_path, TopicConfig(OWN | {"cleanup.policy": "compact"}, load())) as served:
        assert_same(request(PRODUCE, 9, body), served)

        fast, _ = served
        assert fast.handed_over == handed_over  # an empty request follows


@pytest.mark.parametrize("version", LIST_OFFSETS_VERSIONS)
def test_list_offsets_of_log_ends_is_served_natively(tmp_path: Path, version: int) -> None:
    partitions = [
        {"partition_index": index, "timestamp": timestamp}
        for index, timestamp in enumerate((LATEST, EARLIEST))
    ]
    body = {"replica_id": -1, "topics": [{"name": "topic", "partitions": partitions}]}

    with two(tmp_path) as served:
        assert_same(request(LIST_OFFSETS, version, body), served)

        fast, _ = served
        assert fast.handed_over == (1 if version else 2)  # an empty request follows


@pytest.mark.parametrize("version", LIST_OFFSETS_VERSIONS[4:])
def test_the_earliest_offset_is_returned_with_the_epoch_of_the_first_record(
    tmp_path: Path, version: int
) -> None:
    partition = {"partition_index": 1, "timestamp": EARLIEST}
    body = {"replica_id": -1, "topics": [{"name": "topic", "partitions": [partition]}]}

    with two(tmp_path) as served:
        for each in served:
            each.partitions[1].append(records(timestamp=NOW_MS))
            each.partitions[1].start_epoch(EPOCH + 1)
        assert_same(request(LIST_OFFSETS, version, body), served)

        fast, _ = served
        assert fast.handed_over == 1


PLAIN_SET = message_sets.encode(
    [Message(value=b"v", magic=0), Message(0, b"k", b"v", timestamp=NOW_MS)]
)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("records", "handed_over"),
    [
        (PLAIN_SET, 1),  # an empty request follows
        (PLAIN_SET[:-1], 2),
        (Message(value=compress(1, PLAIN_SET), magic=0, attributes=1).encode(), 2),
        (SOUND, 2),
    ],
    ids=["plain", "cut short", "compressed", "batch"],
)
def test_plain_message_sets_are_served_natively(
    tmp_path: Path, version: int, records: bytes, handed_over: int
) -> None:
    data = [{"index": index, "records": records} for index in range(PARTITIONS)]
    body = {"acks": -1, "topic_data": [{"name": "topic", "partition_data": data}]}

    with two(tmp_path) as served:
        assert_same(request(PRODUCE, version, body), served)

        fast, slow = served
        assert fast.handed_over == handed_over
        assert fast.state() == slow.state()


def test_old_requests_are_served_natively_while_memory_lasts(tmp_path: Path) -> None:
    many = PLAIN_SET * (OLD_MESSAGES_BYTES_MAX // len(PLAIN_SET) // PARTITIONS)
    config = TopicConfig(OWN | {"max.message.bytes": "2000000"}, load())

    with two(tmp_path, config) as served:
        fast, slow = served
        for extra, handed_over in ((b"", 1), (PLAIN_SET, 3)):
            data = [{"index": index, "records": many + extra} for index in range(PARTITIONS)]
            body = {"acks": -1, "topic_data": [{"name": "topic", "partition_data": data}]}
            assert_same(request(PRODUCE, 1, body), served)

            assert fast.handed_over == handed_over
        assert fast.state() == slow.state()


def test_common_requests_are_served_natively(tmp_path: Path) -> None:
    data = {"index": 0, "records": SOUND}
    topics = [{"name": "topic", "topic_id": TOPIC_ID, "partition_data": [data]}]
    part = {"partition": 0, "fetch_offset": 3, "partition_max_bytes": 100}
    wanted = [{"topic": "topic", "topic_id": TOPIC_ID, "partitions": [part]}]

    with two(tmp_path) as served:
        for version in PRODUCE_VERSIONS:
            assert_same(request(PRODUCE, version, {"acks": -1, "topic_data": topics}), served)
        for version in FETCH_VERSIONS:
            body = {"max_bytes": 1000, "session_epoch": -1, "topics": wanted}
            assert_same(request(FETCH, version, body), served)

        fast, slow = served
        ends = len(PRODUCE_VERSIONS) + len(FETCH_VERSIONS)  # an empty request follows each
        assert (fast.handed_over, slow.handed_over) == (ends, 2 * ends)
