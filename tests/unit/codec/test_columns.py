"""Decoded columns of batches and message sets."""

import itertools
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from broker.codec import CodecError, Columns, Corrupt, Unsupported, decode_columns
from tests.oracles import message_set_oracle as message_set
from tests.oracles import records_oracle
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Headers, Record
from tests.oracles.records_oracle import Row
from tests.support.record_bytes import (
    CODECS,
    COLUMNS,
    GZIP,
    INT32,
    INT64,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TIMESTAMP,
    batch,
    contents,
    contents_of,
    headers,
    marker,
    numbers,
    of_two,
    record,
    rows,
    some,
    unfit_message,
    wrapper,
)

wire_records = st.builds(Record, INT64, INT32, contents, contents, headers)
messages = st.builds(
    Message,
    INT64,
    contents,
    contents,
    magic=st.sampled_from([0, 1]),
    attributes=st.sampled_from([0, LOG_APPEND_TIME]),
    timestamp=INT64,
)
MAXIMUM = 2**63 - 1


def decode(data: Any, **options: Any) -> list[Row]:
    """Return the rows of all columns."""
    return rows(decode_columns(data, columns=COLUMNS, **options))


# ---- batches -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.lists(wire_records, max_size=4), INT64, INT64, st.booleans())))
@settings(max_examples=200, deadline=None)
def test_the_rows_equal_those_of_the_oracle(
    batches: list[tuple[list[Record], int, int, bool]],
) -> None:
    data = b"".join(
        batch(parts, offset, base_timestamp=time, attributes=LOG_APPEND_TIME * is_append_time)
        if parts or not is_append_time
        else batch([], offset)
        for parts, offset, time, is_append_time in batches
    )

    expected, end = records_oracle.read(data)

    columns = decode_columns(data, columns=COLUMNS)
    assert rows(columns) == expected
    assert columns.end == end == len(data)


@given(st.lists(wire_records, min_size=1, max_size=6), st.sampled_from(CODECS))
@settings(max_examples=100, deadline=None)
def test_a_compressed_batch_has_the_rows_of_the_same_batch_uncompressed(
    parts: list[Record], codec: int
) -> None:
    assert decode(batch(parts, 7, codec=codec)) == decode(batch(parts, 7))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=8))
@settings(max_examples=50, deadline=None)
def test_compressed_and_plain_batches_can_be_read_in_one_call(
    shapes: list[tuple[int, int]],
) -> None:
    data = b"".join(some(count, 10 * i, codec=codec) for i, (codec, count) in enumerate(shapes))

    assert decode(data) == [
        Row(10 * i + j, TIMESTAMP + j, 0, b"k%d" % (10 * i + j), b"v%d" % j, [])
        for i, (_, count) in enumerate(shapes)
        for j in range(count)
    ]


def test_offsets_and_timestamps_wrap_around_as_in_kafka() -> None:
    parts = [Record(2**62, 5, None, None, []), Record(-(2**63), -5, None, None, [])]
    data = batch(parts, MAXIMUM, base_timestamp=MAXIMUM)

    columns = decode_columns(data)

    assert numbers(columns, "offset") == [-(2**63) + 4, MAXIMUM - 5]
    assert numbers(columns, "timestamp") == [-(2**62) - 1, -1]


def test_a_null_has_length_minus_one_and_an_empty_value_zero() -> None:
    columns = decode_columns(batch([Record(0, 0, None, b"", []), Record(0, 1, b"", None, [])]))

    assert numbers(columns, "key_length") == [-1, 0]
    assert numbers(columns, "value_length") == [0, -1]


def test_the_headers_of_a_record_end_where_the_next_records_begin() -> None:
    parts = [
        Record(0, 0, None, None, [(b"a", b"1"), (b"", None)]),
        Record(0, 1, None, None, []),
        Record(0, 2, None, None, [(b"a", b"")]),
    ]

    columns = decode_columns(batch(parts), columns=["headers"])

    assert numbers(columns, "header_end") == [2, 2, 3]
    assert contents_of(columns, "header_key") == [b"a", b"", b"a"]
    assert contents_of(columns, "header_value") == [b"1", None, b""]


def test_a_batch_without_records_has_no_rows() -> None:
    assert decode(batch([]) + some(1, 5) + batch([], 6)) == decode(some(1, 5))


@pytest.mark.parametrize("codec", [0, *CODECS])
def test_control_batches_are_omitted(codec: int) -> None:
    data = marker(5, 0, is_commit=True) + some(2, 1, codec=codec) + marker(5, 3, is_commit=False)

    assert decode(data) == decode(some(2, 1))


def test_a_header_without_a_name_is_refused() -> None:
    data = batch([Record(0, 0, None, None, [(None, b"value")])])  # type: ignore[list-item]

    with pytest.raises(Corrupt, match="record 0 of 1 does not fit"):
        decode_columns(data, columns=["headers"])


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_a_record_may_have_any_number_of_headers(count: int) -> None:
    many: Headers = [(b"%d" % i, b"%d" % -i) for i in range(count)]
    parts = [Record(0, 0, None, None, many[:1]), Record(0, 1, None, None, many)]

    found = decode(batch(parts) + batch(parts, 2))

    assert [row.headers for row in found] == [many[:1], many] * 2


def test_headers_of_compressed_batches_are_read_too() -> None:
    many: Headers = [(b"%d" % i, None) for i in range(3000)]
    data = batch([Record(0, 0, None, None, many)], codec=GZIP)

    assert [row.headers for row in decode(data * 3)] == [many] * 3


# ---- message sets --------------------------------------------------------------------------------


@given(st.lists(messages, max_size=6))
@settings(max_examples=100, deadline=None)
def test_the_rows_of_a_message_set_equal_those_of_the_oracle(parts: list[Message]) -> None:
    data = message_set.encode(parts)

    assert (decode(data), len(data)) == records_oracle.read(data)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_in_a_wrapper_of_magic_0_offsets_are_absolute(codec: int) -> None:
    inner = [Message(offset, b"key", b"%d" % offset, magic=0) for offset in (3, 5, 9)]

    assert decode(wrapper(inner, codec)) == [
        Row(offset, -1, -1, b"key", b"%d" % offset, []) for offset in (3, 5, 9)
    ]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_in_a_wrapper_of_magic_1_offsets_are_relative(codec: int) -> None:
    inner = [Message(offset, None, b"%d" % offset, timestamp=offset) for offset in (0, 1, 4)]

    assert decode(wrapper(inner, codec, offset=100)) == [
        Row(96 + offset, offset, 0, None, b"%d" % offset, []) for offset in (0, 1, 4)
    ]


def test_in_a_wrapper_whose_inner_offsets_are_all_zero_the_index_counts() -> None:
    data = wrapper([Message(0, None, b"%d" % i) for i in range(3)], offset=100)

    assert [row.offset for row in decode(data)] == [98, 99, 100]


def test_log_append_time_of_a_wrapper_applies_to_all_its_messages() -> None:
    inner = [Message(i, None, b"value", timestamp=1000 + i) for i in range(2)]
    data = wrapper(inner, GZIP, attributes=GZIP | LOG_APPEND_TIME, timestamp=2000)

    assert [row[:3] for row in decode(data)] == [(0, 2000, 1), (1, 2000, 1)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (wrapper([]), "no inner messages"),
        (Message(attributes=GZIP, value=None).encode(), "no inner messages"),
        (wrapper([Message(0, magic=0)], magic=1), "inner message 0 of magic 0"),
        (wrapper([Message(), Message(1, attributes=GZIP)]), "inner message 1 of magic 1 with attr"),
        (wrapper([Message(crc=5)]), "inner message 0: a CRC that does not fit"),
        (wrapper([Message(size=5)]), "inner message 0: a length"),
        (wrapper([Message(), Message(size=500)]), "inner message 1: a batch cut short"),
    ],
    ids=["nothing", "null", "magic", "nested", "crc", "length", "cut"],
)
def test_a_wrapper_with_anything_but_plain_messages_of_its_magic_is_refused(
    data: bytes, reason: str
) -> None:
    first = Message(value=b"before").encode()

    with pytest.raises(Corrupt, match=reason) as caught:
        decode_columns(first + data)

    assert caught.value.position == len(first)


def test_batches_and_messages_of_all_magics_can_be_read_in_one_call() -> None:
    parts = [
        Message(0, b"a", b"0", magic=0).encode(),
        some(2, 1),
        wrapper([Message(0, b"b", b"1"), Message(1, b"c", b"2")], offset=4),
        some(1, 5, codec=LZ4),
        Message(6, b"d", b"3", timestamp=9).encode(),
    ]

    for order in itertools.permutations(parts):
        assert decode(b"".join(order)) == [row for part in order for row in decode(part)]


# ---- what clients read ---------------------------------------------------------------------------


def client_rows(reader: Callable[[bytes], Any], data: bytes) -> list[Row]:
    """Return the records that a client's reader yields."""
    found = []
    batches = reader(data)
    while (each := batches.next_batch()) is not None:
        assert each.validate_crc()
        found += [
            Row(
                one.offset,
                -1 if one.timestamp is None else one.timestamp,
                -1 if one.timestamp_type is None else one.timestamp_type,
                one.key,
                one.value,
                [(name.encode(), value) for name, value in one.headers],
            )
            for one in each
        ]
    return found


@pytest.mark.parametrize("reader", [KafkaPythonRecords, AiokafkaRecords])
@given(
    parts=st.lists(
        st.builds(
            Record,
            st.integers(0, 2**40),
            st.integers(0, 2**20),
            contents,
            contents,
            st.lists(st.tuples(st.text(max_size=8).map(str.encode), contents), max_size=3),
        ),
        min_size=1,
        max_size=6,
    ),
    codec=st.integers(0, 4),
    is_append_time=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_rows_of_a_batch_equal_those_that_clients_read(
    reader: Callable[[bytes], Any], parts: list[Record], codec: int, is_append_time: bool
) -> None:
    data = batch(parts, 2**33, codec=codec, attributes=LOG_APPEND_TIME * is_append_time)

    assert decode(data) == client_rows(reader, data)


@pytest.mark.parametrize("reader", [KafkaPythonRecords, AiokafkaRecords])
@given(
    magic=st.sampled_from([0, 1]),
    parts=st.lists(st.tuples(contents, contents), min_size=1, max_size=5),
    codec=st.sampled_from([0, GZIP, SNAPPY, LZ4]),
)
@settings(max_examples=60, deadline=None)
def test_the_rows_of_a_message_set_equal_those_that_clients_read(
    reader: Callable[[bytes], Any],
    magic: int,
    parts: list[tuple[bytes | None, bytes | None]],
    codec: int,
) -> None:
    inner = [
        Message(i, key, value, magic=magic, timestamp=TIMESTAMP + i)
        for i, (key, value) in enumerate(parts)
    ]
    assume(reader is not AiokafkaRecords or (magic, codec) != (0, LZ4))  # it refuses those
    data = wrapper(inner, codec) if codec else message_set.encode(inner)

    assert decode(data) == client_rows(reader, data)


# ---- columns -------------------------------------------------------------------------------------

ARRAYS = {
    "offset": {"offset": "q"},
    "timestamp": {"timestamp": "q"},
    "timestamp_type": {"timestamp_type": "b"},
    "key": {"key_start": "i", "key_length": "i"},
    "value": {"value_start": "i", "value_length": "i"},
    "headers": {
        "header_end": "i",
        "header_key_start": "i",
        "header_key_length": "i",
        "header_value_start": "i",
        "header_value_length": "i",
    },
}
MIXED = (
    batch([Record(i, i, b"k" * i, None, [(b"h", b"%d" % i)] * i) for i in range(4)], 10)
    + Message(20, b"key", b"value", timestamp=5).encode()
)


@pytest.mark.parametrize("codec", [0, *CODECS])
@pytest.mark.parametrize(
    "names", [names for size in range(3) for names in itertools.combinations(COLUMNS, size)]
)
def test_only_the_requested_columns_are_present(names: tuple[str, ...], codec: int) -> None:
    data = MIXED + some(3, 30, codec=codec)
    whole = decode_columns(data, columns=COLUMNS)

    columns = decode_columns(data, columns=names)

    assert columns.names == [array for name in COLUMNS if name in names for array in ARRAYS[name]]
    assert len(columns) == len(whole)
    for name in columns.names:
        assert numbers(columns, name) == numbers(whole, name)


def test_by_default_there_are_offset_timestamp_key_and_value() -> None:
    assert decode_columns(MIXED).names == [
        array for name in ("offset", "timestamp", "key", "value") for array in ARRAYS[name]
    ]


def test_an_array_is_read_only_and_has_its_type() -> None:
    columns = decode_columns(MIXED, columns=COLUMNS)

    for name, kind in (item for arrays in ARRAYS.values() for item in arrays.items()):
        view = memoryview(columns.column(name))
        assert (view.format, view.itemsize) == (kind, struct.calcsize(kind))
        assert view.readonly
        assert view.c_contiguous
        assert (view.ndim, view.shape) == (1, (len(columns.column(name)),))


def test_numpy_reads_an_array_without_a_copy() -> None:
    columns = decode_columns(MIXED, columns=COLUMNS)

    arrays = columns.to_numpy()

    assert list(arrays) == columns.names
    for name, array in arrays.items():
        assert array.tolist() == numbers(columns, name)
        assert not array.flags.writeable
        assert not array.flags.owndata
    assert arrays["offset"].dtype == np.int64
    assert arrays["timestamp_type"].dtype == np.int8
    assert arrays["value_length"].dtype == np.int32


def test_arrays_outlive_the_columns() -> None:
    arrays = decode_columns(MIXED + some(3, 30, codec=GZIP), columns=COLUMNS).to_numpy()

    again = decode_columns(MIXED + some(3, 30, codec=GZIP), columns=COLUMNS).to_numpy()

    assert all((arrays[name] == again[name]).all() for name in again)


def test_an_array_that_was_not_requested_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        decode_columns(MIXED).column("headers")


@pytest.mark.parametrize("names", [["keys"], "offset", ["offset", ""], ["decompressed"]])
def test_an_unknown_column_is_a_value_error(names: Any) -> None:
    with pytest.raises(ValueError, match="no column"):
        decode_columns(MIXED, columns=names)


def test_the_data_is_the_input_if_nothing_was_compressed() -> None:
    data = bytearray(MIXED)

    assert decode_columns(data).data is data


def test_the_representation_names_what_is_present() -> None:
    assert repr(decode_columns(MIXED, columns=["offset", "key"])) == (
        "<Columns 5 records: offset, key_start, key_length>"
    )


# ---- input ---------------------------------------------------------------------------------------


def mapped(data: bytes, folder: Path) -> mmap.mmap:
    """Return a mapped file of the data."""
    (folder / "data").write_bytes(data)
    with (folder / "data").open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def test_any_buffer_of_bytes_is_accepted(tmp_path: Path) -> None:
    data = MIXED + some(3, 30, codec=GZIP)
    padded = data + bytes(-len(data) % 8)[: -len(data) % 8]

    for buffer in (
        bytearray(data),
        memoryview(data),
        memoryview(b"before" + data)[6:],
        mapped(data, tmp_path),
        np.frombuffer(data, np.uint8),
        np.frombuffer(padded, np.int64),
        np.frombuffer(data, np.uint8).reshape(1, -1),
    ):
        assert decode(buffer) == decode(data)


@pytest.mark.parametrize("place", range(8))
def test_the_input_may_have_any_alignment(place: int) -> None:
    data = bytearray(bytes(place) + MIXED)

    assert decode(memoryview(data)[place:]) == decode(MIXED)


@pytest.mark.parametrize(
    "buffer", [memoryview(MIXED * 2)[::2], np.frombuffer(MIXED * 2, np.uint8)[::2]]
)
def test_a_non_contiguous_buffer_is_refused(buffer: Any) -> None:
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        decode_columns(buffer)


@pytest.mark.parametrize("data", ["text", None, 5, [1, 2]])
def test_an_object_without_a_buffer_is_a_type_error(data: Any) -> None:
    with pytest.raises(TypeError):
        decode_columns(data)


@pytest.mark.parametrize("data", [b"", bytearray(), memoryview(b""), np.zeros(0, np.uint8)])
def test_no_bytes_give_no_records(data: Any) -> None:
    columns = decode_columns(data, columns=COLUMNS)

    assert (len(columns), columns.end) == (0, 0)
    assert all(len(array) == 0 for array in columns.to_numpy().values())


@pytest.mark.parametrize("codec", [0, *CODECS])
def test_an_incomplete_last_batch_is_omitted(codec: int) -> None:
    whole, last = some(2, codec=codec), some(3, 2, codec=codec)

    for size in range(len(last)):
        columns = decode_columns(whole + last[:size], columns=COLUMNS)
        assert columns.end == len(whole)
        assert rows(columns) == decode(whole)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_incomplete_last_message_is_omitted(magic: int) -> None:
    whole = wrapper([Message(0, b"key", b"value", magic=magic)])
    last = Message(1, b"key", b"value", magic=magic).encode()

    for size in range(len(last)):
        columns = decode_columns(whole + last[:size], columns=COLUMNS)
        assert columns.end == len(whole)
        assert rows(columns) == decode(whole)


# ---- faults --------------------------------------------------------------------------------------


def faulty(**fields: int) -> bytes:
    """Return a batch with a wrong field."""
    return some(2, 2, **fields)


TWO = record(0).encode() + record(1).encode()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faulty(crc=7), "a CRC that does not fit"),
        (faulty(magic=3), "a magic other than 2"),
        (faulty(magic=-1), "a magic other than 2"),
        (faulty(length=48), "a length that no batch has"),
        (faulty(length=2**30 + 1), "a length that no batch has"),
        (faulty(length=-1), "a length that no batch has"),
        (faulty(record_count=-1), "-1 records in"),
        (faulty(record_count=2**31 - 1), "2147483647 records in"),
        (faulty(record_count=3), "record 2 of 3 does not fit"),
        (faulty(record_count=1), "bytes follow its 1 records"),
        (faulty(record_count=0), "bytes follow its 0 records"),
        (of_two(TWO[:-1], 2), "record 1 of 2 does not fit"),
        (of_two(TWO + b"\0", 2), "bytes follow its 2 records"),
        (of_two(b"\xff" * len(TWO), 2), "record 0 of 2 does not fit"),
        (of_two(b"\x01" + TWO[1:], 2), "record 0 of 2 does not fit"),
        (of_two(b"\x10" + TWO[1:], 2), "record 0 of 2 does not fit"),
        (Message(crc=7).encode(), "a CRC that does not fit"),
        (Message(size=13).encode(), "a length that no batch has"),
        (Message(size=2**30 + 1).encode(), "a length that no batch has"),
        (Message(value=b"value", size=26).encode(), "a CRC that does not fit"),
        (unfit_message(), "counts that do not fit"),
    ],
)
def test_an_error_has_its_reason_and_the_position_of_the_batch(fault: bytes, reason: str) -> None:
    before = some(2)

    with pytest.raises(Corrupt, match=reason) as caught:
        decode_columns(before + fault + some(1, 4))

    assert caught.value.position == len(before)


@pytest.mark.parametrize("codec", CODECS)
def test_an_error_in_compressed_bytes_has_the_position_of_the_batch(codec: int) -> None:
    before, damaged = some(2), bytearray(some(50, 2, codec=codec))
    damaged[61:] = b"\xff" * (len(damaged) - 61)

    with pytest.raises(CodecError) as caught:
        decode_columns(before + damaged, check_crc=False)

    assert caught.value.position == len(before)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [-1, 1, 3, 2**31 - 1])
def test_a_compressed_batch_must_have_as_many_records_as_its_header_says(
    codec: int, count: int
) -> None:
    before = some(2, codec=codec)

    with pytest.raises(Corrupt) as caught:
        decode_columns(before + some(2, 2, codec=codec, record_count=count))

    assert caught.value.position == len(before)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_compression_is_unsupported(codec: int) -> None:
    with pytest.raises(Unsupported, match=f"codec {codec}") as caught:
        decode_columns(some(2) + some(2, 2, attributes=codec))

    assert caught.value.position == len(some(2))


def test_without_the_crc_check_a_wrong_crc_is_no_error() -> None:
    for fault in (
        faulty(crc=7),
        some(2, 2, codec=GZIP, crc=7),
        Message(2, crc=7).encode(),
        wrapper([Message(crc=8)], crc=7),
    ):
        assert len(decode_columns(fault, check_crc=False)) >= 1


def test_a_control_batch_with_a_wrong_crc_is_an_error_too() -> None:
    damaged = bytearray(some(2, 2))
    damaged[22] |= 0x20  # one bit, and Kafka's readers would skip the batch

    with pytest.raises(Corrupt, match="a CRC that does not fit") as caught:
        decode_columns(some(2) + damaged)

    assert caught.value.position == len(some(2))


@pytest.mark.parametrize(
    "options",
    [
        {"min_offset": "5"},
        {"max_timestamp": 1.5},
        {"key_filter": "text"},
        {"key_filter": [b"key", "text"]},
        {"key_filter": 5},
        {"aborted": [5]},
        {"aborted": [("a", "b")]},
        {"bytes_max": None},
        {"reuse": 5},
    ],
)
def test_an_argument_of_a_wrong_type_is_a_type_or_value_error(options: Any) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        decode_columns(MIXED, **options)


@pytest.mark.parametrize(
    "name", ["min_offset", "max_offset", "min_timestamp", "max_timestamp", "bytes_max"]
)
def test_a_number_beyond_64_bits_is_a_value_error(name: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        decode_columns(MIXED, **{name: 2**63})  # type: ignore[arg-type]


def test_a_limit_below_zero_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="bytes_max"):
        decode_columns(some(2, codec=GZIP), bytes_max=-1)


def test_columns_have_the_column_type() -> None:
    assert isinstance(decode_columns(b""), Columns)
