"""Writing single records, for protocols other than Kafka's.

The records are put into batches as large as their topic allows, and appended without other work in
between: their offsets are contiguous.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from broker.codec.encoding import Row, encode
from broker.core.broker import Broker
from broker.core.logs.log import Log
from broker.core.logs.partition import append, check_settings, too_large
from broker.core.logs.recompression import prepare
from broker.core.scheduling.steps import next_step
from broker.core.topics.lookup import led_log
from broker.core.topics.rules import check_may_write
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, LimitExceeded, RequestError
from broker.model.limits import RECORDS_WRITTEN_PER_TURN


class Written(NamedTuple):
    """The offsets of written records; acknowledged once the high watermark is at `end_offset`."""

    log: Log
    base_offset: int
    end_offset: int


async def write(
    broker: Broker, topic: Topic, partition: int, rows: Sequence[Row], *, is_for_all: bool = True
) -> Written:
    """Append records, at least one; the caller waits for durability before it acknowledges them.

    `is_for_all`: they are acknowledged by all replicas in sync, so there must be enough of them.
    Raises RequestError; none of the records is written then, unless the disk fails between two
    batches: the batches before that stay.
    """
    batches = _batches(broker, topic, rows)
    return await write_batches(broker, topic, partition, batches, is_for_all=is_for_all)


async def write_batches(
    broker: Broker,
    topic: Topic,
    partition: int,
    batches: AsyncIterator[bytes],
    *,
    is_for_all: bool = True,
) -> Written:
    """Append batches in the same way, at least one; none is larger than `batch_bytes_max`."""
    led_log(topic, partition)
    check_may_write(topic)
    prepared = [await _prepared(broker, topic, batch) async for batch in batches]
    log = led_log(topic, partition)  # again: it may have changed while batches were prepared
    now_ms = broker.clock.wall_ms()
    _check(topic, prepared, now_ms)
    first, *others = [
        append(log, topic.config, each, now_ms, is_for_all=is_for_all) for each in prepared
    ]
    return Written(log, first.base_offset, (others or [first])[-1].end_offset)


def _check(topic: Topic, batches: Sequence[bytes], now_ms: int) -> None:
    """Refuse all of them before the first append: recompression may have made one too large."""
    size_max = topic.config.integer("max.message.bytes")
    for batch in batches:
        if len(batch) > size_max:
            raise too_large(batch, size_max)
        check_settings(topic.config, batch, now_ms)


def batch_bytes_max(topic: Topic) -> int:
    """Return the size of the largest batch that a topic accepts."""
    return min(topic.config.integer("max.message.bytes"), topic.config.integer("segment.bytes"))


async def _batches(broker: Broker, topic: Topic, rows: Sequence[Row]) -> AsyncIterator[bytes]:
    bytes_max = batch_bytes_max(topic)
    now_ms = broker.clock.wall_ms()
    for start in range(0, len(rows), RECORDS_WRITTEN_PER_TURN):
        if start > 0:
            await next_step()
        some = rows[start : start + RECORDS_WRITTEN_PER_TURN]
        try:
            batches = encode(some, batch_bytes_max=bytes_max, timestamp_ms=now_ms)
        except LimitExceeded as error:
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
        for batch in batches:
            yield batch


async def _prepared(broker: Broker, topic: Topic, batch: bytes) -> bytes:
    preparation = prepare(topic.config, batch)
    if preparation is None:
        return batch
    if not preparation.is_slow:
        return preparation.run()
    return await broker.recompression.append(preparation, bytes)
