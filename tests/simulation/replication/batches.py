"""The batches of simulated producers, and what a log has of them."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tests.support.batches import batch_of

_PREFIX = Struct(">qii")  # base offset, length, leader epoch
_PREFIX_SIZE = 12  # which the length does not count
_HEADER_SIZE = 61
_LAST_DELTA = Struct(">i")
_PRODUCER = Struct(">qhi")
_LAST_DELTA_AT = 23
_PRODUCER_AT = 43

Sequence = tuple[int, int, int]  # producer id, producer epoch, base sequence


class Stored(NamedTuple):
    """One batch of a log."""

    base_offset: int
    end_offset: int
    epoch: int
    data: bytes

    @property
    def sequence(self) -> Sequence | None:
        """Which batch of an idempotent producer it is."""
        producer_id, epoch, sequence = _PRODUCER.unpack_from(self.data, _PRODUCER_AT)
        return None if producer_id < 0 else (producer_id, epoch, sequence)


def split(data: bytes) -> Iterator[Stored]:
    """Yield the batches of what was read from a log; a rest may be torn, or no batch."""
    position = 0
    while position + _HEADER_SIZE <= len(data):
        base, length, epoch = _PREFIX.unpack_from(data, position)
        if length < _HEADER_SIZE - _PREFIX_SIZE:
            return
        (delta,) = _LAST_DELTA.unpack_from(data, position + _LAST_DELTA_AT)
        end = position + _PREFIX_SIZE + length
        yield Stored(base, base + delta + 1, epoch, data[position:end])
        position = end


def same_but_for_the_place(first: bytes, second: bytes) -> bool:
    """Return whether two batches differ in base offset and leader epoch only."""
    return first[8:12] == second[8:12] and first[16:] == second[16:]


def produced(value: str, count: int, sequence: Sequence | None) -> bytes:
    """Return a batch as a client sends it, of records that are unlike those of any other batch."""
    producer_id, producer_epoch, base_sequence = sequence or (-1, -1, -1)
    return batch_of(
        [(None, f"{value}.{number}".encode(), []) for number in range(count)],
        1_700_000_000_000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
