"""What a heartbeat may say, whatever the group."""

import pytest

from broker.core.groups.consumer.checks import check_heartbeat
from broker.core.groups.consumer.commands import ConsumerHeartbeat, ConsumerSettings
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError


def joining(*topic_names: str) -> ConsumerHeartbeat:
    return ConsumerHeartbeat("g", "m", 0, rebalance_timeout_ms=1, topic_names=topic_names, owned={})


def test_the_names_subscribed_to_have_a_limit_of_bytes_together() -> None:
    half = "t" * (limits.SUBSCRIBED_NAMES_BYTES_MAX // 2)
    check_heartbeat(joining(half, half), ConsumerSettings())

    with pytest.raises(RequestError, match="bytes") as refused:
        check_heartbeat(joining(half, half, "t"), ConsumerSettings())

    assert refused.value.code is ErrorCode.INVALID_REQUEST
