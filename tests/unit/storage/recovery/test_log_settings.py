"""The settings of a native log that follow from its topic's configuration."""

from pathlib import Path

import pytest

from broker.model.config import load
from broker.model.topic_config import TopicConfig
from broker.storage.recovery.log_settings import is_plain, throttled
from tests.unit.storage.broker_run import TOPIC_ID, BrokerRun


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


def test_a_log_has_the_flags_that_protocols_derive_from_its_topics_configuration(
    tmp_path: Path,
) -> None:
    run = BrokerRun(tmp_path, lambda config: config.integer("flush.messages"))
    configs = [TopicConfig({"flush.messages": str(number)}, load()) for number in (5, 6)]

    [log] = run.partitions.open_topic("topic", TOPIC_ID, [0], configs[0])
    [announced] = run.partitions.announce_topic("other", TOPIC_ID, [0], configs[1])
    flags = [log.protocol_flags, announced.protocol_flags]
    run.partitions.configure(log, configs[1])

    assert [*flags, log.protocol_flags] == [5, 6, 6]
    run.kill()


@pytest.mark.parametrize(
    ("listed", "expected"), [("", False), ("3:1,7:2", True), ("7:1,3:2", False), ("*", True)]
)
def test_a_replica_is_throttled_where_its_topic_names_it_or_all(
    listed: str, *, expected: bool
) -> None:
    broker = load(["node.id=1"])
    leader = TopicConfig({"leader.replication.throttled.replicas": listed}, broker)
    follower = TopicConfig({"follower.replication.throttled.replicas": listed}, broker)

    assert throttled(3, leader) == {"as_leader": expected, "as_follower": False}
    assert throttled(3, follower) == {"as_leader": False, "as_follower": expected}
