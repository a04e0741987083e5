"""Batches of several brokers as one."""

import pytest

from broker.protocols.cursus.merging import merged
from tests.support.cursus_client import Message, batch, read_batch

NO_LIMIT = 1 << 30


def _batch(*payloads: bytes, first: int = 1, is_original: bool = False) -> bytes:
    messages = [Message(each, first + place) for place, each in enumerate(payloads)]
    return batch("t*", 3, messages, is_original=is_original)


@pytest.mark.parametrize("is_original", [False, True])
def test_one_batch_has_the_records_of_all(*, is_original: bool) -> None:
    frames = [
        _batch(is_original=is_original),
        _batch(b"a", b"b", first=4, is_original=is_original),
        _batch(b"c", first=9, is_original=is_original),
    ]
    found = read_batch(
        merged(frames, NO_LIMIT, 100, is_original=is_original), is_original=is_original
    )
    assert (found.topic, found.partition, found.acks) == (b"t*", 3, b"1")
    assert (found.seq_start, found.seq_end) == (4, 9)
    assert [each.payload for each in found.messages] == [b"a", b"b", b"c"]


def test_what_does_not_fit_is_left_out_but_never_everything() -> None:
    frames = [_batch(bytes(100)), _batch(bytes(200)), _batch(b"x")]
    found = read_batch(merged(frames, 250, 100, is_original=False))
    assert [len(each.payload) for each in found.messages] == [100, 1]
    assert len(read_batch(merged(frames, 10, 100, is_original=False)).messages) == 1
    assert len(read_batch(merged(frames, NO_LIMIT, 2, is_original=False)).messages) == 2


def test_an_error_is_returned_if_nobody_has_records() -> None:
    assert merged([_batch(), b"ERROR: x"], NO_LIMIT, 9, is_original=False) == b"ERROR: x"
    found = read_batch(merged([b"ERROR: x", _batch(b"a")], NO_LIMIT, 9, is_original=False))
    assert [each.payload for each in found.messages] == [b"a"]
