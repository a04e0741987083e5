"""Ranges of offsets in which a batch is damaged: all before it is read, and the error names it."""

from collections.abc import Iterator

import pytest

from broker import codec
from broker.client import reading
from broker.client.fetch import Chunk, Range
from broker.client.metadata import Cluster
from broker.model.address import parse_addresses
from broker.model.errors import ErrorCode, RequestError

CLUSTER = Cluster(parse_addresses("127.0.0.1:1"))
BATCHES, RECORDS = 4, 3  # of each batch


@pytest.fixture(params=[None, []], ids=["read_uncommitted", "read_committed"])
def damaged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a leader return four batches at once; return the first offset of the damaged one."""
    batches = []
    for number in range(BATCHES):
        records = [(b"key", b"value")] * RECORDS
        [batch] = codec.encode(records, base_offset=RECORDS * number, timestamp_ms=7)
        batches.append(bytearray(batch))
    batches[2][-1] ^= 1

    def fetch(_cluster: Cluster, part: Range, *, is_committed: bool) -> Iterator[Chunk]:
        del is_committed
        data = memoryview(b"".join(batches[part.start // RECORDS :]))
        yield Chunk(data, part.start, BATCHES * RECORDS, request.param)

    monkeypatch.setattr(reading, "fetch", fetch)
    return 2 * RECORDS


def read(start: int, end: int) -> Iterator[int]:
    for each in reading.read(CLUSTER, Range("t", "", 0, start, end)):
        yield each.record.offset


@pytest.mark.parametrize("start", [0, 4, 6, 7])
def test_everything_before_a_damaged_batch_is_read_and_the_error_names_it(
    start: int, damaged: int
) -> None:
    found: list[int] = []
    with pytest.raises(RequestError, match="t-0: the batch of offsets 6 to 8 is damaged") as caught:
        found.extend(read(start, BATCHES * RECORDS))

    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert found == list(range(start, damaged))


@pytest.mark.parametrize("end", [1, 5, 6])
def test_damage_behind_the_end_of_the_range_is_no_error(end: int, damaged: int) -> None:
    assert end <= damaged
    assert list(read(0, end)) == list(range(end))


@pytest.mark.usefixtures("damaged")
def test_what_is_behind_a_damaged_batch_is_read() -> None:
    assert list(read(9, 12)) == [9, 10, 11]
