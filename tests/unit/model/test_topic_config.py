"""Topic keys: the value in force, its source, and what is refused."""

import pytest

from broker.model.config import ConfigEntry, Source, load
from broker.model.errors import ConfigError
from broker.model.settings import TOPIC_SETTINGS
from broker.model.topic_config import TopicConfig, parse_topic_value

# The keys of a topic in Apache Kafka 4.x (org.apache.kafka.common.config.TopicConfig).
KAFKA_KEYS = set(
    """
    cleanup.policy compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
    follower.replication.throttled.replicas index.interval.bytes
    leader.replication.throttled.replicas local.retention.bytes local.retention.ms
    max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms
    message.timestamp.before.max.ms message.timestamp.type min.cleanable.dirty.ratio
    min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable
    remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms segment.bytes
    segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable
    """.split()  # noqa: SIM905 - one key a line would be a page
)


def entry(topic: TopicConfig, name: str) -> ConfigEntry:
    return next(one for one in topic.describe() if one.name == name)


def test_every_key_of_kafka_is_described() -> None:
    names = [one.name for one in TopicConfig({}, load()).describe()]

    assert set(names) >= KAFKA_KEYS
    assert names == sorted(names)


def test_every_key_without_a_value_is_a_default() -> None:
    described = TopicConfig({}, load()).describe()

    assert all(one.source is Source.DEFAULT for one in described)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "604800000"),
        ("segment.ms", "604800000"),
        ("segment.bytes", "1073741824"),
        ("max.message.bytes", "1048588"),
        ("flush.messages", "9223372036854775807"),
        ("flush.ms", "9223372036854775807"),
        ("cleanup.policy", "delete"),
        ("min.cleanable.dirty.ratio", "0.5"),
        ("message.timestamp.after.max.ms", "3600000"),
        ("follower.replication.throttled.replicas", ""),
    ],
)
def test_defaults_are_kafkas(name: str, text: str) -> None:
    assert entry(TopicConfig({}, load()), name).text == text


def test_a_topics_value_takes_precedence_over_the_brokers() -> None:
    topic = TopicConfig({"retention.ms": "5"}, load(["log.retention.ms=6"]))

    described = entry(topic, "retention.ms")

    assert topic.integer("retention.ms") == 5
    assert described.source is Source.TOPIC
    assert [(one.name, one.text, one.source) for one in described.synonyms] == [
        ("retention.ms", "5", Source.TOPIC),
        ("log.retention.ms", "6", Source.STATIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_milliseconds_take_precedence_over_minutes_and_hours() -> None:
    hours = load(["log.retention.hours=2"])
    minutes = load(["log.retention.hours=2", "log.retention.minutes=3"])
    milliseconds = load(["log.retention.minutes=3", "log.retention.ms=4"])

    assert TopicConfig({}, hours).integer("retention.ms") == 2 * 3_600_000
    assert TopicConfig({}, minutes).integer("retention.ms") == 3 * 60_000
    assert TopicConfig({}, milliseconds).integer("retention.ms") == 4


def test_unlimited_retention_in_hours_is_unlimited_in_milliseconds() -> None:
    assert TopicConfig({}, load(["log.retention.hours=-1"])).integer("retention.ms") == -1


def test_key_inherited_from_the_broker_has_its_source() -> None:
    topic = TopicConfig({}, load(["message.max.bytes=2000000"]))

    assert topic.integer("max.message.bytes") == 2_000_000
    assert topic.source("max.message.bytes") is Source.STATIC_BROKER


@pytest.mark.parametrize(
    ("broker", "overrides", "is_group_commit"),
    [
        ([], {}, True),
        (["polylog.durability=os"], {}, False),
        (["polylog.durability=os"], {"polylog.durability": "group-commit"}, True),
        ([], {"polylog.durability": "os"}, False),
        (["polylog.durability=os"], {"flush.messages": "1"}, True),
        (["polylog.durability=os"], {"flush.messages": "10000"}, False),
        ([], {"flush.messages": "10000"}, True),
        ([], {"flush.messages": "1", "polylog.durability": "os"}, True),
    ],
)
def test_the_stronger_of_topic_and_broker_durability_applies(
    broker: list[str], overrides: dict[str, str], is_group_commit: bool
) -> None:
    assert TopicConfig(overrides, load(broker)).is_group_commit is is_group_commit


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.mss", "5", r"did you mean retention\.ms\?"),
        ("retention.ms", "soon", "retention.ms='soon': allowed is -1 or more ms"),
        ("segment.bytes", "10", r"1024 \.\. 2147483647 bytes"),
        ("cleanup.policy", "shred", r"delete \| compact"),
        ("leader.replication.throttled.replicas", "0:1,x", "match"),
        ("min.cleanable.dirty.ratio", "nan", "0.0 .. 1.0"),
        ("remote.storage.enable", "true", "remote.storage.enable='true': allowed is false$"),
        ("num.partitions", "3", "unknown setting"),
    ],
)
def test_an_invalid_key_or_value_is_refused_with_the_topics_name_for_it(
    name: str, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_topic_value(name, text)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", "", ()),
        ("cleanup.policy", " delete , compact ", ("delete", "compact")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("follower.replication.throttled.replicas", "0:1,12:3", ("0:1", "12:3")),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "", ()),
    ],
)
def test_lists_are_parsed_as_kafka_parses_them(
    name: str, text: str, value: tuple[str, ...]
) -> None:
    assert parse_topic_value(name, text) == value


def test_contradicting_compaction_lags_are_refused() -> None:
    with pytest.raises(ConfigError, match="is above"):
        TopicConfig({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}, load())


def test_either_all_or_none_of_a_keys_synonyms_apply() -> None:
    for view in TOPIC_SETTINGS.values():
        assert len({synonym.applies for synonym in view.synonyms}) <= 1
        assert view.setting.default is not None


def test_the_source_of_a_key_is_the_setting_it_is_derived_from() -> None:
    hours = load(["log.retention.hours=1"])
    altered = hours.altered({"log.retention.ms": "5"}, {})

    for broker, text, source in (
        (hours, "3600000", Source.STATIC_BROKER),
        (altered, "5", Source.DYNAMIC_DEFAULT),
    ):
        shown = entry(TopicConfig({}, broker), "retention.ms")
        assert (shown.text, shown.source) == (text, source)


def test_configurations_are_compared_by_their_values() -> None:
    inherited = TopicConfig({}, load(["log.retention.ms=5"]))

    assert inherited.has_values_of(TopicConfig({"retention.ms": "5"}, load()))
    assert not inherited.has_values_of(TopicConfig({}, load()))
