"""The bytes of records that the original Cursus has stored, in each of its layouts."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocols.cursus.importing.stored import StoredRecord, decode
from tests.support.cursus_directories import LAYOUTS, Stored, encode

TEXT = st.binary(max_size=20)
NUMBER = st.integers(0, (1 << 32) - 1)
RECORDS = st.builds(
    Stored,
    payload=st.binary(max_size=100),
    key=TEXT,
    producer_id=TEXT,
    sequence=NUMBER,
    epoch=NUMBER,
    event_type=TEXT,
    schema_version=NUMBER,
    aggregate_version=NUMBER,
    metadata=TEXT,
    transactional_id=TEXT,
    state=TEXT,
    marker=TEXT,
)


def expected(record: Stored, layout: str) -> StoredRecord:
    """Return what a record of a layout has."""
    newness = LAYOUTS.index(layout)
    found = StoredRecord(
        b"t", 3, 7, record.producer_id, record.sequence, record.epoch, record.payload
    )
    if newness >= LAYOUTS.index("event"):
        found = found._replace(
            event_type=record.event_type,
            schema_version=record.schema_version,
            aggregate_version=record.aggregate_version,
            metadata=record.metadata,
        )
    if newness >= LAYOUTS.index("key"):
        found = found._replace(key=record.key)
    if newness >= LAYOUTS.index("transaction"):
        found = found._replace(
            transactional_id=record.transactional_id, state=record.state, marker=record.marker
        )
    return found


@given(RECORDS, st.sampled_from(LAYOUTS))
def test_a_record_of_any_version_is_read(record: Stored, layout: str) -> None:
    assert decode(encode("t", 3, 7, record, layout)) == expected(record, layout)


@given(RECORDS, st.data())
def test_a_record_that_is_cut_is_refused_or_one_of_an_older_version(
    record: Stored, data: st.DataObject
) -> None:
    whole = encode("t", 3, 7, record, "identity")
    oldest = len(encode("t", 3, 7, record, LAYOUTS[0]))
    size = data.draw(st.integers(0, len(whole) - 1))

    if size < oldest:
        with pytest.raises(ValueError, match="it ends in its"):
            decode(whole[:size])
    else:
        with suppress(ValueError):
            assert decode(whole[:size]).payload == record.payload


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode("t", 0, 0, Stored(b"x"), "identity") + b"\0\0", "more fields than are known"),
        (encode("t", 0, 0, Stored(b"x", epoch=1 << 63), "plain"), "its epoch is negative"),
    ],
)
def test_a_record_that_no_version_has_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        assert decode(data).payload in data
