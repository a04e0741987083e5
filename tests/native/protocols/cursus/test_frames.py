"""Cursus's frames made of stored batches: equal to one record at a time, and where they end."""

import errno
import re
import struct
from typing import Any

import crc32c
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.frames import CursusFrame
from broker.codec import records as decoded
from broker.codec.compression import compress
from broker.model.compressions import GZIP
from broker.model.limits import CURSUS_READ_BYTES_PER_STEP
from tests.support.batches import batch_of
from tests.support.cursus_client import Message, batch, read_batch
from tests.support.native_log import NOW_MS, Logs, appended, records

MANY = 1000
BYTES_MAX = 1 << 20
FRAME_MAX = 16 << 20
READ_BYTES = CURSUS_READ_BYTES_PER_STEP
HEADER = 61
ABORT, COMMIT = 0, 1
UINT64_MAX = (1 << 64) - 1
NAMES = st.sampled_from(
    (
        b"cursus.producer_id",
        b"cursus.seq_num",
        b"cursus.epoch",
        b"cursus.event_type",
        b"cursus.schema_version",
        b"cursus.aggregate_version",
        b"cursus.metadata",
        b"cursus.other_texts",
        b"cursus.",
        b"other",
    )
)
NUMBERS = st.integers(-(1 << 65), 1 << 65).map(lambda number: b"%d" % number)
HEADERS = st.lists(st.tuples(NAMES, st.none() | NUMBERS | st.binary(max_size=6)), max_size=5)
ROWS = st.lists(
    st.tuples(st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=40), HEADERS),
    min_size=1,
    max_size=8,
)
LAYOUTS = pytest.mark.parametrize("is_original", [False, True])


def put(logs: Logs, log: PartitionLog, batch: bytes) -> int:
    """Append a batch and make it visible; return its base offset."""
    base_offset = appended(log, batch)
    logs.turn.end()
    return base_offset


def put_own(logs: Logs, log: PartitionLog, batch: bytes) -> None:
    """Append a batch as the broker itself does."""
    log.append_internal(batch)
    logs.turn.end()


def new_frame(*, is_original: bool = False, **bounds: int) -> CursusFrame:
    fields = {"bytes_max": BYTES_MAX, "records_max": MANY, **bounds}
    return CursusFrame(b"t", 70, is_original=is_original, **fields)


def read_all(frame: CursusFrame, log: PartitionLog, offset: int = 0, **bounds: Any) -> str:
    """Read step by step until a status other than more."""
    end = bounds.get("end", log.high_watermark)
    is_committed = bounds.get("is_committed", True)
    status = "open"
    while status == "open":
        status = frame.read(log, offset, end, is_committed=is_committed)
        offset = frame.next_offset
    return status


def message_of(record: Any) -> Message:
    """Return a record as a Cursus message; of a repeated header the last value counts."""
    own = {name: value for name, value in record.headers if value is not None}

    def number(name: bytes, lowest: int, highest: int) -> int:
        text = own.get(b"cursus." + name, b"")
        value = int(text) if re.fullmatch(rb"-?[0-9]+", text) else 0
        return value if lowest <= value <= highest else 0

    return Message(
        record.value or b"",
        number(b"seq_num", 0, UINT64_MAX),
        own.get(b"cursus.producer_id", b""),
        record.key or b"",
        number(b"epoch", -(1 << 63), (1 << 63) - 1),
        own.get(b"cursus.event_type", b""),
        number(b"schema_version", 0, (1 << 32) - 1),
        number(b"aggregate_version", 0, UINT64_MAX),
        own.get(b"cursus.metadata", b""),
        record.offset,
    )


def messages_of(frame: CursusFrame, *, is_original: bool = False) -> list[Message]:
    return read_batch(frame.take(), is_original=is_original).messages


@LAYOUTS
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
def test_a_frame_equals_the_encoding_of_its_records_one_by_one(
    logs: Logs, log: PartitionLog, is_original: bool, rows: list[Any]
) -> None:
    start = put(logs, log, batch_of(rows, NOW_MS))
    messages = [message_of(each) for each in decoded(log.read(start, 1))]

    frame = new_frame(is_original=is_original)

    assert read_all(frame, log, start) == "end"
    assert frame.count == len(rows)
    assert frame.take() == batch("t", 70, messages, is_original=is_original)


def test_a_frame_without_records_is_valid(log: PartitionLog) -> None:
    frame = new_frame()

    assert frame.read(log, 0, 0, is_committed=True) == "end"
    assert messages_of(frame) == []


def test_reading_may_begin_within_a_batch_and_ends_at_the_log_end(
    logs: Logs, log: PartitionLog
) -> None:
    put(logs, log, records(3))
    put(logs, log, records(2))
    put(logs, log, records(2))
    frame = new_frame()

    assert read_all(frame, log, 2, end=5) == "end"
    assert frame.next_offset == 5
    assert [each.offset for each in messages_of(frame)] == [2, 3, 4]


def test_one_read_covers_a_limited_number_of_batches_and_the_next_continues(
    logs: Logs, log: PartitionLog
) -> None:
    for _ in range(3):
        put(logs, log, records(2, size=READ_BYTES // 3))
    frame = new_frame()

    assert frame.read(log, 0, 6, is_committed=True) == "open"
    assert (frame.count, frame.next_offset) == (2, 2)
    assert frame.read(log, 2, 6, is_committed=True) == "open"
    assert frame.count == 4


def test_a_full_frame_names_the_offset_of_the_next_one(logs: Logs, log: PartitionLog) -> None:
    put(logs, log, records(5))
    frame = new_frame(records_max=2)
    offsets = []

    for _ in range(3):
        read_all(frame, log, frame.next_offset)
        offsets.append([each.offset for each in messages_of(frame)])

    assert offsets == [[0, 1], [2, 3], [4]]


def test_a_frame_has_no_more_bytes_than_its_limit(logs: Logs, log: PartitionLog) -> None:
    put(logs, log, records(9, size=1000))
    frame = new_frame(bytes_max=3500)

    assert read_all(frame, log) == "full"
    body = frame.take()

    assert len(read_batch(body).messages) == 3
    assert len(body) <= 3500


def test_a_record_above_the_limit_has_its_own_frame(logs: Logs, log: PartitionLog) -> None:
    put(logs, log, records(2, size=1000))
    frame = new_frame(bytes_max=500)

    assert read_all(frame, log) == "full"
    assert len(messages_of(frame)) == 1


def test_a_record_larger_than_any_frame_is_reported_with_the_offset_to_skip_to(logs: Logs) -> None:
    log = logs.create(7, is_group_commit=False, batch_bytes_max=FRAME_MAX + 1024)
    put(logs, log, records(1, size=FRAME_MAX, batch_bytes_max=FRAME_MAX + 1024))
    put(logs, log, records(1))
    frame = new_frame()

    assert read_all(frame, log) == "too large"
    assert (frame.count, frame.next_offset, frame.skip_offset) == (0, 0, 1)
    assert read_all(frame, log, frame.skip_offset) == "end"
    assert [each.offset for each in messages_of(frame)] == [1]


def test_a_compressed_batch_is_left_to_a_caller_that_can_decompress_it(
    logs: Logs, log: PartitionLog
) -> None:
    put(logs, log, records(2))
    plain = records(3)[HEADER:]
    compressed = batch_of([(None, b"x", [])] * 3, NOW_MS)
    body = compressed[:HEADER] + compress(GZIP.number, plain)
    put_own(logs, log, recrced(body, GZIP.number))
    put(logs, log, records(1))
    frame = new_frame()

    assert read_all(frame, log) == "compressed"
    assert (frame.count, frame.next_offset) == (2, 2)
    assert frame.add(log.read(2, 1), plain, 3) == "open"
    assert read_all(frame, log, frame.next_offset) == "end"
    assert [each.offset for each in messages_of(frame)] == [0, 1, 3, 4, 5]


def test_a_batch_that_does_not_decompress_to_records_is_unreadable(
    logs: Logs, log: PartitionLog
) -> None:
    body = records(3)
    put(logs, log, body)
    frame = new_frame()

    assert frame.add(log.read(0, 1), body[HEADER : HEADER + 10], 0) == "unreadable"
    assert frame.skip_offset == 3
    assert frame.add(b"no batch", b"", 5) == "unreadable"
    assert frame.skip_offset == 6


def recrced(batch: bytes, codec: int = 0) -> bytes:
    """Return a batch with a correct length and checksum."""
    covered = codec.to_bytes(2, "big") + batch[23:]
    head = batch[:8] + (len(batch) - 12).to_bytes(4, "big") + batch[12:17]
    return head + crc32c.crc32c(covered).to_bytes(4, "big") + covered


def test_a_damaged_batch_is_reported_with_its_end_offset(logs: Logs, log: PartitionLog) -> None:
    for _ in range(3):
        put(logs, log, records(2))
    size = log.size // 3
    [file] = logs.folder().glob("*.log")
    with file.open("r+b") as data:
        data.seek(size + HEADER + 5)
        data.write(b"\xff")
    frame = new_frame()

    assert read_all(frame, log) == "unreadable"
    assert (frame.count, frame.next_offset, frame.skip_offset) == (2, 2, 4)
    assert read_all(frame, log, frame.skip_offset) == "end"
    assert [each.offset for each in messages_of(frame)] == [0, 1, 4, 5]


def test_bytes_that_are_not_a_batch_are_reported_with_the_end_of_the_read_slice(
    logs: Logs, log: PartitionLog
) -> None:
    for _ in range(2):
        put(logs, log, records(2))
    [file] = logs.folder().glob("*.log")
    with file.open("r+b") as data:
        data.seek(8)
        data.write(struct.pack(">i", -1))
    frame = new_frame()

    assert read_all(frame, log) == "unreadable"
    assert frame.skip_offset > frame.next_offset


def transaction(logs: Logs, log: PartitionLog, kind: int, sequence: int) -> None:
    """Append a transaction of two records, and its marker."""
    fields: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    log.admit_transaction(9, 0)
    put(logs, log, records(2, base_sequence=sequence, **fields))
    key, value = bytes(2) + kind.to_bytes(2, "big"), bytes(6)
    put_own(logs, log, batch_of([(key, value, [])], NOW_MS, is_control=True, **fields))


@pytest.mark.parametrize(
    ("is_committed", "offsets"), [(True, [0, 4, 5, 7]), (False, [0, 1, 2, 4, 5, 7])]
)
def test_aborted_records_are_sent_only_for_read_uncommitted_and_markers_never(
    logs: Logs, log: PartitionLog, is_committed: bool, offsets: list[int]
) -> None:
    put(logs, log, records(1))
    transaction(logs, log, ABORT, 0)
    transaction(logs, log, COMMIT, 2)
    put(logs, log, records(1))
    frame = new_frame()

    assert read_all(frame, log, is_committed=is_committed) == "end"
    assert [each.offset for each in messages_of(frame)] == offsets


def test_an_offset_below_the_log_start_is_out_of_range(logs: Logs, log: PartitionLog) -> None:
    put(logs, log, records(3))
    log.move_log_start(2)

    assert new_frame().read(log, 1, 3, is_committed=True) == "out of range"


def test_a_loading_log_cannot_be_read_yet(logs: Logs, log: PartitionLog) -> None:
    put(logs, log, records(3))
    log.begin_loading()

    assert new_frame().read(log, 0, 3, is_committed=True) == "offline"


@pytest.mark.usefixtures("recording")
def test_a_read_that_fails_on_the_disk_takes_the_log_offline(logs: Logs, log: PartitionLog) -> None:
    put(logs, log, records(3))
    file_ops.fail("read", ".log", errno.EIO)

    assert new_frame().read(log, 0, 3, is_committed=True) == "offline"

    assert log.is_offline


def test_a_topic_name_too_long_for_a_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 65535"):
        CursusFrame(bytes(65_536), 0, is_original=False, bytes_max=1, records_max=1)


# ---- events of streams ---------------------------------------------------------------------------


def events_of(logs: Logs, log: PartitionLog, count: int, others: int, size: int) -> list[int]:
    """Append events of one stream, and others after each; return the offsets of the first."""
    offsets = []
    for version in range(1, count + 1):
        headers = [(b"cursus.aggregate_version", b"%d" % version)]
        offsets.append(put(logs, log, batch_of([(b"k", b"%d" % version, headers)], NOW_MS)))
        for _ in range(others):
            put(logs, log, batch_of([(b"o", b"x" * size, [])], NOW_MS))
    return offsets


@pytest.mark.parametrize(("others", "size"), [(0, 0), (3, 10), (3, 3_000), (1, 80_000)])
def test_events_are_read_wherever_they_are(
    logs: Logs, log: PartitionLog, others: int, size: int
) -> None:
    offsets = events_of(logs, log, 40, others, size)
    frame = CursusFrame(b"t", 0, is_original=False, bytes_max=FRAME_MAX, records_max=MANY)
    end = log.high_watermark

    assert frame.read_events(log, offsets, 1, end, 0, 25) == ("open", 25)
    assert frame.read_events(log, offsets, 26, end, 25, 40) == ("open", 40)

    found = read_batch(frame.take()).messages
    assert [(each.offset, each.aggregate_version) for each in found] == [
        (offset, version) for version, offset in enumerate(offsets, 1)
    ]
    assert [each.payload for each in found] == [b"%d" % version for version in range(1, 41)]


def test_another_event_than_the_expected_one_is_unreadable(logs: Logs, log: PartitionLog) -> None:
    offsets = events_of(logs, log, 5, 1, 10)
    end = log.high_watermark
    frame = CursusFrame(b"t", 0, is_original=False, bytes_max=FRAME_MAX, records_max=MANY)

    assert frame.read_events(log, offsets, 2, end, 0, 5) == ("unreadable", 0)
    wrong = [*offsets[:3], offsets[3] + 1]
    assert frame.read_events(log, wrong, 1, end, 0, 4) == ("unreadable", 3)
    assert frame.read_events(log, [end + 5], 1, end, 0, 1)[0] in {"out of range", "unreadable"}


def test_a_damaged_event_is_unreadable(logs: Logs, log: PartitionLog) -> None:
    offsets = events_of(logs, log, 5, 0, 0)
    [file] = logs.folder().glob("*.log")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    frame = CursusFrame(b"t", 0, is_original=False, bytes_max=FRAME_MAX, records_max=MANY)

    status, place = frame.read_events(log, offsets, 1, log.high_watermark, 0, 5)

    assert (status, place) == ("unreadable", 2)


def test_large_events_are_read_in_several_steps(logs: Logs, log: PartitionLog) -> None:
    large = READ_BYTES // 2
    for version in range(1, 6):
        headers = [(b"cursus.aggregate_version", b"%d" % version)]
        put(logs, log, batch_of([(b"k", bytes(large), headers)], NOW_MS))
    frame = CursusFrame(b"t", 0, is_original=False, bytes_max=FRAME_MAX, records_max=MANY)
    end = log.high_watermark

    assert frame.read_events(log, list(range(5)), 1, end, 0, 5) == ("open", 2)
    assert frame.read_events(log, list(range(5)), 3, end, 2, 5) == ("open", 4)
    assert frame.read_events(log, list(range(5)), 5, end, 4, 5) == ("open", 5)
    assert frame.count == 5


def test_a_frame_of_events_is_full_at_its_limits(logs: Logs, log: PartitionLog) -> None:
    offsets = events_of(logs, log, 5, 0, 0)
    end = log.high_watermark
    few = CursusFrame(b"t", 0, is_original=False, bytes_max=FRAME_MAX, records_max=3)
    small = CursusFrame(b"t", 0, is_original=False, bytes_max=150, records_max=MANY)

    assert few.read_events(log, offsets, 1, end, 0, 5) == ("full", 3)
    assert small.read_events(log, offsets, 1, end, 0, 5) == ("full", 2)
