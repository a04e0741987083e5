"""Headers of batches of which the last one is incomplete."""

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from broker.codec import scan_headers
from broker.model.errors import Corrupt
from tests.support.native_log import records

HEADER_SIZE = 61
MESSAGE_HEAD_SIZE = 26  # up to the end of a timestamp


def message(magic: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    builder.append(7, timestamp=1_700_000_000_000, key=b"k", value=b"v" * 90, headers=[])
    return bytes(builder.build())


@pytest.mark.parametrize(
    ("last", "head_size"),
    [
        (records(3, base_offset=7), HEADER_SIZE),
        (message(0), MESSAGE_HEAD_SIZE),
        (message(1), MESSAGE_HEAD_SIZE),
    ],
)
def test_an_incomplete_batch_has_a_row_once_its_header_is_complete(
    last: bytes, head_size: int
) -> None:
    before = records(2, base_offset=5)
    whole = list(scan_headers(before + last))
    assert whole[1].base_offset == 7

    for cut in range(len(last)):
        data = before + last[:cut]
        with_cut, without = scan_headers(data, cut=True), scan_headers(data)

        assert list(with_cut) == (whole if cut >= head_size else whole[:1])
        assert list(without) == whole[:1]
        assert with_cut.end == without.end == len(before)
    assert list(scan_headers(before + last, cut=True)) == whole


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_incomplete_bytes_without_a_known_magic_have_no_row(magic: int) -> None:
    batch = bytearray(records(3))
    batch[16] = magic

    assert list(scan_headers(bytes(batch[:-1]), cut=True)) == []
    with pytest.raises(Corrupt, match="magic"):
        scan_headers(bytes(batch), cut=True)
