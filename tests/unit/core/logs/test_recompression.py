"""The recompression and checks of a batch before it is appended (KIP-390, KIP-467)."""

import asyncio
import threading
from functools import partial
from typing import Any

import crc32c
import pytest

from broker.codec import compression
from broker.codec.encoding import encode
from broker.core.logs.recompression import (
    KeylessRecordsError,
    Preparation,
    Recompression,
    prepare,
)
from broker.model.compressions import BY_NAME
from broker.model.config import load
from broker.model.errors import ErrorCode, RequestError
from broker.model.topic_config import TopicConfig
from broker.protocols.kafka.errors import number
from tests.support.batches import header, records_of
from tests.support.broken_batches import CASES as ALL_CASES
from tests.support.broken_batches import NONE
from tests.support.fakes import NOW_MS

VALUE = b"words that fold well " * 20
CODECS = list(BY_NAME)
COMPRESSED = CODECS[1:]
CASES = {name: case for name, case in ALL_CASES.items() if case.codec != "none"}
FAR_MS = NOW_MS + 77


def topic(**overrides: str) -> TopicConfig:
    return TopicConfig({name.replace("_", "."): text for name, text in overrides.items()}, load())


def records(*keys: bytes | None, codec: str = "none", **fields: Any) -> bytes:
    rows = [(key, VALUE, [("h", b"1")], NOW_MS + place) for place, key in enumerate(keys)]
    [batch] = encode(rows, compression=codec, **fields)
    return batch


def forged(batch: bytes, codec: int, body: bytes) -> bytes:
    """Return the header of a batch with another body and a correct CRC."""
    attributes = (int.from_bytes(batch[21:23]) & ~7 | codec).to_bytes(2)
    covered = attributes + batch[23:61] + body
    length = (len(covered) + 9).to_bytes(4)
    return batch[:8] + length + batch[12:17] + crc32c.crc32c(covered).to_bytes(4) + covered


def prepared(config: TopicConfig, batch: bytes) -> bytes:
    preparation = prepare(config, batch)
    return batch if preparation is None else preparation.run()


def refusal(config: TopicConfig, batch: bytes) -> RequestError:
    preparation = prepare(config, batch)
    assert preparation is not None
    with pytest.raises(RequestError) as caught:
        preparation.run()
    return caught.value


@pytest.mark.parametrize("codec", CODECS)
def test_by_default_a_topic_keeps_the_codec_of_the_producer(codec: str) -> None:
    batch = records(b"k", None, codec=codec)

    assert prepared(topic(), batch) is batch


def test_uncompressed_batches_need_no_recompression() -> None:
    assert prepare(topic(), records(b"k")) is None


@pytest.mark.parametrize("name", CASES)
def test_compressed_records_that_some_consumer_cannot_read_are_refused(name: str) -> None:
    case = CASES[name]
    if case.code == NONE:
        assert prepared(topic(), case.batch()) == case.batch()
    else:
        assert number(refusal(topic(), case.batch()).code) == case.code


@pytest.mark.parametrize("came", CODECS)
@pytest.mark.parametrize("stored", ["uncompressed", *COMPRESSED])
def test_a_batch_is_recompressed_with_the_topics_codec_and_keeps_its_records(
    came: str, stored: str
) -> None:
    batch = records(b"k", None, codec=came, producer_id=5, producer_epoch=2, base_sequence=7)

    after = prepared(topic(compression_type=stored), batch)

    head = header(after)
    assert head.attributes == (0 if stored == "uncompressed" else BY_NAME[stored].number)
    assert records_of(after) == records_of(batch)
    assert crc32c.crc32c(after[21:]) == head.crc
    assert head.size == len(after)
    assert after[:8] + after[23:61] == batch[:8] + batch[23:61]  # offsets, times, producer, count


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_batch_with_the_topics_codec_is_unchanged(codec: str) -> None:
    batch = records(b"k", codec=codec)

    assert prepared(topic(compression_type=codec), batch) is batch


def test_other_attributes_are_kept() -> None:
    batch = records(b"k", codec="gzip", timestamp_type="LogAppendTime", is_transactional=True)

    after = prepared(topic(compression_type="zstd"), batch)

    assert after[21:23] == bytes([0, 0x18 | 4])


def test_the_topics_compression_level_is_used() -> None:
    batch = records(*[None] * 50)
    config = topic(compression_type="gzip", **{"compression.gzip.level": "1"})
    preparation = prepare(config, batch)
    assert preparation is not None

    assert preparation.run()[61:] == compression.compress(1, batch[61:], 1)


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete,compact"])
@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_refuses_a_record_without_a_key(policy: str, codec: str) -> None:
    error = refusal(topic(cleanup_policy=policy), records(b"a", None, b"", None, codec=codec))

    assert isinstance(error, KeylessRecordsError)
    assert (error.code, error.places) == (ErrorCode.INVALID_RECORD, [1, 3])


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_stores_records_with_keys_unchanged(codec: str) -> None:
    batch = records(b"a", b"", codec=codec)

    assert prepared(topic(cleanup_policy="compact"), batch) == batch


def test_a_limited_number_of_records_without_a_key_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.model.limits.RECORD_ERRORS_MAX", 3)

    error = refusal(topic(cleanup_policy="compact"), records(*[None] * 9))

    assert isinstance(error, KeylessRecordsError)
    assert error.places == [0, 1, 2]


@pytest.mark.parametrize(
    "batch", [b"", records(b"k")[:-1], records(b"k")[:-1] + b"!", records(b"k") * 2, b"x" * 200]
)
def test_batches_that_the_append_refuses_are_passed_to_it(batch: bytes) -> None:
    assert prepare(topic(compression_type="gzip"), batch) is None


def test_a_batch_above_the_topics_size_limit_is_not_decompressed() -> None:
    config = topic(compression_type="gzip", max_message_bytes="100")

    assert prepare(config, records(b"k")) is None


@pytest.mark.parametrize("codec", COMPRESSED)
def test_records_that_cannot_be_decompressed_are_refused_as_kafka_refuses_them(codec: str) -> None:
    batch = forged(records(b"k"), BY_NAME[codec].number, b"\xffnothing of the kind" * 9)

    error = refusal(topic(compression_type="uncompressed"), batch)

    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", COMPRESSED)
def test_decompressed_bytes_that_are_not_records_are_invalid(codec: str) -> None:
    number = BY_NAME[codec].number
    batch = forged(records(b"k"), number, compression.compress(number, b"no record, this"))

    assert refusal(topic(cleanup_policy="compact"), batch).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_decompression_bomb_is_too_large(codec: str) -> None:
    number = BY_NAME[codec].number
    bomb = forged(records(b"k"), number, compression.compress(number, bytes(17 << 20)))

    assert refusal(topic(cleanup_policy="compact"), bomb).code is ErrorCode.MESSAGE_TOO_LARGE


def test_only_batches_to_compress_or_decompress_are_slow() -> None:
    def is_slow(config: TopicConfig, batch: bytes) -> bool:
        preparation = prepare(config, batch)
        assert preparation is not None
        return preparation.is_slow

    assert not is_slow(topic(cleanup_policy="compact"), records(b"k"))
    assert is_slow(topic(cleanup_policy="compact"), records(b"k", codec="gzip"))
    assert is_slow(topic(compression_type="gzip"), records(b"k"))


def slow_one() -> Preparation:
    preparation = prepare(topic(compression_type="gzip"), records(b"k"))
    assert preparation is not None
    return preparation


def test_batches_are_prepared_in_a_thread_and_appended_on_the_loop() -> None:
    recompression = Recompression()
    threads: list[int] = []

    def append(batch: bytes) -> int:
        threads.append(threading.get_ident())
        return header(batch).attributes

    async def scenario() -> list[int]:
        return list(
            await asyncio.gather(*(recompression.append(slow_one(), append) for _ in range(5)))
        )

    assert asyncio.run(scenario()) == [1] * 5
    assert set(threads) == {threading.get_ident()}
    recompression.stop()


def test_batches_are_appended_in_the_order_of_arrival() -> None:
    recompression = Recompression()
    appended: list[int] = []

    def keep(place: int, _batch: bytes) -> None:
        appended.append(place)

    async def scenario() -> None:
        await asyncio.gather(
            *(recompression.append(slow_one(), partial(keep, place)) for place in range(9))
        )

    asyncio.run(scenario())

    assert appended == list(range(9))
    recompression.stop()


def test_the_bytes_of_waiting_batches_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(slow_one().records)
    monkeypatch.setattr("broker.model.limits.RECOMPRESSION_WAITING_BYTES_MAX", 3 * size + 1)
    recompression = Recompression()

    async def five() -> list[int | BaseException]:
        appends = [recompression.append(slow_one(), len) for _ in range(5)]
        return await asyncio.gather(*appends, return_exceptions=True)

    async def twice() -> list[list[int | BaseException]]:
        return [await five(), await five()]  # the second time there is space again

    for answers in asyncio.run(twice()):
        refused = [each.code for each in answers if isinstance(each, RequestError)]
        assert refused == [ErrorCode.REQUEST_TIMED_OUT] * 2
        assert all(isinstance(each, int) for each in answers[:3])
    recompression.stop()


def test_a_refused_batch_releases_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = forged(records(b"k"), 1, b"nothing that decompresses")
    preparation = prepare(topic(compression_type="zstd"), bad)
    assert preparation is not None
    monkeypatch.setattr("broker.model.limits.RECOMPRESSION_WAITING_BYTES_MAX", len(bad) + 1)
    recompression = Recompression()

    for _ in range(2):
        with pytest.raises(RequestError) as caught:
            asyncio.run(recompression.append(preparation, len))
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    recompression.stop()


def test_a_batch_is_appended_even_if_its_producer_has_disconnected() -> None:
    recompression = Recompression()
    appended: list[bytes] = []

    async def scenario() -> None:
        asked = asyncio.create_task(recompression.append(slow_one(), appended.append))
        await asyncio.sleep(0)
        asked.cancel()
        while not appended:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(scenario(), 60))
    recompression.stop()
