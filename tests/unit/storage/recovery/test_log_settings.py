"""Which topics' batches the native path appends as they came."""

import pytest

from broker.model.config import load
from broker.model.topic_config import TopicConfig
from broker.storage.recovery.log_settings import is_plain


@pytest.mark.parametrize(
    ("topic", "altered", "expected"),
    [
        ("orders", {}, True),
        ("orders", {"message.timestamp.type": "LogAppendTime"}, False),
        ("orders", {"compression.type": "zstd"}, False),
        ("__consumer_offsets", {}, False),
    ],
)
def test_a_batch_is_appended_as_it_came_unless_the_topic_rewrites_it_or_is_internal(
    topic: str, altered: dict[str, str], expected: bool
) -> None:
    assert is_plain(topic, TopicConfig(altered, load())) is expected
