"""The native encoder of record batches: what its Python callers may do with it."""

import array
from collections.abc import Iterator
from typing import Any

import pytest

from broker._native.records.batch_encoder import BatchEncoder
from broker._native.records.column_source import ColumnSource
from broker.model.errors import LimitExceeded
from tests.support.batches import header, records_of

GZIP = 1


def encoder_of(**options: Any) -> BatchEncoder:
    return BatchEncoder(**{"batch_bytes_max": 1000, "timestamp": 0, **options})


def values_of(batches: list[bytes]) -> list[bytes | None]:
    return [record[3] for batch in batches for record in records_of(batch)]


def test_rows_and_columns_go_into_the_same_batch() -> None:
    source = ColumnSource(1)
    source.spans("value", b"columns", array.array("i", [0]), array.array("i", [7]))
    encoder = encoder_of()

    encoder.append_rows([b"rows"])
    encoder.append_columns(source)
    encoder.append_rows([])
    [batch] = encoder.finish()

    assert values_of([batch]) == [b"rows", b"columns"]


def test_finished_batches_are_returned_once_and_the_next_batch_continues_the_offsets() -> None:
    encoder = encoder_of(base_sequence=5)
    encoder.append_rows([b"one", b"two"])
    assert len(encoder.finish()) == 1
    assert encoder.finish() == []

    encoder.append_rows([b"three"])
    [batch] = encoder.finish()

    assert (header(batch).base_offset, header(batch).base_sequence) == (2, 7)


@pytest.mark.parametrize("size", [0, 1, 400, 450, 500, 511, 512, 1023, 5_000, 70_000, 900_000])
def test_a_batch_is_no_longer_than_its_records_need(size: int) -> None:
    encoder = encoder_of(batch_bytes_max=1 << 20)
    encoder.append_rows([b"x" * size])

    [batch] = encoder.finish()

    assert values_of([batch]) == [b"x" * size]
    assert len(batch) < size + 80


@pytest.mark.parametrize("limit", [500, 5_000, 128 << 10, (128 << 10) + 1, 300_000])
def test_batches_are_filled_up_to_their_limit(limit: int) -> None:
    rows = [b"x" * 90] * (3 * limit // 100)
    encoder = encoder_of(batch_bytes_max=limit)
    encoder.append_rows(rows)

    batches = encoder.finish()

    assert values_of(batches) == rows
    assert all(limit - 110 < len(batch) <= limit for batch in batches[:-1])


def test_rows_before_a_bad_row_are_encoded() -> None:
    encoder = encoder_of()

    with pytest.raises(LimitExceeded):
        encoder.append_rows([b"one", b"x" * 1000, b"never reached"])
    assert values_of(encoder.finish()) == [b"one"]


def test_an_exception_of_the_rows_iterator_reaches_the_caller() -> None:
    def rows() -> Iterator[bytes]:
        yield b"one"
        raise KeyError("mine")

    encoder = encoder_of()

    with pytest.raises(KeyError, match="mine"):
        encoder.append_rows(rows())
    assert values_of(encoder.finish()) == [b"one"]


def test_rows_cannot_call_back_into_the_encoder() -> None:
    encoder = encoder_of()
    refusals = []

    class Headers:
        def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
            for use in (
                lambda: encoder.append_rows([(b"other", b"other", [(b"a", b"b")])]),
                lambda: encoder.append_columns(ColumnSource(1)),
                encoder.finish,
            ):
                with pytest.raises(RuntimeError, match="already in use") as refused:
                    use()
                refusals.append(refused)
            return iter([(b"h", b"1")])

    encoder.append_rows([(b"key", b"value", Headers())])

    assert records_of(encoder.finish()[0]) == [(0, 0, b"key", b"value", [(b"h", b"1")])]
    assert len(refusals) == 3


def test_a_tuple_subclass_is_read_by_its_stored_items() -> None:
    class Row(tuple):  # type: ignore[type-arg]
        __slots__ = ()

        def __getitem__(self, place: object) -> Any:
            return bytes(1000)

        def __len__(self) -> int:
            return 1

    encoder = encoder_of()
    encoder.append_rows([Row((b"key", b"value"))])

    assert values_of(encoder.finish()) == [b"value"]


# ---- compression ---------------------------------------------------------------------------------


def test_only_the_records_are_compressed() -> None:
    seen = []

    def compress(records: memoryview) -> bytes:
        seen.append(bytes(records))
        return b"small"

    encoder = encoder_of(attributes=GZIP, compress=compress)
    encoder.append_rows([b"one"])
    [batch] = encoder.finish()
    plain = encoder_of()
    plain.append_rows([b"one"])

    assert seen == [plain.finish()[0][61:]]
    assert batch[61:] == b"small"
    assert header(batch).size == len(batch) == 66


def test_a_memoryview_kept_by_compress_stays_unchanged() -> None:
    views: list[memoryview] = []

    def compress(records: memoryview) -> bytes:
        views.append(records)
        return b"x" * (1000 if len(views) == 2 else 3)

    encoder = encoder_of(attributes=GZIP, compress=compress)
    for value in (b"one", b"two", b"three"):
        encoder.append_rows([value])
        encoder.finish()

    assert [bytes(view)[-4:-1] for view in views] == [b"one", b"two", b"ree"]


def test_compress_must_return_bytes() -> None:
    encoder = encoder_of(attributes=GZIP, compress=lambda records: records)
    encoder.append_rows([b"one"])

    with pytest.raises(TypeError, match="bytes"):
        encoder.finish()


def test_an_exception_of_compress_reaches_the_caller() -> None:
    def compress(records: memoryview) -> bytes:
        raise KeyError("mine")

    encoder = encoder_of(attributes=GZIP, compress=compress)

    with pytest.raises(KeyError, match="mine"):
        encoder.append_rows([b"x" * 500] * 3)


@pytest.mark.parametrize("options", [{"attributes": GZIP}, {"compress": bytes}], ids=str)
def test_a_codec_and_a_compress_function_must_be_given_together(options: Any) -> None:
    with pytest.raises(ValueError, match="together"):
        encoder_of(**options)
