"""Record batches: built, read and checked as by the plain oracle."""

import struct
from collections.abc import Iterable
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.records.record_batch import validate
from broker.model.errors import CodecError
from tests.oracles import record_batch_oracle as oracle
from tests.oracles.record_batch_oracle import HEADER, Header, Record
from tests.support.batches import batch_of, header, records_of
from tests.support.broken_batches import CASES as ALL_CASES
from tests.support.broken_batches import NONE

TIMESTAMP = 1_700_000_000_000
RECORDS = [Record(0, 0, b"key", b"value", [(b"name", b"content")]), Record(5, 1, None, None, [])]
SOUND = Header(
    base_offset=77,
    leader_epoch=3,
    last_offset_delta=1,
    base_timestamp=TIMESTAMP,
    max_timestamp=TIMESTAMP + 5,
    record_count=2,
)
UINT32 = st.integers(0, 2**32 - 1)
INT8, INT16, INT32, INT64 = (
    st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)
)
FIELDS = dict(
    zip(
        [field.name for field in fields(Header)],
        [INT64, INT32, INT32, INT8, UINT32, INT16, INT32, INT64, INT64, INT64, INT16, INT32, INT32],
        strict=True,
    )
)

contents = st.none() | st.binary(max_size=20) | st.binary(min_size=127, max_size=130)
headers = st.lists(st.tuples(st.binary(max_size=8), contents), max_size=3)
records = st.tuples(contents, contents, headers)
wire_records = st.builds(Record, INT64, INT32, contents, contents, headers)


def encode(parts: Iterable[Record]) -> bytes:
    """Return the records of a batch."""
    return b"".join(record.encode() for record in parts)


BATCH = SOUND.encode(encode(RECORDS))
CASES = {name: case for name, case in ALL_CASES.items() if case.codec == "none"}


# ---- records ----------------------------------------------------------------------------------


@given(st.lists(st.lists(records, min_size=1, max_size=4), max_size=3))
@settings(max_examples=50, deadline=None)
def test_reading_returns_every_record_of_every_batch(
    batches: list[list[tuple[bytes | None, bytes | None, oracle.Headers]]],
) -> None:
    data = b"".join(
        batch_of(each, TIMESTAMP + place, base_offset=100 * place)
        for place, each in enumerate(batches)
    )

    assert records_of(data) == [
        (100 * place + delta, TIMESTAMP + place, *record)
        for place, each in enumerate(batches)
        for delta, record in enumerate(each)
    ]


@given(st.lists(wire_records, max_size=4), INT64)
@settings(max_examples=100, deadline=None)
def test_timestamps_and_offsets_are_relative_to_the_header(
    parts: list[Record], base_timestamp: int
) -> None:
    sound = replace(
        SOUND, base_offset=2**40, base_timestamp=base_timestamp, record_count=len(parts)
    )

    found = records_of(sound.encode(encode(parts)))

    assert [offset - 2**40 for offset, *_ in found] == [part.offset_delta for part in parts]
    assert [(timestamp - base_timestamp) % 2**64 for _, timestamp, *_ in found] == [
        part.timestamp_delta % 2**64 for part in parts
    ]
    assert [each[2:] for each in found] == [tuple(part[2:]) for part in parts]


def test_with_log_append_time_every_record_has_the_maximum_timestamp() -> None:
    batch = replace(SOUND, attributes=8, max_timestamp=42).encode(encode(RECORDS))

    assert [record[1] for record in records_of(batch)] == [42, 42]


# ---- the header -------------------------------------------------------------------------------


@given(st.fixed_dictionaries({name: FIELDS[name] for name in FIELDS if name != "length"}))
@settings(max_examples=100, deadline=None)
def test_every_field_of_a_header_is_read(values: dict[str, int]) -> None:
    data = Header(**{**values, "magic": 2}).encode(b"payload")

    found = header(BATCH + data, len(BATCH))._asdict()

    assert (found.pop("position"), found.pop("size")) == (0, len(data))
    last_offset = values.pop("base_offset") + values.pop("last_offset_delta")
    assert (found.pop("last_offset") - last_offset) % 2**64 == 0
    assert found.pop("base_offset") is not None
    assert found == {**values, "magic": 2}


# ---- what a client may send -------------------------------------------------------------------


def test_a_valid_batch_is_accepted() -> None:
    assert validate(BATCH) is None
    assert oracle.what_is_wrong(BATCH) is None


@given(st.sampled_from(sorted(FIELDS)), st.data())
@settings(max_examples=400, deadline=None)
def test_a_batch_with_any_one_field_changed_is_judged_as_by_the_oracle(
    name: str, data: st.DataObject
) -> None:
    small = st.integers(0, 70)
    value = data.draw(FIELDS[name] | small if name != "crc" else FIELDS[name])
    batch = replace(SOUND, **{name: value}).encode(encode(RECORDS))

    assert validate(batch) == oracle.what_is_wrong(batch)


@given(st.dictionaries(st.sampled_from(["attributes", "producer_id", "producer_epoch",
                                        "base_sequence", "record_count", "last_offset_delta"]),
                       st.integers(-2, 9)),
       st.lists(wire_records, max_size=3) | st.binary(max_size=12), st.booleans())  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_mixture_is_judged_as_by_the_oracle(
    values: dict[str, int], payload: list[Record] | bytes, in_order: bool
) -> None:
    if in_order and not isinstance(payload, bytes):
        payload = [each._replace(offset_delta=place) for place, each in enumerate(payload)]
    content = payload if isinstance(payload, bytes) else encode(payload)
    count = 1 if isinstance(payload, bytes) else len(payload)
    sound = replace(SOUND, record_count=count, last_offset_delta=count - 1)
    batch = replace(sound, **values).encode(content)

    assert validate(batch) == oracle.what_is_wrong(batch)


def test_a_batch_cut_at_any_length_is_refused() -> None:
    for size in range(1, len(BATCH)):
        assert validate(BATCH[:size]) == "a batch cut short"
    assert validate(b"") == "no batch"


def test_any_bytes_after_a_batch_are_refused() -> None:
    for tail in (b"\0", BATCH, bytes(100)):
        assert validate(BATCH + tail) == "bytes after the batch"


def test_a_changed_bit_anywhere_under_the_crc_is_detected() -> None:
    for place in range(17, len(BATCH)):
        for bit in range(8):
            damaged = bytearray(BATCH)
            damaged[place] ^= 1 << bit
            assert validate(bytes(damaged)) == "a CRC that does not fit"


@pytest.mark.parametrize("codec", range(8))
def test_only_existing_codecs_are_accepted(codec: int) -> None:
    batch = replace(SOUND, attributes=codec).encode(encode(RECORDS))

    assert (validate(batch) is None) == (codec <= 4)


def test_a_control_batch_from_a_client_is_refused() -> None:
    batch = replace(SOUND, attributes=0x20).encode(encode(RECORDS))

    assert validate(batch) == "attributes a client may not set"


@given(st.binary(max_size=3), st.data())
@settings(max_examples=400, deadline=None)
def test_records_with_any_bytes_changed_are_judged_as_by_the_oracle(
    other: bytes, data: st.DataObject
) -> None:
    whole = encode(RECORDS)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(start + 3, len(whole))))
    batch = SOUND.encode(whole[:start] + other + whole[end:])

    assert validate(batch) == oracle.what_is_wrong(batch)


@pytest.mark.parametrize("name", CASES)
def test_plain_records_that_some_consumer_cannot_read_are_refused(name: str) -> None:
    case = CASES[name]
    batch = case.batch()

    assert validate(batch) == oracle.what_is_wrong(batch)
    assert (validate(batch) is None) == (case.code == NONE)


def test_compressed_records_are_not_inspected() -> None:
    assert validate(replace(SOUND, attributes=1).encode(b"\xff" * 30)) is None


# ---- invalid records -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        encode(RECORDS)[:-1],
        encode(RECORDS) + b"\0",
        encode(RECORDS[:1]),
        oracle.varint(-1),
        oracle.varint(2**31 - 1),
        b"\xff" * 5,
        oracle.varint(7) + RECORDS[1].encode()[1:] + b"\0" + RECORDS[1].encode(),
        oracle.varint(5) + RECORDS[1].encode()[1:] + RECORDS[1].encode(),
    ],
    ids=["none", "short", "long", "one", "negative", "huge", "varint", "padded", "overlapping"],
)
def test_records_that_do_not_fit_their_lengths_are_refused(payload: bytes) -> None:
    batch = SOUND.encode(payload)

    with pytest.raises(CodecError):
        records_of(batch)


@given(st.binary(max_size=60), st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_records_or_a_codec_error(payload: bytes, count: int) -> None:
    batch = replace(SOUND, record_count=count).encode(payload)

    try:
        found = records_of(batch)
    except CodecError:
        return
    assert len(found) == count


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**30 + 1, 2**31 - 1])
def test_an_impossible_batch_length_is_refused(length: int) -> None:
    data = BATCH[:8] + struct.pack(">i", length) + BATCH[12:]

    assert validate(data) == "a length that no batch has"
    assert HEADER.size - 12 == 49
