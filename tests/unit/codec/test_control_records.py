"""Markers as Kafka writes them, byte for byte."""

import pytest

from broker.codec import encode, validate
from broker.codec.control_records import Marker, decode_marker, encode_marker
from broker.model.errors import Truncated


def expected(kind: int) -> str:
    """Return the batch after its CRC, by hand from Kafka's protocol guide (Control Batches)."""
    return (
        "0030"
        "00000000" + "0000000000000064" * 2 + "0000000000000007"
        "0003"
        "ffffffff"
        "00000001"
        "20000000"
        "080000"
        f"{kind:04x}"
        "0c0000"
        "00000009"
        "00"
    )


@pytest.mark.parametrize(("is_committed", "kind"), [(False, 0), (True, 1)])
def test_a_marker_is_kafkas_control_batch(is_committed: bool, kind: int) -> None:
    batch = encode_marker(Marker(7, 3, is_committed, 9), leader_epoch=5, timestamp_ms=100)

    assert batch[:17].hex() == "0000000000000000000000420000000502"
    assert batch[21:].hex() == expected(kind)
    assert validate(batch) == 1


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_marker_is_read_back(is_committed: bool) -> None:
    marker = Marker(7, 3, is_committed, 9)

    assert decode_marker(encode_marker(marker)) == marker


def test_control_records_of_other_kinds_are_not_markers() -> None:
    [batch] = encode([(b"\x00\x00\x00\x02", b"")], is_control=True)

    assert decode_marker(batch) is None


@pytest.mark.parametrize("record", [(b"\x00\x00", b"\x00" * 6), (b"\x00\x00\x00\x01", b"\x00")])
def test_a_marker_that_is_too_short_is_corrupt(record: tuple[bytes, bytes]) -> None:
    [batch] = encode([record], is_control=True, is_transactional=True, producer_id=1)

    with pytest.raises(Truncated):
        decode_marker(batch)
