"""Cursus's batch: whatever can be read is stored and returned unchanged."""

from collections.abc import Iterator

from broker._native.protocols.cursus.batch import CursusBatch
from broker._native.protocols.cursus.frames import CursusFrame
from broker.codec import encode
from broker.model.errors import CodecError, LimitExceeded
from broker.model.limits import PARTITIONS_PER_TOPIC_MAX
from tests.fuzz.inputs import outcome
from tests.support.cursus_client import Message, batch, read_batch

ROWS_AT_ONCE = 3
RUNS_MAX = 10
BYTES_MAX = 1 << 20
HEADER_BYTES = 61  # of a batch, before its records


def cursus_batch(data: bytes) -> None:
    """Read a batch in either layout, and write it again."""
    found = outcome(len(data), lambda: CursusBatch(data))
    if isinstance(found, CodecError):
        return
    rows = []
    while some := found.rows(ROWS_AT_ONCE):
        rows += some
    assert len(rows) == found.count
    try:
        assert sum(run[4] for run in found.runs(RUNS_MAX)) == found.count
    except LimitExceeded:
        assert found.count > RUNS_MAX
    frame = CursusFrame(
        found.topic,
        found.partition % PARTITIONS_PER_TOPIC_MAX,  # the layout of a larger one is ambiguous
        is_original=found.is_original,
        bytes_max=BYTES_MAX,
        records_max=found.count,
    )
    for each in encode(rows, timestamp_ms=0):
        assert frame.add(each, each[HEADER_BYTES:], 0) == "open"
    written = frame.take()
    again = CursusBatch(written)
    assert (again.topic, again.is_original) == (found.topic, found.is_original)
    assert again.rows(found.count) == rows
    read_batch(written, is_original=found.is_original)


def seeds() -> Iterator[bytes]:
    """Return both layouts, with and without every field."""
    full = Message(b"hi", 1, b"p", b"k", -5, b"made", 3, 1 << 63, b"{}")
    for is_original in (False, True):
        for messages in ([], [Message(b"")], [full], [full, Message(b"x"), full._replace(seq=2)]):
            yield batch("topic", 2, messages, is_original=is_original)
