"""Message sets of old producers to batches, batches to messages for old consumers, and back."""

from typing import Any, Literal

from broker import codec
from broker._native.records.record_batch import validate
from broker.model.config import load
from broker.model.errors import RequestError
from broker.model.topic_config import TopicConfig
from broker.protocols.kafka.old_messages import Conversion, for_consumer, is_message_set
from tests.fuzz.batch_targets import fit_crcs
from tests.fuzz.inputs import Options

CONFIG = TopicConfig({}, load())

LOG_APPEND_TIME = 0x08


def conversion(data: bytes) -> None:
    """Convert a producer's message set with correct CRCs, or a stored batch."""
    options = Options(data)
    content = bytearray(options.content)
    fit_crcs(content)
    if is_message_set(bytes(content)):
        produced(bytes(content))
        return
    length = int.from_bytes(content[8:12])
    for magic in (0, 1):
        consumed(bytes(content[: 12 + length]), magic)


def produced(message_set: bytes) -> None:
    """Check that converted batches have the same records, whatever their offsets were."""
    try:
        stored = Conversion(message_set, CONFIG).run()
    except RequestError:
        return
    assert validate(stored) is None
    [header] = codec.scan_headers(stored)
    if header.attributes & LOG_APPEND_TIME:
        # A message has the time of an append. Either the log refuses the batch for it, or the topic
        # has append times and stamps all records.
        return
    before, after = rows(message_set), rows(stored)
    assert [row[1:] for row in before] == [row[1:] for row in after]
    assert [offset for offset, *_ in after] == list(range(len(after)))


def consumed(batch: bytes, magic: Literal[0, 1]) -> None:
    """Check that converted messages have the same keys and values at the same offsets."""
    try:
        messages = for_consumer(batch, magic, 0, CONFIG)
    except RequestError:
        return
    if not messages:
        return  # a control batch, which is not read
    # Of compressed batches all records are returned, of others the requested ones.
    before = [(*row[2:], row[0] < 0) for row in rows(batch)]
    after = [row[2:] for row in rows(messages)]
    assert after in (
        [row[:2] for row in before],
        [row[:2] for row in before if not row[2]],
    )


def rows(data: bytes) -> list[tuple[Any, ...]]:
    """Return offset, timestamp, key and value of every record; headers are dropped."""
    columns = codec.decode_columns(data)
    whole = bytes(columns.data)
    lists = [memoryview(columns.column(name)).tolist() for name in columns.names]
    return [
        (
            offset,
            timestamp,
            None if key_size < 0 else whole[key : key + key_size],
            None if value_size < 0 else whole[value : value + value_size],
        )
        for offset, timestamp, key, key_size, value, value_size in zip(*lists, strict=True)
    ]
