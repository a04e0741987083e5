"""Records one by one, for readers without isolation levels (core/logs/reading)."""

import asyncio
from pathlib import Path

import pytest

from broker.codec.control_records import Marker, encode_marker
from broker.codec.encoding import Row, encode
from broker.core.logs.reading import StoredValue, Unreadable, committed_values
from broker.core.logs.recompression import Recompression
from broker.model import limits
from tests.support.native_log import NOW_MS, Logs

PRODUCER = 7


class Partition:
    """A log whose turns end after each append."""

    def __init__(self, path: Path) -> None:
        self._logs = Logs(path)
        self.log = self._logs.create(is_group_commit=False)

    def append(self, *values: bytes, codec: str = "none") -> None:
        self._take(encode(values, compression=codec, timestamp_ms=NOW_MS, batch_bytes_max=1 << 30))

    def append_rows(self, *rows: Row) -> None:
        self._take(encode(rows, timestamp_ms=NOW_MS))

    def send(self, producer: int, epoch: int, value: bytes) -> None:
        """Append in a transaction of a producer."""
        self.log.admit_transaction(producer, epoch)
        batches = encode(
            [value],
            timestamp_ms=NOW_MS,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self._take(batches)

    def end(self, producer: int, epoch: int, *, is_committed: bool) -> None:
        marker = Marker(producer, epoch, is_committed, 0)
        self.log.append_internal(encode_marker(marker, timestamp_ms=NOW_MS))
        self._logs.turn.end()

    def _take(self, batches: list[bytes]) -> None:
        for batch in batches:
            assert self.log.append(batch)[0] == 0
        self._logs.turn.end()


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(tmp_path)


def read(partition: Partition, offset: int) -> list[tuple[int, bytes | None]]:
    found = read_all(partition, offset)
    return [
        (each.offset, None if each.value is None else bytes(each.value))
        for each in found
        if isinstance(each, StoredValue)
    ]


def read_all(partition: Partition, offset: int) -> list[StoredValue | Unreadable]:
    async def all_of() -> list[StoredValue | Unreadable]:
        return [each async for each in committed_values(partition.log, offset, Recompression().run)]

    return asyncio.run(all_of())


def test_records_are_read_from_an_offset_even_within_a_batch(partition: Partition) -> None:
    partition.append(b"a", b"b", b"c")
    partition.append(b"d", codec="gzip")

    assert read(partition, 1) == [(1, b"b"), (2, b"c"), (3, b"d")]


def test_other_tasks_run_between_unreadable_batches(partition: Partition, tmp_path: Path) -> None:
    for _ in range(20):
        partition.append(b"damaged")
    [file] = tmp_path.rglob("*.log")
    file.write_bytes(file.read_bytes().replace(b"damaged", b"DAMAGED"))

    async def turns() -> int:
        count = 0

        async def others() -> None:
            nonlocal count
            while True:
                await asyncio.sleep(0)
                count += 1

        beside = asyncio.create_task(others())
        async for each in committed_values(partition.log, 0, Recompression().run):
            assert isinstance(each, Unreadable)
        beside.cancel()
        return count

    assert asyncio.run(turns()) >= 20


def test_a_read_at_the_end_is_empty(partition: Partition) -> None:
    partition.append(b"a")

    assert read(partition, 1) == []
    assert read(partition, 99) == []


def test_a_read_below_the_log_start_begins_at_the_first_available_record(
    partition: Partition,
) -> None:
    partition.append(b"a")
    partition.append(b"b")
    partition.log.move_log_start(1)

    assert read(partition, 0) == [(1, b"b")]
    assert read(partition, -5) == [(1, b"b")]


def test_a_read_stops_at_an_open_transaction(partition: Partition) -> None:
    partition.append(b"a")
    partition.send(PRODUCER, 0, b"t")
    partition.append(b"b")

    assert read(partition, 0) == [(0, b"a")]


def test_markers_and_aborted_records_are_skipped(partition: Partition) -> None:
    partition.send(PRODUCER, 0, b"lost")
    partition.append(b"plain")
    partition.end(PRODUCER, 0, is_committed=False)
    partition.send(PRODUCER + 1, 0, b"kept")
    partition.end(PRODUCER + 1, 0, is_committed=True)

    assert read(partition, 0) == [(1, b"plain"), (3, b"kept")]


def test_records_committed_by_a_producer_after_an_abort_are_read(partition: Partition) -> None:
    partition.send(PRODUCER, 0, b"lost")
    partition.end(PRODUCER, 0, is_committed=False)
    partition.send(PRODUCER, 1, b"kept")
    partition.end(PRODUCER, 1, is_committed=True)

    assert read(partition, 0) == [(2, b"kept")]


def test_a_batch_that_decompresses_to_many_bytes_is_read_in_a_thread(partition: Partition) -> None:
    value = bytes(30 << 20)
    partition.append(b"a", value, b"c", codec="zstd")

    assert read(partition, 1) == [(1, value), (2, b"c")]


def test_a_batch_that_decompresses_above_the_limit_is_skipped_and_reported(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "READ_DECOMPRESSED_BYTES_MAX", 17 << 20)
    partition.append(b"a")
    partition.append(bytes(20 << 20), b"lost", codec="gzip")
    partition.append(b"d")

    assert read(partition, 0) == [(0, b"a"), (3, b"d")]
    assert [each.offset for each in read_all(partition, 2)] == [2, 3]
    assert isinstance(read_all(partition, 2)[0], Unreadable)


def test_a_damaged_batch_is_skipped_and_reported(partition: Partition, tmp_path: Path) -> None:
    partition.append(b"a")
    partition.append(b"damaged")
    partition.append(b"c")
    [file] = tmp_path.rglob("*.log")
    file.write_bytes(file.read_bytes().replace(b"damaged", b"DAMAGED"))

    first, second, third = read_all(partition, 0)

    assert (first.offset, second.offset, third.offset) == (0, 1, 2)
    assert isinstance(second, Unreadable)


def test_null_is_not_an_empty_value(partition: Partition) -> None:
    partition.append_rows((None, None, ()), (None, b"", ()))

    assert read(partition, 0) == [(0, None), (1, b"")]
