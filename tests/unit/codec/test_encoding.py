"""Records encoded from objects and spans, compared with the oracle and other clients' readers."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords as KafkaPythonRecords

from broker._native.records.record_batch import validate
from broker.codec import decode_columns, encoding
from broker.codec.encoding import encode
from broker.model.compressions import BY_NAME
from broker.model.errors import Corrupt, LimitExceeded
from broker.model.limits import BATCH_BYTES_MAX
from tests.oracles.record_batch_oracle import HEADER
from tests.support.batches import header
from tests.support.row_sources import (
    NOW_MS,
    Fields,
    contents,
    contents_of,
    expected,
    headers,
    limits,
    rows,
    spans_of,
    table_of,
)

# ---- what is encoded -----------------------------------------------------------------------------


@given(rows, limits)
@settings(max_examples=150, deadline=None)
def test_tuples_are_encoded_to_the_oracles_batches(given_rows: list[Fields], limit: int) -> None:
    assert encode(given_rows, batch_bytes_max=limit) == expected(given_rows, limit)


@given(rows, limits)
@settings(max_examples=150, deadline=None)
def test_spans_are_encoded_to_the_same_batches(given_rows: list[Fields], limit: int) -> None:
    assert encode(spans_of(given_rows), batch_bytes_max=limit) == expected(given_rows, limit)


@given(rows, limits)
@settings(max_examples=60, deadline=None)
def test_decoded_columns_are_encoded_to_the_same_batches(
    given_rows: list[Fields], limit: int
) -> None:
    batches = encode(given_rows, batch_bytes_max=limit)
    columns = decode_columns(
        b"".join(batches), columns=("offset", "timestamp", "key", "value", "headers")
    )

    assert encode(columns, batch_bytes_max=limit) == batches
    assert encode(columns, batch_bytes_max=limit, base_offset=None) == batches
    spans: dict[str, Any] = {**columns.to_numpy(), "data": columns.data}
    assert encode(spans, batch_bytes_max=limit) == batches
    in_us = all(-(2**63) // 1000 < row[3] < 2**63 // 1000 for row in given_rows)
    if in_us:
        assert encode(columns.to_arrow(), batch_bytes_max=limit) == batches


@given(rows)
@settings(max_examples=50, deadline=None)
def test_kafka_python_reads_encoded_batches(given_rows: list[Fields]) -> None:
    data = b"".join(encode(given_rows, batch_bytes_max=500))
    records = KafkaPythonRecords(data)
    found: list[tuple[Any, ...]] = []
    while records.has_next():
        found.extend(
            (each.key, each.value, [(name.encode(), content) for name, content in each.headers])
            for each in records.next_batch()
        )

    assert found == [row[:3] for row in given_rows]


@given(st.lists(st.tuples(contents, contents, headers, st.integers(0, NOW_MS)), max_size=8))
@settings(max_examples=50, deadline=None)
def test_aiokafka_reads_encoded_batches(given_rows: list[Fields]) -> None:
    records = AiokafkaRecords(b"".join(encode(given_rows, batch_bytes_max=500)))
    found: list[tuple[Any, ...]] = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found.extend(
            (
                each.key,
                each.value,
                [(name.encode(), content) for name, content in each.headers],
                each.timestamp,
            )
            for each in batch
        )

    assert found == given_rows


def test_plain_values_have_no_key_and_no_headers() -> None:
    assert contents_of(encode([b"one", b""], timestamp_ms=5)) == [
        (0, 5, None, b"one", []),
        (1, 5, None, b"", []),
    ]


def test_no_rows_make_no_batch() -> None:
    assert encode([]) == []
    assert encode(table_of([])) == []
    assert encode(spans_of([])) == []
    assert encode(table_of([]), base_offset=None) == []


def test_parts_of_a_tuple_may_be_missing_or_any_bytes_like_object() -> None:
    given_rows: list[Any] = [
        (None, b"value"),
        (bytearray(b"key"), memoryview(b"value"), [("name", None), (b"name", bytearray(b"x"))]),
        (b"key", None, None, 7),
        (b"key", None, (), None),
        bytearray(b"value"),
        None,
    ]

    assert contents_of(encode(iter(given_rows), timestamp_ms=5)) == [
        (0, 5, None, b"value", []),
        (1, 5, b"key", b"value", [(b"name", None), (b"name", b"x")]),
        (2, 7, b"key", None, []),
        (3, 5, b"key", None, []),
        (4, 5, None, b"value", []),
        (5, 5, None, None, []),
    ]


# ---- where batches end ---------------------------------------------------------------------------


@given(rows.filter(bool), st.integers(68, 200))
@settings(max_examples=100, deadline=None)
def test_every_batch_is_filled_up_to_the_limit(given_rows: list[Fields], limit: int) -> None:
    try:
        batches = encode(given_rows, batch_bytes_max=limit)
    except LimitExceeded:
        assert any(len(encode([row])[0]) > limit for row in given_rows)
        return

    assert all(len(batch) <= limit for batch in batches)
    assert batches == expected(given_rows, limit)


@pytest.mark.parametrize("make", [list, spans_of, table_of])
def test_a_record_too_large_for_any_batch_is_named(make: Any) -> None:
    given_rows: list[Fields] = [(None, b"x", [], 0), (None, b"x" * 100, [], 0)]

    with pytest.raises(LimitExceeded, match=r"row 1: a batch of 1\d\d bytes or more, allowed.* 80"):
        encode(make(given_rows), batch_bytes_max=80)


def test_a_record_that_fits_exactly_is_accepted() -> None:
    [batch] = encode([b"x" * 100])

    assert encode([b"x" * 100], batch_bytes_max=len(batch), timestamp_ms=0)
    with pytest.raises(LimitExceeded):
        encode([b"x" * 100], batch_bytes_max=len(batch) - 1)


@pytest.mark.parametrize("limit", [-1, 0, 61, 2**63])
def test_a_limit_below_any_batch_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=r"batches of at most|does not fit"):
        encode([b""], batch_bytes_max=limit)


def test_the_largest_limit_is_the_largest_possible_batch() -> None:
    assert encode([b""], batch_bytes_max=BATCH_BYTES_MAX)
    with pytest.raises(ValueError, match="batches of at most"):
        encode([b""], batch_bytes_max=BATCH_BYTES_MAX + 1)


def test_a_batch_grows_from_small_to_a_mebibyte() -> None:
    values = [bytes([place % 256]) * place for place in range(2_000)]

    batches = encode(iter(values))

    assert [record[3] for record in contents_of(batches)] == values
    assert [len(batch) > 1_000_000 for batch in batches] == [True, False]


# ---- every option --------------------------------------------------------------------------------


@given(
    st.integers(0, 2**40),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**15 - 1),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_options_are_written_to_the_header(
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    is_transactional: bool,
    is_control: bool,
) -> None:
    [batch] = encode(
        [b"one", b"two"],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=7,
        is_transactional=is_transactional,
        is_control=is_control,
        timestamp_ms=NOW_MS,
    )

    found = header(batch)
    assert found.base_offset == base_offset
    assert found.leader_epoch == leader_epoch
    assert found.producer_id == producer_id
    assert found.producer_epoch == producer_epoch
    assert found.base_sequence == 7
    assert found.attributes == 16 * is_transactional + 32 * is_control
    assert found.last_offset == base_offset + 1
    assert found.base_timestamp == found.max_timestamp == NOW_MS


def test_a_batch_as_a_producer_sends_it_is_valid() -> None:
    batches = encode([b"x" * 50] * 10, batch_bytes_max=200, producer_id=1, producer_epoch=0,
                     base_sequence=0)  # fmt: skip

    assert len(batches) > 1
    assert [validate(batch) for batch in batches] == [None] * len(batches)


def test_offsets_continue_across_the_batches() -> None:
    batches = encode([b"x" * 50] * 5, batch_bytes_max=200, base_offset=100)

    assert [header(batch).base_offset for batch in batches] == [100, 102, 104]


def test_sequences_continue_across_the_batches_and_wrap_after_the_largest() -> None:
    batches = encode([b"x" * 50] * 7, batch_bytes_max=200, base_sequence=2**31 - 3)

    found = [header(batch).base_sequence for batch in batches]
    assert found == [2**31 - 3, 2**31 - 1, 1, 3]


def test_without_a_sequence_every_batch_has_none() -> None:
    batches = encode([b"x" * 50] * 4, batch_bytes_max=200)

    assert [header(batch).base_sequence for batch in batches] == [-1, -1]


@given(st.lists(st.integers(1, 2**31) | st.integers(1, 3), min_size=1, max_size=8),
       st.integers(-2**40, 2**40))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_kept_offsets_keep_their_gaps(gaps: list[int], first: int) -> None:
    offsets = [first + sum(gaps[:place]) for place in range(len(gaps))]
    given_rows: list[Fields] = [(None, b"v", [], NOW_MS)] * len(offsets)
    columns = spans_of(given_rows)
    columns["offset"] = np.array(offsets, np.int64)
    table = table_of(given_rows).append_column("offset", pa.array(offsets))

    batches = expected(given_rows, 150, offsets)
    assert encode(columns, base_offset=None, batch_bytes_max=150) == batches
    assert encode(table, base_offset=None, batch_bytes_max=150) == batches
    assert [record[0] for record in contents_of(batches)] == offsets


@pytest.mark.parametrize("offsets", [[5, 5], [5, 4], [2**63 - 1, -(2**63)]])
@pytest.mark.parametrize("limit", [70, 1000])
def test_kept_offsets_must_ascend(offsets: list[int], limit: int) -> None:
    columns = spans_of([(None, b"", [], 0)] * 2)
    columns["offset"] = np.array(offsets, np.int64)

    with pytest.raises(Corrupt, match="row 1: offset"):
        encode(columns, base_offset=None, batch_bytes_max=limit)


def test_offsets_too_far_apart_do_not_share_a_batch() -> None:
    columns = spans_of([(None, b"", [], 0)] * 2)
    columns["offset"] = np.array([-(2**63), 2**63 - 1], np.int64)

    assert [record[0] for record in contents_of(encode(columns, base_offset=None))] == [
        -(2**63),
        2**63 - 1,
    ]


@pytest.mark.parametrize("source", [[b""], spans_of([(None, b"", [], 0)])], ids=["rows", "spans"])
def test_offsets_cannot_be_kept_without_an_offset_column(source: Any) -> None:
    with pytest.raises(ValueError, match="offset"):
        encode(source, base_offset=None)


def test_records_without_a_timestamp_get_the_given_one_or_the_current_time() -> None:
    assert contents_of(encode([b""], timestamp_ms=-1))[0][1] == -1
    assert contents_of(encode([b""]))[0][1] > NOW_MS


def test_the_maximum_timestamp_need_not_be_the_last() -> None:
    given_rows = [(None, b"", None, timestamp) for timestamp in (5, 9, -3)]

    [batch] = encode(given_rows)

    assert (header(batch).base_timestamp, header(batch).max_timestamp) == (5, 9)


def test_with_log_append_time_readers_see_that_time_and_the_records_keep_theirs() -> None:
    given_rows = [(None, b"", None, timestamp) for timestamp in (5, 9, None)]

    [batch] = encode(given_rows, timestamp_ms=42, timestamp_type="LogAppendTime")

    assert header(batch).attributes == 8
    assert header(batch).base_timestamp == 5
    assert [record[1] for record in contents_of([batch])] == [42, 42, 42]
    create_time = header(batch).attributes & 0
    assert HEADER.unpack_from(batch)[5] != create_time


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "brotli"},
        {"compression": "gzip", "level": 10},
        {"compression": "snappy", "level": 1},
        {"level": 1},
        {"timestamp_type": "NoTime"},
        {"leader_epoch": 2**31},
        {"producer_epoch": 2**15},
        {"producer_id": 2**63},
        {"base_sequence": -(2**31) - 1},
        {"base_offset": 2**63},
        {"timestamp_ms": 2**63},
    ],
    ids=str,
)
def test_an_option_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|does not fit|has no levels"):
        encode([b""], **options)


# ---- compression ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_NAME)
def test_compressed_batches_hold_the_same_records(name: str) -> None:
    given_rows: list[Fields] = [(b"key", b"value" * 20, [(b"h", None)], NOW_MS)] * 30

    batches = encode(given_rows, compression=name, batch_bytes_max=1000)

    plain = encode(given_rows, batch_bytes_max=1000)
    assert [header(batch).attributes for batch in batches] == [BY_NAME[name].number] * len(plain)
    assert [header(batch).record_count for batch in batches] == [
        header(batch).record_count for batch in plain
    ]
    columns = decode_columns(b"".join(batches), columns=("timestamp", "key", "value", "headers"))
    assert encode(columns, batch_bytes_max=1000) == plain


def test_a_compression_level_is_passed_on() -> None:
    values = [bytes([place * place % 251]) * 9 for place in range(500)]

    fast = encode(values, compression="gzip", level=1)
    small = encode(values, compression="gzip", level=9)

    assert len(small[0]) < len(fast[0])


def test_a_batch_that_compression_enlarges_beyond_the_limit_is_stored_uncompressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compress(codec: int, data: bytes, level: int | None) -> bytes:
        return bytes(data) + b"!"

    monkeypatch.setattr(encoding, "compress", compress)
    [plain] = encode([b"x" * 100], timestamp_ms=0)

    assert encode([b"x" * 100], compression="gzip", timestamp_ms=0, batch_bytes_max=len(plain)) == [
        plain
    ]
    [larger] = encode([b"x" * 100], compression="gzip", timestamp_ms=0)
    assert len(larger) == len(plain) + 1
    assert header(larger).attributes == 1


# ---- invalid sources -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ("text", TypeError, "expected bytes or None as a value, got str"),
        (7, TypeError, "got int"),
        ((b"",), ValueError, "got a tuple of 1"),
        ((b"", b"", (), 0, 0), ValueError, "got a tuple of 5"),
        (("text", b""), TypeError, "expected bytes or None as a key, got str"),
        ((b"", b"", [b"ab"]), TypeError, "as the key of a header, got int"),
        ((b"", b"", [("a", "b")]), TypeError, "as the value of a header, got str"),
        ((b"", b"", [(None, b"")]), ValueError, "a header has no key"),
        ((b"", b"", [("a", b"", b"")]), ValueError, "got a tuple of 3"),
        ((b"", b"", 7), TypeError, "not iterable"),
        ((b"", b"", (), "now"), TypeError, "integer"),
        ((b"", b"", (), 2**63), ValueError, "a timestamp of 9223372036854775808"),
    ],
    ids=str,
)
def test_a_row_of_the_wrong_type_is_named(row: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        encode([b"before", row])

    if words not in {"not iterable", "integer"}:  # Python's own words
        assert "row 1" in str(raised.value)


@pytest.mark.parametrize("name", ["key_length", "value_start", "header_key_start", "header_end",
                                  "timestamp"])  # fmt: skip
def test_columns_of_different_lengths_are_refused(name: str) -> None:
    columns = spans_of([(b"k", b"v", [(b"h", b"x")], 0)] * 2)
    columns[name] = columns[name][:1]

    with pytest.raises(ValueError, match=r"expected|of headers"):
        encode(columns)


@pytest.mark.parametrize("name", ["key_length", "value_start", "header_end", "timestamp"])
@pytest.mark.parametrize("kind", ["float64", "int16", "uint32", ">i4"])
def test_columns_of_the_wrong_type_are_refused(name: str, kind: str) -> None:
    columns = spans_of([(b"k", b"v", [(b"h", b"x")], 0)] * 2)
    columns[name] = columns[name].astype(kind)

    with pytest.raises(TypeError, match="expected int"):
        encode(columns)


def test_a_non_contiguous_column_is_refused() -> None:
    columns = spans_of([(b"k", b"v", [], 0)] * 4)
    columns["timestamp"] = np.zeros(8, np.int64)[::2]

    with pytest.raises(ValueError, match="contiguous"):
        encode(columns)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, "data"),
        ({"data": b""}, "value_length"),
        ({"data": b"", "value_length": np.zeros(1, np.int32)}, "together"),
        ({"data": b"", "value_start": np.zeros(1, np.int32)}, "value_length"),
        (pa.table({"key": [b""]}), "no column named value, only key"),
        (pa.table({"a": [1]}).drop_columns("a"), "none at all"),
    ],
    ids=str,
)
def test_without_values_nothing_is_encoded(source: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encode(source)
