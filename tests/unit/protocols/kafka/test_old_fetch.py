"""Fetch v0-3: batches become messages (KIP-31, KIP-32)."""

import asyncio
import struct
from array import array
from typing import Any

import pytest
from typing_extensions import Buffer

from broker._native.kernel.checksum import crc32c
from broker.codec import decode_columns, encode, scan_headers
from broker.codec.compression import compress
from broker.model.limits import (
    OLD_FETCH_BATCH_BYTES,
    OLD_FETCH_BYTES_PER_TURN,
    PYTHON_FETCH_BYTES_MAX,
)
from broker.protocols.kafka import old_messages
from broker.protocols.kafka.old_messages import for_consumer
from tests.oracles.message_set_oracle import LOG_APPEND_TIME, Message
from tests.support.batches import EMPTY, batch_of
from tests.support.fakes import NOW_MS, FakeBroker, only
from tests.support.manual_clock import ManualClock

MAGIC_OF = {0: 0, 1: 0, 2: 1, 3: 1}
GZIP = 1
old_versions = pytest.mark.parametrize("version", list(MAGIC_OF))
cutting_versions = pytest.mark.parametrize("version", [0, 1, 2])
MARKER = batch_of([(b"\0\0\0\1", b"\0" * 6, [])], NOW_MS, is_control=True)


def part(partition: int = 0, offset: int = 0, *, size_max: int = 1 << 20) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": size_max}


def fields(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    topics = [{"topic": "a", "partitions": list(parts)}]
    return {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "topics": topics, **more}


def fetch(
    broker: FakeBroker, version: int, *parts: dict[str, Any], **more: Any
) -> list[dict[str, Any]]:
    """Fetch from topic "a" and return the partitions of the response."""
    answer = broker.ask(1, version, **fields(*parts, **more))
    return only(answer["responses"])["partitions"]


def put(broker: FakeBroker, *values: bytes, partition: int = 0, **how: Any) -> None:
    """Append a batch."""
    [data] = encode([(b"k", value) for value in values], timestamp_ms=NOW_MS, **how)
    status, *_ = broker.log("a", partition).append(data)
    assert status == 0


def message(magic: int, offset: int, value: bytes) -> bytes:
    return Message(offset, b"k", value, magic, timestamp=NOW_MS).encode()


def offsets_of(records: bytes) -> list[int]:
    return memoryview(decode_columns(records).column("offset")).tolist()


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a", 3)
    return broker


# ---- the conversion of a batch -------------------------------------------------------------------


@old_versions
def test_records_are_returned_as_messages_of_the_versions_magic(
    broker: FakeBroker, version: int
) -> None:
    put(broker, b"one", b"two")
    put(broker, b"three")

    answer = only(fetch(broker, version, part()))

    magic = MAGIC_OF[version]
    assert (answer["error_code"], answer["high_watermark"]) == (0, 3)
    assert answer["records"] == b"".join(
        message(magic, place, value) for place, value in enumerate([b"one", b"two", b"three"])
    )


@old_versions
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_a_compressed_batch_is_returned_as_a_wrapper_with_its_codec(
    broker: FakeBroker, version: int, codec: str
) -> None:
    put(broker, b"before")
    put(broker, b"one", b"two", compression=codec)

    records = only(fetch(broker, version, part(0, 1)))["records"]

    magic = MAGIC_OF[version]
    number = ["none", "gzip", "snappy", "lz4"].index(codec)
    first = 0 if magic else 1  # relative, or absolute
    inner = message(magic, first, b"one") + message(magic, first + 1, b"two")
    wrapper = Message(
        2, None, compress(number, inner, magic=magic), magic, attributes=number, timestamp=NOW_MS
    )
    assert records == wrapper.encode()


def test_headers_and_producer_ids_are_dropped(broker: FakeBroker) -> None:
    rows = [(b"k", b"v", [("name", b"value")])]
    [data] = encode(rows, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0)
    broker.log("a").append(data)

    assert only(fetch(broker, 2, part()))["records"] == message(1, 0, b"v")


@pytest.mark.parametrize("version", [1, 2])
def test_log_append_time_is_returned_in_magic_1(broker: FakeBroker, version: int) -> None:
    put(broker, b"v", timestamp_type="LogAppendTime")

    expected = Message(0, b"k", b"v", MAGIC_OF[version], timestamp=NOW_MS)
    expected.attributes = LOG_APPEND_TIME if version == 2 else 0
    assert only(fetch(broker, version, part()))["records"] == expected.encode()


@old_versions
def test_records_of_open_and_aborted_transactions_are_returned(
    broker: FakeBroker, version: int
) -> None:
    data = batch_of(
        [(b"k", b"v", [])], NOW_MS, producer_id=1, producer_epoch=0, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    broker.log("a").admit_transaction(1, 0)
    broker.log("a").append(data)

    assert offsets_of(only(fetch(broker, version, part()))["records"]) == [0]


@old_versions
def test_a_zstd_batch_is_an_unsupported_compression(broker: FakeBroker, version: int) -> None:
    put(broker, b"before")
    put(broker, b"v", compression="zstd")

    # What stands before it first.
    assert offsets_of(only(fetch(broker, version, part()))["records"]) == [0]
    answer = only(fetch(broker, version, part(0, 1)))
    assert (answer["error_code"], answer["high_watermark"], answer["records"]) == (76, -1, b"")


@old_versions
def test_a_batch_that_decompresses_above_the_limit_is_too_large(
    broker: FakeBroker, version: int
) -> None:
    put(broker, b"\0" * (17 << 20), compression="gzip", batch_bytes_max=1 << 30)

    assert only(fetch(broker, version, part()))["error_code"] == 10


@old_versions
def test_a_damaged_batch_is_corrupt(broker: FakeBroker, version: int) -> None:
    put(broker, b"value")
    [(base, last, data)] = broker.log("a").batches
    broker.log("a").batches = [(base, last, data[:-1] + b"!")]

    assert only(fetch(broker, version, part()))["error_code"] == 2


# ---- batches without messages
# ------------------------------------------------------------------------


@old_versions
def test_markers_are_skipped_however_small_the_limit(broker: FakeBroker, version: int) -> None:
    for _ in range(100):
        broker.log("a").append(MARKER)
    put(broker, b"v")

    for size_max in (1 << 20, 200):
        answer = only(fetch(broker, version, part(0, 3, size_max=size_max)))
        assert offsets_of(answer["records"]) == [100]


@old_versions
def test_a_fetch_waits_after_a_marker_at_the_end_of_the_log(
    broker: FakeBroker, version: int
) -> None:
    """Its reader cannot pass it: answered at once, it would ask again without a pause."""
    broker.log("a").append(MARKER)

    async def scenario() -> Any:
        fetched = asyncio.create_task(
            broker.ask_soon(1, version, **fields(part(), max_wait_ms=60_000))
        )
        await asyncio.sleep(0.01)
        assert not fetched.done()
        put(broker, b"v")
        return await fetched

    answer = asyncio.run(scenario())

    records = only(only(answer["responses"])["partitions"])["records"]
    assert offsets_of(records) == [1]


def compacted(last_offset: int, codec: str) -> bytes:
    """Return a batch of offsets 0 and 2 that ends at a later one."""
    rows: dict[str, Buffer] = {
        "data": b"02",
        "offset": array("q", [0, 2]),
        "value_start": array("i", [0, 1]),
        "value_length": array("i", [1, 1]),
    }
    [batch] = encode(rows, base_offset=None, compression=codec, timestamp_ms=NOW_MS)
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 23, last_offset)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


@old_versions
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_offset_gaps_left_by_compaction_are_kept(
    broker: FakeBroker, version: int, codec: str
) -> None:
    broker.log("a").append(compacted(5, codec))
    put(broker, b"v")

    answer = only(fetch(broker, version, part()))

    assert offsets_of(answer["records"]) == [0, 2, 6]


@old_versions
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_fetch_within_a_gap_returns_the_records_after_it(
    broker: FakeBroker, version: int, codec: str
) -> None:
    broker.log("a").append(compacted(5, codec))
    put(broker, b"v")

    assert offsets_of(only(fetch(broker, version, part(0, 3)))["records"]) == [6]


@old_versions
def test_batches_emptied_by_compaction_are_skipped(broker: FakeBroker, version: int) -> None:
    broker.log("a").append(EMPTY)
    put(broker, b"v")

    count = scan_headers(EMPTY)[0].last_offset + 1
    assert offsets_of(only(fetch(broker, version, part()))["records"]) == [count]


# ---- limits --------------------------------------------------------------------------------------


@cutting_versions
def test_a_partition_is_truncated_at_its_limit_within_a_message(
    broker: FakeBroker, version: int
) -> None:
    put(broker, b"first", b"second", b"third")
    whole = only(fetch(broker, version, part()))["records"]

    for size_max in range(len(whole) + 1):
        answer = only(fetch(broker, version, part(size_max=size_max)))
        assert answer["records"] == whole[:size_max]


@cutting_versions
def test_every_partition_has_its_own_limit(broker: FakeBroker, version: int) -> None:
    for partition in range(3):
        put(broker, b"v" * 100, b"v" * 100, partition=partition)

    parts = fetch(broker, version, *(part(index, size_max=150) for index in range(3)))

    assert [len(each["records"]) for each in parts] == [150, 150, 150]


@cutting_versions
def test_a_wrapper_above_the_limit_is_returned_truncated_with_its_size(
    broker: FakeBroker, version: int
) -> None:
    put(broker, *(b"%d" % place for place in range(200)), compression="gzip")

    records = only(fetch(broker, version, part(size_max=60)))["records"]

    size = int.from_bytes(records[8:12])
    assert len(records) == 60 < size + 12


@cutting_versions
def test_the_limit_over_all_partitions_ends_between_messages(version: int) -> None:
    broker = FakeBroker({"fetch.max.bytes": "1100"})
    broker.create("a", 3)
    for partition in range(3):
        put(broker, b"v" * 300, partition=partition)
        put(broker, b"v" * 300, partition=partition)

    parts = fetch(broker, version, *map(part, range(3)), max_wait_ms=60_000)

    # Space for three messages, and for the third batch.
    assert [len(offsets_of(each["records"])) for each in parts] == [2, 1, 0]
    size = len(message(MAGIC_OF[version], 0, b"v" * 300))
    assert [len(each["records"]) for each in parts] == [2 * size, size, 0]


@old_versions
def test_one_fetch_returns_no_more_than_a_turn_of_the_loop_can_copy(
    broker: FakeBroker, version: int
) -> None:
    for _ in range(5):
        put(broker, b"v" * 900_000)

    answer = only(fetch(broker, version, part(size_max=5 << 20)))

    assert offsets_of(answer["records"]) == [0, 1]
    assert PYTHON_FETCH_BYTES_MAX // 2 < len(answer["records"]) <= PYTHON_FETCH_BYTES_MAX


@cutting_versions
def test_successive_fetches_begin_with_different_partitions(version: int) -> None:
    broker = FakeBroker({"fetch.max.bytes": "1100"})
    broker.create("a", 3)
    for partition in range(3):
        for _ in range(3):
            put(broker, b"v" * 300, partition=partition)
    most = []

    for _ in range(3):
        parts = fetch(broker, version, *map(part, range(3)))
        counts = [len(offsets_of(each["records"])) for each in parts]
        most.append(counts.index(max(counts)))
        assert isinstance(broker.broker.clock, ManualClock)
        broker.broker.clock.advance(1)

    assert sorted(most) == [0, 1, 2]


@old_versions
def test_other_tasks_run_while_many_partitions_are_read(broker: FakeBroker, version: int) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        task = asyncio.create_task(others())
        await broker.ask_soon(1, version, **fields(*[part()] * 2000))
        task.cancel()

    asyncio.run(scenario())

    assert turns >= 2000 * OLD_FETCH_BATCH_BYTES // OLD_FETCH_BYTES_PER_TURN - 1


def test_version_3_returns_whole_messages_and_at_least_one(broker: FakeBroker) -> None:
    put(broker, b"v" * 100)
    put(broker, b"v" * 100)
    put(broker, b"v" * 100, partition=1)

    parts = fetch(broker, 3, part(0, size_max=1), part(1, size_max=1))
    assert [offsets_of(each["records"]) for each in parts] == [[0], []]

    parts = fetch(broker, 3, part(0), part(1), max_bytes=1)
    assert [offsets_of(each["records"]) for each in parts] == [[0], []]

    parts = fetch(broker, 3, part(0, size_max=350), part(1, size_max=350), max_bytes=550)
    assert [offsets_of(each["records"]) for each in parts] == [[0, 1], [0]]


def test_version_3_returns_a_whole_first_batch_that_exceeds_the_limit_once_converted(
    broker: FakeBroker,
) -> None:
    put(broker, *[b""] * 50)
    stored = broker.log("a").batches[0][2]

    answer = only(fetch(broker, 3, part(size_max=len(stored))))

    assert offsets_of(answer["records"]) == list(range(50))
    assert len(answer["records"]) > len(stored)


@old_versions
def test_a_batch_that_takes_long_is_converted_in_a_thread(broker: FakeBroker, version: int) -> None:
    values = [b"v" * 1000] * (OLD_FETCH_BYTES_PER_TURN // 1000 + 1)
    put(broker, *values, batch_bytes_max=1 << 20)

    answer = only(fetch(broker, version, part()))

    assert offsets_of(answer["records"]) == list(range(len(values)))


@old_versions
def test_many_small_batches_are_read_in_pieces(broker: FakeBroker, version: int) -> None:
    for _ in range(500):
        put(broker, b"v" * 1000)

    answer = only(fetch(broker, version, part()))

    assert offsets_of(answer["records"]) == list(range(500))


@old_versions
def test_an_offset_within_a_plain_batch_begins_with_its_message(
    broker: FakeBroker, version: int
) -> None:
    put(broker, *[b"v"] * 10)

    assert offsets_of(only(fetch(broker, version, part(0, 7)))["records"]) == [7, 8, 9]


@old_versions
def test_an_offset_within_a_compressed_batch_returns_the_whole_wrapper(
    broker: FakeBroker, version: int
) -> None:
    put(broker, *[b"v"] * 10, compression="gzip")

    assert offsets_of(only(fetch(broker, version, part(0, 7)))["records"]) == list(range(10))


# ---- errors and waiting --------------------------------------------------------------------------


@old_versions
def test_errors_of_a_partition_are_known_to_old_clients(broker: FakeBroker, version: int) -> None:
    put(broker, b"v")
    broker.log("a", 1).fail()
    broker.log("a", 2).is_loading = True

    parts = fetch(broker, version, part(0, 2), part(0, -1), part(1), part(2), part(3))

    assert [(each["error_code"], each["high_watermark"]) for each in parts] == [
        (1, -1), (1, -1), (6, -1), (6, -1), (3, -1),
    ]  # fmt: skip


@old_versions
def test_an_unknown_replica_id_is_refused(broker: FakeBroker, version: int) -> None:
    assert only(fetch(broker, version, part(), replica_id=2))["error_code"] == 6


@old_versions
def test_a_fetch_waits_for_min_bytes_of_messages_and_converts_nothing_twice(
    broker: FakeBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted: list[int] = []

    def counting(batch: Any, *more: Any) -> bytes:
        converted.append(len(batch))
        return for_consumer(batch, *more)

    monkeypatch.setattr(old_messages, "for_consumer", counting)
    size = len(message(MAGIC_OF[version], 0, b"v"))

    async def scenario() -> Any:
        fetched = asyncio.create_task(
            broker.ask_soon(
                1, version, **fields(part(0), part(1), max_wait_ms=60_000, min_bytes=3 * size)
            )
        )
        for partition in (0, 1):
            await asyncio.sleep(0.005)
            assert not fetched.done()
            put(broker, b"v", partition=partition)
        await asyncio.sleep(0.005)
        assert not fetched.done()
        put(broker, b"v")
        return await fetched

    answer = asyncio.run(scenario())

    parts = only(answer["responses"])["partitions"]
    assert [offsets_of(each["records"]) for each in parts] == [[0, 1], [0]]
    assert len(converted) == 3


@old_versions
def test_a_fetch_returns_all_partitions_at_its_deadline(broker: FakeBroker, version: int) -> None:
    parts = fetch(broker, version, part(0), part(1), max_wait_ms=5)

    assert [each["records"] for each in parts] == [b"", b""]


@old_versions
def test_an_error_and_a_failing_log_end_the_wait(broker: FakeBroker, version: int) -> None:
    async def scenario() -> Any:
        fetched = asyncio.create_task(
            broker.ask_soon(1, version, **fields(part(0), part(1), max_wait_ms=60_000))
        )
        await asyncio.sleep(0.005)
        broker.log("a", 1).fail()
        return await fetched

    parts = fetch(broker, version, part(0), part(9), max_wait_ms=60_000)
    assert [each["error_code"] for each in parts] == [0, 3]
    answer = asyncio.run(scenario())
    assert [each["error_code"] for each in only(answer["responses"])["partitions"]] == [0, 6]


@old_versions
def test_min_bytes_0_and_a_fetch_of_no_partitions_do_not_wait(
    broker: FakeBroker, version: int
) -> None:
    assert fetch(broker, version, part(), min_bytes=0, max_wait_ms=60_000)
    assert broker.ask(1, version, **fields(topics=[], max_wait_ms=60_000))["responses"] == []


@old_versions
def test_records_above_the_high_watermark_are_not_returned(
    broker: FakeBroker, version: int
) -> None:
    put(broker, b"v")
    broker.log("a").is_held = True
    put(broker, b"v")

    answer = only(fetch(broker, version, part()))

    assert (offsets_of(answer["records"]), answer["high_watermark"]) == ([0], 1)


@old_versions
def test_a_debugging_consumer_reads_what_clients_read(broker: FakeBroker, version: int) -> None:
    put(broker, b"v")
    broker.log("a").is_held = True
    put(broker, b"v")

    answer = only(fetch(broker, version, part(), replica_id=-2))

    assert (answer["error_code"], offsets_of(answer["records"])) == (0, [0])
