"""RustLog's native paths and Python handlers agree: the same responses, the same records.

Every request goes to two brokers in this process (served_topic.py).
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.kernel.checksum import crc32c
from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.rustlog.protocol import RustLog as NativeRustLog
from broker.codec import encode
from broker.codec.control_records import Marker, encode_marker
from broker.codec.headers import scan_headers
from broker.model.clock import SystemClock
from broker.model.config import load
from broker.model.topic_config import TopicConfig
from broker.protocols.rustlog.dispatch import RustLog
from tests.support.rustlog_client import (
    Fetched,
    describe_partition,
    fetch,
    frame,
    produce,
    read_error,
    read_fetched,
    read_produced,
)
from tests.support.served_topic import ServedTopic, fast_and_slow

PARTITIONS = 2  # a request may name a third
PRODUCER = 7
NOW_MS = SystemClock().wall_ms()
OWN = {"max.message.bytes": "400", "polylog.durability": "os"}
CONFIG = TopicConfig(OWN, load())

Append = Callable[[PartitionLog], None]


class Served(ServedTopic):
    """A RustLog broker, and a connection to it."""

    partition_count = PARTITIONS

    def __init__(self, *where: Any, **what: Any) -> None:
        """Open a connection that has sent nothing yet."""
        super().__init__(*where, **what)
        self.protocol = RustLog()
        native = NativeRustLog(
            self.protocol, self.protocol.counters, write_failed=self.protocol.write_failed
        )
        self.wire.poller.serve_with({"rustlog": native}, self.dispatch, self.requests.closed)
        self.client = self.connect()

    def ask(self, payload: bytes) -> bytes:
        """Return the payload of the response."""
        self.client.send(frame(payload))
        while not (frames := self.client.frames()):
            self.run()
        [found] = frames
        return found[4:]

    def append(self, append: Append, partition: int) -> None:
        """Change a log as another protocol does."""
        append(self.partitions[partition])
        self.logs.turn.end()
        self.wire.run()

    def state(self) -> list[Any]:
        """Return the contents of the logs without times."""
        ends = [
            (log.log_start_offset, log.log_end_offset, log.last_stable_offset)
            for log in self.partitions
        ]
        counters = self.protocol.counters
        counts = counters.messages_produced, counters.messages_fetched
        sizes = counters.bytes_in, counters.bytes_out
        return [ends, counts, sizes, *(list(batches(log)) for log in self.partitions)]


def batches(log: PartitionLog) -> Iterator[tuple[Any, ...]]:
    """Return a log's batches without their times."""
    if log.log_start_offset < log.high_watermark:
        data = log.read(log.log_start_offset, 1 << 20)
        for each in scan_headers(data):
            records = data[each.position + 61 : each.position + each.size]
            yield each.base_offset, each.last_offset, each.attributes, each.producer_id, records


def two(path: Path, config: TopicConfig = CONFIG) -> AbstractContextManager[tuple[Served, Served]]:
    """Lend the native and the Python broker."""
    return fast_and_slow(Served, path, config)


# ---- changes made to both
# -------------------------------------------------------------------------


def put(batch: list[bytes]) -> Append:
    """Return a function that appends a client's batch."""

    def append(log: PartitionLog) -> None:
        for each in batch:
            log.append(each)

    return append


def end_transaction(*, is_committed: bool) -> Append:
    """Return a function that ends the producer's transaction."""

    def append(log: PartitionLog) -> None:
        if PRODUCER in log.open_transactions:
            marker = Marker(PRODUCER, 0, is_committed, 0)
            log.append_internal(encode_marker(marker, timestamp_ms=NOW_MS))

    return append


def write_in_transaction(log: PartitionLog) -> None:
    """Append in the producer's transaction."""
    log.admit_transaction(PRODUCER, 0)
    ends = {each[0]: each[2] for each in log.active_producers}
    sequence = ends.get(PRODUCER, -1) + 1
    batch = encode(
        [b"in a transaction"],
        timestamp_ms=NOW_MS,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    assert log.append(batch[0])[0] == 0


def move_start(log: PartitionLog) -> None:
    """Delete the older half of the records."""
    log.move_log_start((log.log_start_offset + log.high_watermark) // 2)


def with_a_gap(log: PartitionLog) -> None:
    """Append a batch as compaction leaves one: its last records are removed, their offsets stay."""
    log.append_internal(gapped())


def gapped() -> bytes:
    """Return a batch of which only the first of four records is left."""
    [batch] = encode([b"left"], timestamp_ms=NOW_MS)
    holed = bytearray(batch)
    holed[23:27] = (3).to_bytes(4)
    return with_crc(holed)


def with_crc(batch: bytearray) -> bytes:
    """Return a batch whose CRC is correct again."""
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4)
    return bytes(batch)


DEEDS: dict[str, Append] = {
    "plain": put(encode([(b"key", b"v" * 20, [("h", b"1")]), (None, None)], timestamp_ms=NOW_MS)),
    "gzip": put(encode([b"z" * 99, b"", b"y"], timestamp_ms=NOW_MS, compression="gzip")),
    "zstd": put(encode([b"z" * 99], timestamp_ms=NOW_MS, compression="zstd")),
    "transaction": write_in_transaction,
    "commit": end_transaction(is_committed=True),
    "abort": end_transaction(is_committed=False),
    "gap": with_a_gap,
    "delete": move_start,
}
VALUES = st.lists(st.binary(max_size=150), max_size=6)
OFFSETS = st.integers(0, 30) | st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64 - 1])
SIZES = st.sampled_from([0, 1, 13, 30, 100, 300, 1 << 20, 2**32 - 1])
NAMES = st.sampled_from(["topic", "topic", "topic", "topic", "other", ""])
NUMBERS = st.sampled_from([0, 0, 0, 1, 2, 2**32 - 1])
PRODUCES = st.builds(produce, NAMES, NUMBERS, VALUES)
FETCHES = st.builds(fetch, NAMES, NUMBERS, OFFSETS, SIZES)
ACTIONS = st.lists(PRODUCES | FETCHES | FETCHES | st.sampled_from(sorted(DEEDS)), max_size=25)


@given(ACTIONS, st.data())
@settings(deadline=None)
def test_native_and_python_paths_answer_and_store_the_same(
    tmp_path_factory: pytest.TempPathFactory, actions: list[bytes | str], data: st.DataObject
) -> None:
    with two(tmp_path_factory.mktemp("both")) as (fast, slow):
        for action in actions:
            if isinstance(action, str):
                partition = data.draw(st.integers(0, PARTITIONS - 1))
                for each in (fast, slow):
                    each.append(DEEDS[action], partition)
            else:
                assert fast.ask(action) == slow.ask(action)
        assert fast.state() == slow.state()


@given(PRODUCES | FETCHES, st.data())
@settings(deadline=None)
def test_native_and_python_paths_refuse_a_truncated_request_alike(
    tmp_path_factory: pytest.TempPathFactory, request_: bytes, data: st.DataObject
) -> None:
    cut = request_[: data.draw(st.integers(1, len(request_)))]
    with two(tmp_path_factory.mktemp("cut")) as (fast, slow):
        assert fast.ask(cut) == slow.ask(cut)
        assert fast.state() == slow.state()


def test_common_requests_are_served_natively(tmp_path: Path) -> None:
    with two(tmp_path) as (fast, slow):
        for each in (fast, slow):
            assert read_produced(each.ask(produce("topic", 0, [b"a", b"b"]))) == (0, 2)
            assert read_fetched(each.ask(fetch("topic", 0, 0, 999))) == Fetched([b"a", b"b"], 2)

        assert (fast.handed_over, slow.handed_over) == (0, 2)


def read(served: Served, offset: int, max_bytes: int = 1 << 20) -> Fetched:
    """Fetch from partition 0."""
    return read_fetched(served.ask(fetch("topic", 0, offset, max_bytes)))


@pytest.fixture(params=["fast", "slow"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """One of the two."""
    found = Served(tmp_path / request.param, CONFIG, is_fast=request.param == "fast")
    yield found
    found.close()


def test_a_fetch_stops_at_a_gap_and_continues_after_it(served: Served) -> None:
    served.ask(produce("topic", 0, [b"a", b"b"]))
    served.append(with_a_gap, 0)
    served.ask(produce("topic", 0, [b"z"]))

    assert read(served, 0) == Fetched([b"a", b"b", b"left"], 3)
    assert read(served, 3) == Fetched([], 6)
    assert read(served, 4) == Fetched([], 6)
    assert read(served, 6) == Fetched([b"z"], 7)


def test_an_aborted_transaction_is_a_gap(served: Served) -> None:
    served.ask(produce("topic", 0, [b"a"]))
    served.append(write_in_transaction, 0)
    assert read(served, 0) == Fetched([b"a"], 1)
    assert read(served, 1) == Fetched([], 1)
    served.append(end_transaction(is_committed=False), 0)
    served.ask(produce("topic", 0, [b"z"]))

    assert read(served, 0) == Fetched([b"a"], 1)
    assert read(served, 1) == Fetched([], 3)
    assert read(served, 3) == Fetched([b"z"], 4)


def test_a_gap_at_the_end_ends_at_the_log_end(served: Served) -> None:
    served.append(write_in_transaction, 0)
    served.append(end_transaction(is_committed=True), 0)

    assert read(served, 0) == Fetched([b"in a transaction"], 1)
    assert read(served, 1) == Fetched([], 2)
    assert read(served, 2) == Fetched([], 2)


def test_a_fetch_below_the_log_start_returns_no_records_and_the_log_start(served: Served) -> None:
    served.ask(produce("topic", 0, [b"a", b"b", b"c", b"d"]))
    served.append(move_start, 0)

    assert read(served, 0) == Fetched([], 2)
    assert read(served, 1) == Fetched([], 2)
    assert read(served, 2) == Fetched([b"c", b"d"], 4)


def test_a_null_value_is_read_as_an_empty_one(served: Served) -> None:
    served.append(put(encode([(b"key", None)], timestamp_ms=NOW_MS)), 0)

    assert read(served, 0) == Fetched([b""], 1)


def test_a_produce_of_several_batches_gets_consecutive_offsets(served: Served) -> None:
    values = [b"%d" % number * 10 for number in range(40)]

    assert read_produced(served.ask(produce("topic", 0, values))) == (0, 40)
    assert read(served, 0) == Fetched(values, 40)
    assert 1 < len(list(batches(served.partitions[0]))) < len(values)


def test_a_record_above_the_batch_limit_refuses_the_whole_request(served: Served) -> None:
    answer = served.ask(produce("topic", 0, [b"small", bytes(500)]))

    assert answer[:3] == b"\xfe\x01\xf4"
    assert b"max.message.bytes" in answer
    assert read(served, 0) == Fetched([], 0)


def test_an_empty_produce_returns_the_log_end(served: Served) -> None:
    served.ask(produce("topic", 0, [b"a"]))

    assert read_produced(served.ask(produce("topic", 0, []))) == (1, 0)


# ---- a partition that is not in service ----------------------------------------------------------


def says(served: Served, payload: bytes) -> str:
    """Return the error text and code with which a request is answered."""
    answer = served.ask(payload)
    if answer[:1] == b"{":
        return str(json.loads(answer)["Error"]["message"])
    code, text = read_error(answer)
    return f"{code} {text}"


def json_request(name: str, **fields: Any) -> bytes:
    """Return a JSON request about partition 0."""
    return json.dumps({name: {"topic": "topic", "partition": 0, **fields}}).encode()


ASKED = {
    "produce": produce("topic", 0, [b"x"]),
    "empty produce": produce("topic", 0, []),
    "fetch": fetch("topic", 0, 0, 99),
    "topic": b"\x07\x00\x05topic",
    "partition": describe_partition("topic", 0),
    "json produce": json_request("Produce", records=[[1]]),
    "json fetch": json_request("Fetch", offset=0, max_bytes=9),
}
WHERE = {
    "produce": "500 Failed to write record: ",
    "empty produce": "500 Failed to write record: ",
    "fetch": "4 Fetch failed: ",
    "topic": "13 DescribeTopic failed: ",
    "partition": "14 DescribePartition failed: ",
    "json produce": "failed to write record: ",
    "json fetch": "fetch failed: ",
}


@pytest.mark.parametrize("what", ASKED)
def test_a_partition_with_a_failed_disk_is_reported_not_shown_as_empty(
    served: Served, what: str
) -> None:
    served.partitions[0].take_offline("a test")
    served.wire.run()

    why = "the partition is offline: its disk has failed or is full"
    assert says(served, ASKED[what]) == WHERE[what] + why


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("is_fast", [False, True])
def test_a_loading_partition_is_reported_not_shown_as_empty(
    tmp_path: Path, what: str, is_fast: bool
) -> None:
    served = Served(tmp_path / "loading", CONFIG, is_fast=is_fast, is_loading=True)
    try:
        why = "the partition is still loading, try again"
        assert says(served, ASKED[what]) == WHERE[what] + why
    finally:
        served.close()


def test_a_compacted_topic_refuses_a_record_without_a_key(tmp_path: Path) -> None:
    config = TopicConfig({**OWN, "cleanup.policy": "compact"}, load())
    with two(tmp_path, config) as (fast, slow):
        for each in (fast, slow):
            assert says(each, ASKED["produce"]).startswith("500 Failed to write record: ")
            assert each.partitions[0].log_end_offset == 0


def test_a_topic_with_a_compression_type_compresses_rustlog_records_too(tmp_path: Path) -> None:
    config = TopicConfig({**OWN, "compression.type": "gzip"}, load())
    with two(tmp_path, config) as (fast, slow):
        for each in (fast, slow):
            assert read_produced(each.ask(produce("topic", 0, [b"x" * 200]))) == (0, 1)
            assert read(each, 0) == Fetched([b"x" * 200], 1)
            assert [attributes & 7 for _, _, attributes, *_ in batches(each.partitions[0])] == [1]
