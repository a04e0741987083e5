"""Merges the batches that several brokers return to one CONSUME of a pattern."""

from collections.abc import Sequence
from struct import Struct

from broker.protocols.cursus.bodies import MAGIC

_SEQUENCES = Struct(">QQi")  # of the first and the last record, and the number of records
_LENGTH_BYTES = 2  # of a text
_INT32_BYTES = 4
_FLAG_BYTES = 1


def merged(
    frames: Sequence[bytes], bytes_max: int, records_max: int, *, is_original: bool
) -> bytes:
    """Return one batch with the records of all; those of brokers that do not fit are left out.

    The first response that is not a batch but an error is returned if nobody has records.
    """
    batches = [each for each in frames if each.startswith(MAGIC)]
    errors = [each for each in frames if not each.startswith(MAGIC)]
    if not batches:
        return errors[0]
    first, last, count, size = 0, 0, 0, 0
    records: list[bytes] = []
    start = _sequences_start(batches[0], is_original=is_original)
    for batch in batches:
        its_first, its_last, its_count = _SEQUENCES.unpack_from(batch, start)
        its_size = len(batch) - start - _SEQUENCES.size
        is_first = count == 0
        if its_count == 0 or not (
            is_first or (size + its_size <= bytes_max and count + its_count <= records_max)
        ):
            continue
        first, last = first if count else its_first, its_last
        count, size = count + its_count, size + its_size
        records.append(batch[start + _SEQUENCES.size :])
    if count == 0 and errors:
        return errors[0]
    return b"".join((batches[0][:start], _SEQUENCES.pack(first, last, count), *records))


def _sequences_start(batch: bytes, *, is_original: bool) -> int:
    """Return where the sequences are: behind topic, partition, acks and the idempotent flag."""
    at = len(MAGIC)
    at = _after_text(batch, at)
    if is_original:
        at = _after_text(batch, _after_text(batch, at))  # partition, acks
    else:
        at += _INT32_BYTES
        at += 1 + batch[at]
    return at + _FLAG_BYTES


def _after_text(batch: bytes, at: int) -> int:
    return at + _LENGTH_BYTES + int.from_bytes(batch[at : at + _LENGTH_BYTES], "big")
