"""The preparation of a client's batch before the append: refused, or the same records."""

from typing import Any, Final

from broker import codec
from broker._native.records.record_batch import validate
from broker.core.logs.recompression import prepare
from broker.model.config import load
from broker.model.errors import RequestError
from broker.model.topic_config import TopicConfig
from tests.fuzz.batch_targets import fit_crcs
from tests.fuzz.inputs import Options

BROKER = load()
CONFIGS: Final = [
    TopicConfig(own, BROKER)
    for own in (
        {"cleanup.policy": "compact"},
        {"compression.type": "uncompressed"},
        {"compression.type": "gzip", "cleanup.policy": "compact,delete"},
        {"compression.type": "snappy"},
        {"compression.type": "lz4"},
        {"compression.type": "zstd", "cleanup.policy": "compact"},
        {},
    )
]


def preparation(data: bytes) -> None:
    """Prepare a batch with a correct CRC for one of the topics above."""
    options = Options(data)
    content = bytearray(options.content)
    fit_crcs(content)
    config = CONFIGS[options.byte(0) % len(CONFIGS)]
    found = prepare(config, bytes(content))
    if found is None:
        if validate(bytes(content)) is None:  # the append takes it unchanged
            rows(bytes(content))
        return
    try:
        stored = found.run()
    except RequestError:
        return
    assert validate(stored) is None
    before, after = rows(bytes(content)), rows(stored)
    assert before == after
    if "compact" in config.words("cleanup.policy"):
        assert all(key is not None for _, _, key, *_ in after)


def rows(batch: bytes) -> list[tuple[Any, ...]]:
    """Return every record."""
    return [
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for each in codec.records(batch)
    ]
