"""Digests of closed segments, and what happens to damaged ones."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker._native.log import moving
from broker._native.log.partition_log import PartitionLog
from broker.core.maintenance.scrub import Scrub, Settings
from broker.core.scheduling.io_thread import IoThread
from broker.model.errors import StorageError
from broker.model.limits import SCRUB_LOOK_SECONDS
from broker.model.log_results import LogEvent
from broker.segments.digests import Digest, read_digest
from broker.storage.files import damages
from tests.support.batches import batch_of
from tests.support.manual_clock import ManualClock
from tests.support.native_log import NOW_MS, Logs, appended, records

HOUR_MS = 3_600_000
BATCH = len(records(1, size=200))


class Bench:
    """A log of closed segments of 5 batches under a scrub without a rate limit."""

    def __init__(self, path: Path, segments: int = 3) -> None:
        self.logs = Logs(path)
        self.clock = ManualClock(NOW_MS)
        self.swapping = False
        self.log = self.logs.create(segment_bytes_max=5 * BATCH, index_interval_bytes=1)
        for _ in range(5 * segments + 1):
            appended(self.log, records(1, size=200))
        self.logs.settle(self.log)
        self.io_thread = IoThread()
        self.scrub = Scrub(
            lambda: [(self.log, None)],
            self.clock,
            self.io_thread,
            self.on_disk,
            lambda _: self.swapping,
            lambda: Settings(HOUR_MS, 1 << 40),
        )

    async def on_disk(self, work: Callable[[], Any]) -> bool:
        work()
        return True

    def run(self) -> None:
        asyncio.run(self.scrub.scrub())

    def take_digests(self, rolls: int) -> None:
        self.scrub.rolled([self.log] * rolls)
        asyncio.run(self.scrub.take_digests())

    def file(self, base: int) -> Path:
        return self.logs.folder() / f"{base:020}.log"

    def flip(self, base: int, position: int, bit: int = 0) -> None:
        data = bytearray(self.file(base).read_bytes())
        data[position] ^= 1 << bit
        with self.file(base).open("r+b") as file:
            file.write(data)

    def digest(self, base: int) -> Digest | None:
        return read_digest(self.logs.folder(), base)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def read(log: PartitionLog, offset: int) -> bytes:
    return log.read(offset, 1)


def test_closed_segments_get_a_digest_and_the_active_one_none(bench: Bench) -> None:
    bench.take_digests(2)
    assert bench.digest(0) is None
    assert [digest and digest.size for digest in map(bench.digest, (5, 10, 15))] == [
        5 * BATCH,
        5 * BATCH,
        None,
    ]


def test_a_digest_waits_until_its_segment_is_on_the_disk_and_no_swap_is_in_progress(
    bench: Bench,
) -> None:
    bench.swapping = True
    bench.take_digests(1)
    assert bench.digest(10) is None
    bench.swapping = False
    asyncio.run(bench.scrub.take_digests())
    assert bench.digest(10) is not None


def test_a_scrub_computes_missing_digests(bench: Bench) -> None:
    bench.run()
    assert all(bench.digest(base) for base in (0, 5, 10))


def test_a_segment_is_scrubbed_again_only_after_the_interval(bench: Bench) -> None:
    bench.run()
    bench.clock.advance(HOUR_MS - 1)
    bench.run()
    assert [bench.digest(base).checked_ms for base in (0, 5, 10)] == [NOW_MS] * 3  # type: ignore[union-attr]
    bench.clock.advance(1)
    bench.run()
    assert bench.digest(0).checked_ms == NOW_MS + HOUR_MS  # type: ignore[union-attr]


def test_damage_is_logged_and_refused_while_everything_around_it_is_served(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.flip(5, 2 * BATCH + 100)
    with caplog.at_level(logging.ERROR):
        bench.run()
    [message] = [record.getMessage() for record in caplog.records]
    assert message == (
        f"damaged records are refused: folder=topic-0 segment={5:020}.log"
        f" bytes={2 * BATCH}..{3 * BATCH} offsets=7..8: a CRC that does not fit"
    )
    assert bench.log.damaged_ranges == [(7, 8)]
    with pytest.raises(StorageError, match="offset 7 are damaged"):
        read(bench.log, 7)
    for offset in [*range(7), *range(8, 16)]:
        assert int.from_bytes(read(bench.log, offset)[:8]) == offset
    assert len(bench.log.read(5, 1 << 20)) == 2 * BATCH
    assert len(bench.log.read(8, 1 << 20)) == 2 * BATCH


@pytest.mark.parametrize("place", [0, 8, 16])
def test_records_after_a_broken_header_are_found(bench: Bench, place: int) -> None:
    bench.flip(5, 2 * BATCH + place, 6)
    bench.run()
    assert bench.log.damaged_ranges == [(7, 8)]
    for offset in [*range(7), *range(8, 16)]:
        assert int.from_bytes(read(bench.log, offset)[:8]) == offset
    with pytest.raises(StorageError):
        read(bench.log, 7)
    assert bench.log.is_in_service


def test_damage_found_only_by_the_digest_refuses_the_whole_segment(bench: Bench) -> None:
    bench.run()
    bench.flip(5, 4 * BATCH + 15)
    bench.clock.advance(HOUR_MS)
    bench.run()
    assert bench.log.damaged_ranges == [(5, 10)]
    assert read(bench.log, 4)
    assert read(bench.log, 10)


def test_a_damaged_segment_keeps_its_digest_and_is_scrubbed_first_after_a_restart(
    bench: Bench,
) -> None:
    bench.run()
    before = bench.digest(5)
    bench.flip(5, 100)
    bench.clock.advance(HOUR_MS)
    bench.run()
    assert before is not None
    assert bench.digest(5) == before._replace(checked_ms=0)


def test_a_segment_found_damaged_gets_no_digest(bench: Bench) -> None:
    bench.flip(10, 100)
    bench.take_digests(1)
    assert bench.digest(10) is None
    assert bench.log.damaged_ranges == [(10, 11)]


def test_damage_is_known_after_a_restart_before_any_scrub(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.flip(5, 2 * BATCH + 100)
    bench.run()
    end = bench.log.log_end_offset

    log = bench.logs.attach(end)
    damages.restore(log, [5])

    assert log.damaged_ranges == [(7, 8)]
    assert "damaged records are still refused" in caplog.text
    with pytest.raises(StorageError, match="offset 7 are damaged"):
        read(log, 7)
    assert read(log, 6)
    assert read(log, 8)


def test_a_repaired_segment_is_served_and_its_damage_forgotten(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.flip(5, 2 * BATCH + 100)
    bench.run()
    bench.flip(5, 2 * BATCH + 100)
    bench.clock.advance(HOUR_MS)

    bench.run()

    assert "a damaged segment is intact again" in caplog.text
    assert read(bench.log, 7)
    assert damages.read(bench.logs.folder(), 5) == []
    assert not list(bench.logs.folder().glob("*.damage"))


def test_a_log_in_which_damage_is_found_is_reported(bench: Bench) -> None:
    reported: list[tuple[object, int | None]] = []
    bench.scrub.when_damaged(lambda log: reported.append((log, log.first_damage)))
    bench.flip(5, 2 * BATCH + 100)

    bench.run()

    assert reported == [(bench.log, 7)]


def test_a_log_that_is_cut_above_its_damage_stays_listed(bench: Bench) -> None:
    bench.flip(5, position=2 * BATCH + 100)
    bench.run()
    bench.log.begin_loading()

    during = bench.scrub.damaged()
    bench.log.end_loading()

    assert during == bench.scrub.damaged() == [Path(bench.log.folder).name]


def test_damage_met_by_a_reader_is_narrowed_by_a_check_of_the_segment(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.flip(5, 2 * BATCH + 8, 6)  # the length of the batch at 7
    with pytest.raises(StorageError, match="offset 7 are damaged"):
        read(bench.log, 7)
    assert bench.log.damaged_ranges == [(7, 10)]
    assert bench.logs.turn.events[-1] == (LogEvent.BROKEN, bench.log)

    bench.scrub.broken([bench.log, bench.log])
    asyncio.run(bench.scrub.take_digests())

    assert bench.log.damaged_ranges == [(7, 8)]
    assert read(bench.log, 8)
    assert damages.read(bench.logs.folder(), 5) == [(7, 8, 2 * BATCH, 3 * BATCH)]
    assert caplog.text.count("damaged records are refused") == 1


def test_a_wrong_index_is_logged_and_affects_no_record(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    index = bench.file(5).with_suffix(".index")
    data = bytearray(index.read_bytes())
    data[7] ^= 1
    index.write_bytes(data)
    with caplog.at_level(logging.ERROR):
        bench.run()
    assert "index does not agree with its log" in caplog.text
    assert bench.log.damaged_ranges == []


@pytest.fixture
def aborted(bench: Bench) -> Path:
    """Return the aborted transactions, one of two records, of a segment that has its digest."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    bench.log.admit_transaction(7, 0)
    for sequence in range(2):
        appended(bench.log, records(1, size=200, base_sequence=sequence, **fields))
    bench.log.append_internal(
        batch_of([(b"\0\0\0\0", b"\0" * 6, [])], NOW_MS, is_control=True, **fields)
    )
    bench.log.roll()
    bench.logs.settle(bench.log)
    bench.run()
    return bench.file(15).with_suffix(".txnindex")


FIRST_OFFSET_END = 17  # the last byte of the first offset of an aborted transaction


@pytest.mark.parametrize("damage", ["a flip that no batch can show", "lost"])
def test_aborted_transactions_that_differ_from_the_index_are_logged(
    bench: Bench, aborted: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = bench.digest(15)
    assert before is not None
    if damage == "lost":
        aborted.unlink()
    else:
        content = bytearray(aborted.read_bytes())
        content[FIRST_OFFSET_END] ^= 1
        aborted.write_bytes(content)
    for _ in range(2):  # it is not recorded as if it were right
        bench.clock.advance(HOUR_MS)
        caplog.clear()

        bench.run()

        assert "index does not agree with its log" in caplog.text
        assert "wrong_aborted=1" in caplog.text
    assert bench.digest(15) == before._replace(checked_ms=0)
    assert bench.log.damaged_ranges == []


def test_deleted_segments_are_skipped(bench: Bench) -> None:
    bench.file(5).unlink()
    bench.log.move_log_start(10)
    bench.log.drop_segments(9)
    bench.take_digests(2)
    assert bench.digest(5) is None
    assert bench.digest(10) is not None


def test_a_scrub_does_not_exceed_its_rate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    scrub = Scrub(
        lambda: [(bench.log, None)],
        bench.clock,
        bench.io_thread,
        bench.on_disk,
        lambda _: False,
        lambda: Settings(HOUR_MS, 1_000),
    )
    asyncio.run(scrub.scrub())
    assert sum(slept) == pytest.approx(3 * 5 * BATCH / 1_000)


def test_the_scrub_looks_for_new_segments_periodically(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    looks = 0

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) <= 3, "it sleeps and does not look"

    def no_logs() -> list[Any]:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise asyncio.CancelledError
        return []

    monkeypatch.setattr(asyncio, "sleep", sleep)
    scrub = Scrub(
        no_logs,
        bench.clock,
        bench.io_thread,
        bench.on_disk,
        lambda _: False,
        lambda: Settings(HOUR_MS, 1_000),
    )

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scrub.run())
    assert slept == [SCRUB_LOOK_SECONDS] * 3


def test_a_disabled_scrub_reads_nothing(bench: Bench) -> None:
    scrub = Scrub(
        lambda: [(bench.log, None)],
        bench.clock,
        bench.io_thread,
        bench.on_disk,
        lambda _: False,
        partial(Settings, -1, 1_000),
    )
    asyncio.run(scrub.scrub())
    assert bench.digest(0) is None


class CuttingThread(IoThread):
    """Has the log cut at an offset while a segment is examined."""

    def __init__(self, bench: Bench, offset: int) -> None:
        super().__init__()
        self.bench = bench
        self.offset = offset
        self.cuts = 0

    async def run(self, work: Callable[[], Any]) -> Any:
        found = await super().run(work)
        if isinstance(work, partial) and work.func.__name__ == "step" and not self.cuts:
            self.cuts += 1
            await self.bench.scrub.cut(self.bench.log, self.offset)
        return found


def test_what_was_read_before_a_cut_says_nothing(bench: Bench) -> None:
    bench.flip(0, 2 * BATCH + 100)
    bench.scrub._io_thread = thread = CuttingThread(bench, 16)

    bench.run()
    assert thread.cuts == 1
    assert bench.log.damaged_ranges == []
    assert (bench.digest(0), bench.digest(5) is None) == (None, False)

    bench.run()
    assert bench.log.damaged_ranges == [(2, 3)]


class MovingThread(CuttingThread):
    """Has the log move to another folder after that cut."""

    async def run(self, work: Callable[[], Any]) -> Any:
        before = self.cuts
        found = await super().run(work)
        if self.cuts > before:
            self._move()
        return found

    def _move(self) -> None:
        folder = Path(self.bench.log.folder)
        moved = folder.parent / "other" / folder.name
        moved.parent.mkdir()
        folder.rename(moved)
        moving.renamed(self.bench.log, str(moved))


def test_what_was_read_before_a_cut_and_a_move_says_nothing(bench: Bench) -> None:
    bench.flip(0, 2 * BATCH + 100)
    bench.scrub._io_thread = MovingThread(bench, 16)

    bench.run()
    assert bench.log.damaged_ranges == []

    bench.run()
    assert bench.log.damaged_ranges == [(2, 3)]


def test_segments_after_a_cut_wait_for_no_digest(bench: Bench) -> None:
    bench.scrub.rolled([bench.log] * 3)

    asyncio.run(bench.scrub.cut(bench.log, 10))
    asyncio.run(bench.scrub.take_digests())

    assert [bench.digest(base) is None for base in (0, 5, 10)] == [False, False, True]


def test_segments_of_a_log_that_was_cut_are_due_again(bench: Bench) -> None:
    bench.run()
    bench.file(0).with_suffix(".digest").unlink()
    bench.run()
    assert bench.digest(0) is None  # it was checked just now

    asyncio.run(bench.scrub.cut(bench.log, 16))
    bench.run()

    assert bench.digest(0) is not None
