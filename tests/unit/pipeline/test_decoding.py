"""Bytes of batches as Arrow batches."""

from collections.abc import Iterable
from typing import Any

import pytest

from broker import codec
from broker.model.errors import Corrupt, LimitExceeded
from broker.model.limits import PIPELINE_BATCH_ROWS, PIPELINE_COMPRESSED_BYTES
from broker.pipeline.decoding import Decoder, Selection, still_aborted
from tests.support.record_bytes import marker

END = 1 << 40


def joined(rows: Iterable[Any], base_offset: int = 0, **options: Any) -> memoryview:
    """Batches of some rows."""
    options = {"timestamp_ms": 7} | options
    return memoryview(b"".join(codec.encode(list(rows), base_offset=base_offset, **options)))


def offsets(
    data: memoryview, start: int = 0, end: int = END, aborted: Any = None, **selection: Any
) -> list[int]:
    """Return the decoded offsets."""
    decoder = Decoder("t", 3, Selection(("offset",), **selection))
    batches = decoder.batches(data, start, end, aborted)
    return [each for batch in batches for each in batch.column("offset").to_pylist()]


def test_records_of_a_batch_outside_the_range_are_omitted() -> None:
    assert offsets(joined([b"a"] * 9), 2, 5) == [2, 3, 4]


def test_records_are_filtered_by_time_and_by_key() -> None:
    rows: list[Any] = [(b"k%d" % (each % 2), b"v", [], each) for each in range(6)]

    assert offsets(joined(rows), min_timestamp=2, max_timestamp=4) == [2, 3, 4]
    assert offsets(joined(rows), keys=b"k1") == [1, 3, 5]
    assert offsets(joined(rows), keys=(b"k0",)) == [0, 2, 4]


def test_the_columns_are_in_the_requested_order() -> None:
    data = joined([(b"k", b"v", [("h", b"1")]), (None, None)])
    wanted = ("value", "headers", "timestampType", "topic", "partition", "key", "timestamp")
    [batch] = Decoder("t", 3, Selection(wanted)).batches(data, 0, END)

    assert tuple(batch.schema.names) == wanted
    rows = batch.to_pylist()
    assert [each["value"] for each in rows] == [b"v", None]
    assert [each["key"] for each in rows] == [b"k", None]
    assert [each["headers"] for each in rows] == [[{"key": "h", "value": b"1"}], None]
    assert {(each["topic"], each["partition"], each["timestampType"]) for each in rows} == {
        ("t", 3, 0)
    }
    assert {each["timestamp"].timestamp() for each in rows} == {0.007}


def test_null_columns_are_as_long_as_the_records() -> None:
    [batch] = Decoder("t", 3, Selection(("topic",))).batches(joined([b"a"] * 4), 0, END)

    assert batch.to_pydict() == {"topic": ["t"] * 4}


def test_many_rows_are_split_into_arrow_batches_of_similar_size() -> None:
    count = 2 * PIPELINE_BATCH_ROWS + 1
    data = joined([b""] * count)
    batches = list(Decoder("t", 0, Selection(("offset", "value"))).batches(data, 0, END))

    assert [each.num_rows for each in batches] == [43691] * 3
    assert [each for batch in batches for each in batch.column("offset").to_pylist()] == list(
        range(count)
    )


def test_a_held_batch_is_not_overwritten_by_the_next() -> None:
    decoder = Decoder("t", 0, Selection(("offset", "value")))
    [kept] = decoder.batches(joined([b"first"] * 50), 0, END)
    [_] = decoder.batches(joined([b"other"] * 50, 50), 0, END)

    assert set(kept.column("value").to_pylist()) == {b"first"}
    assert kept.column("offset").to_pylist() == list(range(50))


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_decoded_a_few_at_a_time(compression: str) -> None:
    piece = joined([bytes(5000)] * 20, compression=compression, batch_bytes_max=20_000)
    count = 3 * PIPELINE_COMPRESSED_BYTES // len(piece)
    data = memoryview(
        b"".join(
            joined([bytes(5000)] * 20, 20 * each, compression=compression, batch_bytes_max=20_000)
            for each in range(count if compression in {"snappy", "lz4"} else 40)
        )
    )

    assert offsets(data) == list(range(20 * (count if compression in {"snappy", "lz4"} else 40)))


def test_batches_that_decompress_to_too_much_together_are_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode = codec.decode_columns
    calls: list[int] = []

    def limited(data: memoryview, **options: Any) -> Any:
        calls.append(len(data))
        return decode(data, **options, bytes_max=70_000)

    monkeypatch.setattr(codec, "decode_columns", limited)
    data = joined([bytes(5000)] * 64, compression="zstd", batch_bytes_max=60_000)

    assert offsets(data) == list(range(64))
    assert len(calls) > 4


def test_a_single_batch_that_decompresses_above_the_limit_is_reported_with_its_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode = codec.decode_columns
    monkeypatch.setattr(
        codec, "decode_columns", lambda data, **more: decode(data, **more, bytes_max=1000)
    )
    data = joined([bytes(5000)], 40, compression="zstd")

    with pytest.raises(LimitExceeded, match="t-3, in the batches from offset 40 on"):
        offsets(data)


def test_damage_is_reported_with_its_position() -> None:
    data = bytearray(joined([b"a", b"b"], 40))
    data[-1] ^= 1

    with pytest.raises(Corrupt, match="t-3, in the batches from offset 40 on"):
        offsets(memoryview(data))


def test_an_aborted_transaction_is_omitted_and_later_records_are_not() -> None:
    of_7 = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    for compression in ("none", "zstd"):
        # Each of a different size, so that the list must shrink between them.
        large = [bytes([each % 251]) * 100 for each in range(10)]
        parts: list[Any] = [
            joined(large, 0, compression=compression, **of_7),
            marker(7, 10, is_commit=False),
            joined(large, 11, compression=compression, **of_7),
            marker(7, 21, is_commit=True),
        ]
        data = memoryview(b"".join(parts))

        assert offsets(data, aborted=[(7, 0)]) == list(range(11, 21))


def test_records_committed_in_a_later_piece_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.pipeline.decoding.PIPELINE_COMPRESSED_BYTES", 1)
    test_an_aborted_transaction_is_omitted_and_later_records_are_not()


def test_an_aborted_transaction_ends_at_its_producers_marker() -> None:
    headers = list(codec.scan_headers(marker(7, 10, is_commit=False)))

    assert still_aborted([(7, 3), (8, 3), (7, 11)], headers) == [(8, 3), (7, 11)]
    assert still_aborted([(7, 3)], []) == [(7, 3)]
    assert still_aborted(None, headers) is None


def test_a_decoder_remains_usable_after_unreadable_bytes() -> None:
    decoder = Decoder("t", 0, Selection(("offset", "key", "value")))
    whole = joined([(b"k", b"v")] * 50)
    damaged, empty = bytearray(whole), memoryview(marker(7, 10, is_commit=False))
    damaged[-10] ^= 1
    for _ in range(2):  # so that there are two results whose memory can be reused
        [batch] = decoder.batches(whole, 0, END)
        del batch
    with pytest.raises(Corrupt):
        list(decoder.batches(memoryview(damaged), 0, END))

    for _ in range(3):
        assert list(decoder.batches(empty, 0, END)) == []  # neither rows nor memory for them
    [batch] = decoder.batches(whole, 0, END)
    assert batch.column("value").to_pylist() == [b"v"] * 50
