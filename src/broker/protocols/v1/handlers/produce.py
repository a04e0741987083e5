"""PRODUCE: append one record to the partition of its key."""

import asyncio
from typing import Final

from broker.core.forwarding import check_led
from broker.core.logs.partition import until_acknowledged
from broker.core.writing import Written, write
from broker.protocols.v1.commands import Request, encoded
from broker.protocols.v1.errors import ACKS_TIMEOUT, NOT_LEADER, RefusedError, bad_request
from broker.protocols.v1.topics import last_readable, topic_or_new

ACKS_ALL_TIMEOUT_SECONDS: Final = 2.0
_ALL: Final = "all"
_ACKS: Final = {"acks=0": "0", "acks=1": "1", "acks=all": _ALL}
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


async def handle(request: Request) -> str:
    """Append the record and answer once it is durable here; with acks=all on all in sync."""
    name, message, *rest = request.args
    key, colon, value = message.partition(":")
    if not colon:
        raise bad_request("message must be key:value")
    acks = _ACKS.get(rest[0].lower()) if rest else "1"
    if acks is None:
        raise bad_request("invalid ack mode; expected acks=0|1|all")
    topic = await topic_or_new(request, name)
    partition = partition_of(encoded(key), topic.partition_count)
    check_led(request.session, topic, partition)
    if request.roles.is_follower((topic.name, partition)):
        raise RefusedError(NOT_LEADER)
    broker = request.session.broker
    row = encoded(key), encoded(value)
    is_for_all = acks == _ALL
    written = await write(broker, topic, partition, [row], is_for_all=is_for_all)
    request.session.has_written(written.log, written.end_offset)
    high_watermark = _last_readable_then(written)
    if is_for_all:
        await _wait_in_sync(written)
    else:
        await until_acknowledged(written.log, written.end_offset, is_for_all=False)
    if written.log.is_replicated and not is_for_all:
        # Others may not have the record yet; a CONSUME behind this waits for them.
        high_watermark = last_readable(written.log)
    return f"partition={partition} offset={written.base_offset} hw={high_watermark}"


def partition_of(key: bytes, partition_count: int) -> int:
    """Return the partition of a key as V1's clients compute it: 32-bit FNV-1a."""
    number = _FNV_OFFSET
    for byte in key:
        number = ((number ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return number % partition_count


def _last_readable_then(written: Written) -> int:
    """Return V1's high watermark as of when the written record can be read.

    It stays below the first record of an open transaction in the partition.
    """
    return min([written.end_offset, *written.log.open_transactions.values()]) - 1


async def _wait_in_sync(written: Written) -> None:
    """Wait until the record is durable on all replicas in sync; it stays after a timeout, too."""
    try:
        async with asyncio.timeout(ACKS_ALL_TIMEOUT_SECONDS):
            await until_acknowledged(written.log, written.end_offset)
    except TimeoutError:
        raise RefusedError(ACKS_TIMEOUT) from None
