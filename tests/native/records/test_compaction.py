"""The compaction kernel compared with its oracle, at its limits, and on damaged bytes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from broker._native.records.compaction import KeyCollector, RecordFilter
from broker._native.records.key_map import PLACE_BYTES, KeyMap
from broker.codec import compression, records, scan_headers
from broker.model.errors import CodecError, Corrupt, LimitExceeded
from tests.oracles.compaction_oracle import DELETE_HORIZON, TRANSACTIONAL, Batch, Pass
from tests.oracles.record_batch_oracle import CONTROL, Header, Headers, Record
from tests.support.record_bytes import record

NOW = 1_700_000_000_000
RETENTION = 86_400_000
GZIP, ZSTD = 1, 4
MEMORY = 1 << 16


# ---- collecting and filtering a log
# ----------------------------------------------------------------


def encoded(batch: Batch) -> bytes:
    """Return the bytes of a batch."""
    header, parts = batch
    payload = b"".join(part.encode() for part in parts)
    return header.encode(compression.compress(header.attributes & 7, payload) if parts else b"")


def clean(
    data: bytes, plan: Pass, *, memory: int = MEMORY, chunk: int = 1 << 30
) -> tuple[bytes, KeyMap]:
    """Return the kernel's result for a log whose bytes arrive in pieces of a size."""
    key_map = KeyMap(memory)
    common: dict[str, Any] = {
        "decompress": compression.decompress_into,
        "decompressed_bytes_max": 1 << 20,
        "aborted": plan.aborted,
    }
    collector = KeyCollector(key_map, first_offset=plan.first_dirty, end_offset=plan.end, **common)
    for piece in pieces(data, chunk):
        if not collector.is_done:
            collector.add(piece)
    if not collector.is_done:
        key_map.end_offset = plan.end
    record_filter = RecordFilter(
        key_map,
        compress=compression.compress,
        now_ms=plan.now_ms,
        delete_retention_ms=plan.delete_retention_ms,
        producer_ends=[(p, epoch, last) for p, (epoch, last) in plan.producer_ends.items()],
        **common,
    )
    kept = b"".join(bytes(record_filter.filter(piece)[0]) for piece in pieces(data, chunk))
    return kept, key_map


def pieces(data: bytes, size: int) -> list[bytes]:
    """Return runs of whole batches that begin at least that many bytes apart."""
    found, start, position = [], 0, 0
    while position < len(data):
        position += 12 + int.from_bytes(data[position + 8 : position + 12])
        if position - start >= size or position == len(data):
            found.append(data[start:position])
            start = position
    return found


def plan_of(**fields: Any) -> Pass:
    """Return a plan over the whole log."""
    return replace(Pass(0, 1 << 40, NOW, RETENTION, {}, []), **fields)


def batch(parts: Sequence[Record], base_offset: int = 0, **fields: int) -> Batch:
    """Return a batch whose header fits its records, except for the given fields."""
    header = Header(
        base_offset=base_offset,
        last_offset_delta=parts[-1].offset_delta if parts else 0,
        base_timestamp=NOW - 1_000,
        max_timestamp=NOW - 1_000 + max((part.timestamp_delta for part in parts), default=0),
        record_count=len(parts),
    )
    return replace(header, **fields), list(parts)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Batch], Pass]:
    """Return a log as earlier passes may have left it, and the next plan over it."""
    log: list[Batch] = []
    offset = 0
    keys = st.sampled_from([None, b"", b"a", b"b", b"c", b"long key " * 9])
    open_from: dict[int, int] = {}
    aborted = []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.integers(0, 2))
        producer = draw(st.integers(-1, 1))
        ends = producer in open_from and draw(st.booleans())
        attributes = draw(st.sampled_from([0, 0, GZIP, ZSTD])) | draw(st.sampled_from([0, 0, 8]))
        parts = []
        if ends:
            is_abort = draw(st.booleans())
            if is_abort:
                aborted.append((producer, open_from[producer], offset))
            del open_from[producer]
            attributes = CONTROL | TRANSACTIONAL
            parts = [Record(0, 0, b"\0\0\0\0" if is_abort else b"\0\0\0\1", b"\0" * 6, [])]
        else:
            delta = -1
            for _ in range(draw(st.integers(0, 5))):
                delta += draw(st.integers(1, 3))
                value = draw(st.sampled_from([None, b"", b"value", b"v" * 70]))
                headers: Headers = draw(st.sampled_from([[], [(b"name", None)]]))
                stamp = draw(st.integers(-5, 3_000))
                parts.append(Record(stamp, delta, draw(keys), value, headers))
            if producer in open_from or (producer >= 0 and draw(st.booleans())):
                attributes |= TRANSACTIONAL
                open_from.setdefault(producer, offset)
        fields = {"attributes": attributes, "producer_id": producer, "producer_epoch": 3}
        if draw(st.integers(0, 3)) == 0 and parts:
            fields["attributes"] |= DELETE_HORIZON
            fields["base_timestamp"] = NOW + draw(st.integers(-1, 1))
        made = batch(parts, offset, **fields)
        if not parts and attributes & 7:
            made = (replace(made[0], attributes=attributes & ~7), parts)
        extra = draw(st.integers(0, 2))
        made[0].last_offset_delta += extra
        log.append(made)
        offset += made[0].last_offset_delta + 1
    # Open transactions are above the last stable offset, which no pass reaches.
    stable = min(open_from.values(), default=offset)
    log = [each for each in log if each[0].base_offset < stable]
    ends_of = {
        header.producer_id: (3, header.base_offset + header.last_offset_delta)
        for header, _ in log
        if header.producer_id >= 0 and draw(st.booleans())
    }
    first_dirty = draw(st.integers(0, offset + 1))
    end = draw(st.integers(first_dirty, offset + 1))
    retention = draw(st.sampled_from([0, RETENTION]))
    return log, Pass(first_dirty, end, NOW, retention, ends_of, aborted)


# ---- compared with the oracle -------------------------------------------------------------------


@given(logs())
def test_a_pass_keeps_what_the_oracle_keeps_byte_for_byte(given_log: Any) -> None:
    log, plan = given_log

    kept, _ = clean(b"".join(map(encoded, log)), plan)

    assert kept == b"".join(map(encoded, plan.clean(log)))


@given(logs(), st.integers(1, 400))
def test_a_log_may_be_passed_in_pieces(given_log: Any, size: int) -> None:
    log, plan = given_log
    data = b"".join(map(encoded, log))

    assert clean(data, plan, chunk=size)[0] == clean(data, plan)[0]


@given(logs())
def test_a_second_pass_at_the_same_time_changes_nothing(given_log: Any) -> None:
    """Except for markers and aborted records, which a first pass prepares for the second."""
    log, plan = given_log
    plan = replace(plan, delete_retention_ms=RETENTION, first_dirty=0)
    data = b"".join(encoded(each) for each in log if not each[0].attributes & TRANSACTIONAL)
    once, _ = clean(data, plan)

    assert clean(once, plan)[0] == once


@given(st.lists(st.tuples(st.integers(0, 30), st.none() | st.binary(max_size=4)), max_size=200))
def test_passes_with_a_small_map_end_with_the_last_value_of_every_key(
    writes: list[tuple[int, bytes | None]],
) -> None:
    data = b"".join(
        encoded(batch([record(0, b"key %d" % key, value)], offset))
        for offset, (key, value) in enumerate(writes)
    )
    newest = {b"key %d" % key: (i, value) for i, (key, value) in enumerate(writes)}
    first_dirty = 0
    for _ in range(len(writes)):
        plan = plan_of(first_dirty=first_dirty, end=len(writes))
        data, key_map = clean(data, plan, memory=8 * PLACE_BYTES)
        assert key_map.count <= key_map.capacity == 6
        assert first_dirty < key_map.end_offset or first_dirty == len(writes)
        first_dirty = key_map.end_offset

    assert first_dirty == len(writes)
    assert {r.key: (r.offset, r.value) for r in records(data)} == newest
    assert len(list(records(data))) == len(newest)


# ---- one rule each -------------------------------------------------------------------------------


def test_a_batch_that_loses_no_record_is_unchanged() -> None:
    data = encoded(batch([record(0, b"a"), record(1, b"b")], attributes=ZSTD))

    assert clean(data, plan_of())[0] == data


def test_offsets_sequence_and_base_timestamp_survive_the_removal_of_records() -> None:
    first = batch(
        [record(0, b"a"), record(1, b"b"), record(2, b"a")], 10, producer_id=7, base_sequence=40
    )
    newer = batch([record(0, b"b")], 13)

    kept, _ = clean(encoded(first) + encoded(newer), plan_of())

    header = scan_headers(kept)[0]
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 12, 1)
    assert (header.base_sequence, header.base_timestamp) == (40, NOW - 1_000)
    assert [(r.offset, r.timestamp) for r in records(kept)] == [(12, NOW - 998), (13, NOW - 1_000)]


def test_a_tombstone_is_removed_at_its_delete_horizon_and_not_before() -> None:
    data = encoded(batch([record(0, b"a", b"value"), record(1, b"a", None)]))

    seen, _ = clean(data, plan_of())
    waiting, _ = clean(seen, plan_of(now_ms=NOW + RETENTION - 1))
    gone, _ = clean(seen, plan_of(now_ms=NOW + RETENTION))

    assert [(r.offset, r.timestamp, r.value) for r in records(seen)] == [(1, NOW - 999, None)]
    assert scan_headers(seen)[0].base_timestamp == NOW + RETENTION
    assert waiting == seen
    assert gone == b""


def test_a_tombstone_beyond_the_key_map_gets_no_delete_horizon_yet() -> None:
    data = encoded(batch([record(0, b"a", None)], 5))

    assert clean(data, plan_of(end=5))[0] == data


def test_a_record_without_a_key_is_removed() -> None:
    kept, _ = clean(encoded(batch([record(0, None), record(1, b"a")])), plan_of())

    assert [r.offset for r in records(kept)] == [1]


def test_the_last_batch_of_an_active_producer_keeps_its_header() -> None:
    first = batch([record(0, b"a"), record(1, b"a")], 0, producer_id=7, base_sequence=3)
    newer = batch([record(0, b"a")], 2)
    data = encoded(first) + encoded(newer)

    live, _ = clean(data, plan_of(producer_ends={7: (0, 1)}))
    expired, _ = clean(data, plan_of())
    header = scan_headers(live)[0]

    assert (header.producer_id, header.base_sequence, header.last_offset) == (7, 3, 1)
    assert (header.record_count, header.size) == (0, 61)
    assert clean(live, plan_of(producer_ends={7: (0, 1)}))[0] == live
    assert expired == encoded(newer)


def test_a_marker_stays_while_its_transaction_has_records_and_then_until_its_delete_horizon() -> (
    None
):
    fields = {"attributes": TRANSACTIONAL, "producer_id": 7}
    data = encoded(batch([record(0, b"a")], 0, **fields))
    marker = batch(
        [Record(0, 0, b"\0\0\0\1", b"\0" * 6, [])],
        1,
        **fields | {"attributes": TRANSACTIONAL | CONTROL},
    )
    newer = encoded(batch([record(0, b"a")], 2))

    first, _ = clean(data + encoded(marker) + newer, plan_of())
    second, _ = clean(first, plan_of())
    third, _ = clean(second, plan_of(now_ms=NOW + RETENTION))

    assert first == encoded(marker) + newer
    assert scan_headers(second)[0].attributes & DELETE_HORIZON
    assert third == newer


def test_records_of_an_aborted_transaction_are_removed_and_supersede_no_older_value() -> None:
    fields = {"attributes": TRANSACTIONAL, "producer_id": 7}
    older = encoded(batch([record(0, b"a")], 0))
    aborted = encoded(batch([record(0, b"a")], 1, **fields))
    marker = encoded(
        batch(
            [Record(0, 0, b"\0\0\0\0", b"\0" * 6, [])],
            2,
            **fields | {"attributes": TRANSACTIONAL | CONTROL},
        )
    )

    kept, _ = clean(older + aborted + marker, plan_of(aborted=[(7, 1, 2)]))

    assert kept == older + marker


@pytest.mark.parametrize("reader", [KafkaPythonRecords, AiokafkaRecords])
@given(logs())
def test_other_readers_find_the_same_records(reader: Any, given_log: Any) -> None:
    log, plan = given_log
    kept, _ = clean(b"".join(map(encoded, log)), plan)

    found = []
    read = reader(kept)
    while (each := read.next_batch()) is not None:
        if not each.is_control_batch:
            found += [(row.offset, row.timestamp, row.key, row.value) for row in each]

    assert found == [(row.offset, row.timestamp, row.key, row.value) for row in records(kept)]


# ---- invalid bytes -----------------------------------------------------------------------------


def damaged() -> list[Any]:
    """Return batches that no pass may keep or drop records of."""
    sound = batch([record(0, b"a"), record(1, b"b")])
    data = bytearray(encoded(sound))
    data[-1] ^= 1
    turned = (replace(sound[0], last_offset_delta=1), sound[1][::-1])
    beyond = (replace(sound[0], last_offset_delta=0), sound[1])
    fewer = (replace(sound[0], record_count=1), sound[1])
    more = (replace(sound[0], record_count=3), sound[1])
    compressed = sound[0]
    return [
        pytest.param(bytes(data), id="a CRC that does not fit"),
        pytest.param(encoded(turned), id="offsets that fall"),
        pytest.param(encoded(beyond), id="an offset behind the last"),
        pytest.param(encoded(fewer), id="bytes behind the records"),
        pytest.param(encoded(more), id="fewer records than counted"),
        pytest.param(replace(compressed, attributes=ZSTD).encode(b"none"), id="no zstd"),
        pytest.param(replace(compressed, magic=1).encode(b""), id="magic 1"),
        pytest.param(replace(compressed, record_count=-1).encode(b""), id="a negative count"),
        pytest.param(replace(compressed, base_offset=-5).encode(b""), id="a negative offset"),
        pytest.param(encoded(sound) + encoded(sound), id="an offset twice"),
    ]


@pytest.mark.parametrize("data", damaged())
def test_damaged_batches_are_refused_by_key_collection_and_by_filtering(data: bytes) -> None:
    key_map = KeyMap(MEMORY)
    common: dict[str, Any] = {
        "decompress": compression.decompress_into,
        "decompressed_bytes_max": 1 << 20,
    }
    collector = KeyCollector(key_map, first_offset=0, end_offset=1 << 40, **common)
    record_filter = RecordFilter(
        key_map, compress=compression.compress, now_ms=NOW, delete_retention_ms=0, **common
    )

    with pytest.raises(CodecError):
        collector.add(data)
    with pytest.raises(CodecError):
        record_filter.filter(data)


@pytest.mark.parametrize("payload", [b"", b"\2", b"\xff" * 9, Record(0, 0, b"a", b"", []).encode()])
def test_a_control_batch_with_fewer_records_than_counted_is_refused(payload: bytes) -> None:
    """Its records are not decided one by one, but rewritten with a delete horizon."""
    attributes = CONTROL | TRANSACTIONAL
    header = Header(attributes=attributes, producer_id=7, record_count=2, last_offset_delta=1)

    with pytest.raises(Corrupt):
        clean(header.encode(payload + bytes(14)), plan_of())


@given(st.data())
def test_arbitrary_bytes_are_refused_or_cut_short(data: st.DataObject) -> None:
    content = bytearray(encoded(batch([record(i, b"k%d" % i) for i in range(3)])))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]

    try:
        kept, _ = clean(bytes(content), plan_of())
    except CodecError:
        return
    assert len(kept) <= len(content) + 100


def test_a_batch_that_decompresses_above_the_limit_is_refused() -> None:
    bomb = encoded(batch([record(0, b"a", bytes(2 << 20))], attributes=ZSTD))

    with pytest.raises(LimitExceeded, match="more than the 1048576 bytes allowed"):
        clean(bomb, plan_of())


def test_a_batch_that_is_cut_short_is_left_for_the_next_piece() -> None:
    data = encoded(batch([record(0, b"a")]))
    collector = KeyCollector(
        KeyMap(MEMORY),
        first_offset=0,
        end_offset=9,
        decompress=compression.decompress_into,
        decompressed_bytes_max=0,
    )

    assert [collector.add(data[:size]) for size in range(len(data))] == [0] * len(data)
    assert collector.add(data + data[:70]) == len(data)


def test_a_corrupt_error_names_the_position() -> None:
    data = encoded(batch([record(0, b"a")]))

    with pytest.raises(Corrupt, match=f"at byte {len(data)}"):
        clean(data + data, plan_of())
