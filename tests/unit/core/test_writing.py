"""Records that arrive without a batch (core/writing)."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.codec.encoding import encode
from broker.core.writing import Written, write, write_batches
from broker.model.errors import ErrorCode, RequestError
from tests.support.batches import records_of
from tests.support.fakes import NOW_MS, FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


def written(broker: FakeBroker, topic: Any, rows: list[Any]) -> Written:
    return asyncio.run(write(broker.broker, topic, 0, rows))


def stored(broker: FakeBroker) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (base_offset + offset, key, value)
        for base_offset, _, batch in broker.log("topic").batches
        for offset, _, key, value, _ in records_of(bytes(8) + batch[8:])
    ]


def test_records_get_the_next_offsets(broker: FakeBroker) -> None:
    topic = broker.create("topic")

    first = written(broker, topic, [(b"k", b"a"), (None, b"b")])
    second = written(broker, topic, [(b"", b"c")])

    assert (first.base_offset, first.end_offset) == (0, 2)
    assert (second.base_offset, second.end_offset) == (2, 3)
    assert stored(broker) == [(0, b"k", b"a"), (1, None, b"b"), (2, b"", b"c")]


def test_records_above_one_batch_become_several_batches_without_a_gap(broker: FakeBroker) -> None:
    topic = broker.create("topic", config={"max.message.bytes": "200"})

    result = written(broker, topic, [bytes(100)] * 5)

    assert (result.base_offset, result.end_offset) == (0, 5)
    assert [offset for offset, _, _ in stored(broker)] == [0, 1, 2, 3, 4]
    assert len(broker.log("topic").batches) == 5


def test_the_topics_compression_is_used(broker: FakeBroker) -> None:
    topic = broker.create("topic", config={"compression.type": "gzip"})

    written(broker, topic, [b"a" * 1000])

    [(_, _, batch)] = broker.log("topic").batches
    assert batch[22] & 7 == 1
    assert stored(broker) == [(0, None, b"a" * 1000)]


@pytest.mark.parametrize(
    ("config", "row", "code"),
    [
        ({"max.message.bytes": "100"}, bytes(101), ErrorCode.MESSAGE_TOO_LARGE),
        ({"cleanup.policy": "compact"}, (None, b"v"), ErrorCode.INVALID_RECORD),
    ],
)
def test_records_that_the_topic_refuses_are_not_written(
    broker: FakeBroker, config: dict[str, str], row: Any, code: ErrorCode
) -> None:
    topic = broker.create("topic", config=config)

    with pytest.raises(RequestError) as caught:
        written(broker, topic, [(b"k", b"v"), row])

    assert caught.value.code is code
    assert broker.log("topic").batches == []


def test_nothing_is_written_if_a_later_batch_is_too_large_once_compressed(
    broker: FakeBroker,
) -> None:
    limits = {"compression.type": "gzip", "max.message.bytes": "400"}
    topic = broker.create("topic", config=limits)
    noise = random.Random(0).randbytes(310)  # grows by what gzip adds

    with pytest.raises(RequestError) as caught:
        written(broker, topic, [bytes(300), noise])

    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert broker.log("topic").batches == []


def test_nothing_is_written_if_a_later_batch_is_too_old(broker: FakeBroker) -> None:
    topic = broker.create("topic", config={"message.timestamp.before.max.ms": "1000"})

    async def batches() -> AsyncIterator[bytes]:
        for time_ms in (NOW_MS, NOW_MS - 1001):
            [batch] = encode([b"v"], timestamp_ms=time_ms)
            yield batch

    with pytest.raises(RequestError) as caught:
        asyncio.run(write_batches(broker.broker, topic, 0, batches()))

    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert broker.log("topic").batches == []


def test_an_unknown_partition_is_refused(broker: FakeBroker) -> None:
    topic = broker.create("topic")

    with pytest.raises(RequestError) as caught:
        asyncio.run(write(broker.broker, topic, 1, [b"v"]))

    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_timestamp_is_the_brokers_time(broker: FakeBroker) -> None:
    topic = broker.create("topic")

    written(broker, topic, [b"v"])

    [(_, _, batch)] = broker.log("topic").batches
    assert records_of(batch)[0][1] == NOW_MS
