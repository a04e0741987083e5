"""What the native path of Cursus needs to know of a topic's settings."""

import pytest

from broker._native.protocols.cursus.produce import HAS_NAMED_PRODUCERS, HAS_STREAMS, SPREADS_KEYS
from broker.model.config import load
from broker.model.topic_config import STREAM_SETTINGS, TopicConfig
from broker.protocols.registry import log_flags


@pytest.mark.parametrize(
    ("altered", "flags"),
    [
        ({}, 0),
        ({"polylog.cursus.idempotent": "true"}, HAS_NAMED_PRODUCERS),
        ({"polylog.cursus.partitioner": "round_robin"}, SPREADS_KEYS),
        (
            {"polylog.cursus.idempotent": "true", "polylog.cursus.partitioner": "round_robin"},
            HAS_NAMED_PRODUCERS | SPREADS_KEYS,
        ),
        ({"polylog.event.sourcing": "true", **STREAM_SETTINGS}, HAS_STREAMS),
    ],
)
def test_the_settings_of_cursus_are_flags_of_a_log(altered: dict[str, str], flags: int) -> None:
    assert log_flags(TopicConfig(altered, load())) == flags
