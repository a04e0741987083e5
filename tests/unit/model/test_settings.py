"""The table of settings compared with the code that uses them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import broker
from broker.model import security_settings, settings
from broker.model.config import load
from broker.model.errors import ConfigError
from broker.model.settings import BROKER_SETTINGS, DYNAMIC_SETTINGS, Kind, Setting
from broker.model.topic_config import TopicConfig, parse_topic_value

TABLES = [Path(settings.__file__), Path(security_settings.__file__)]


def looked_up() -> set[str]:
    """Return the strings that a source passes to a call: a value is looked up by its name."""
    calls = [
        node
        for file in Path(broker.__file__).parent.rglob("*.py")
        if file not in TABLES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
    ]
    arguments = [each for call in calls for each in call.args if isinstance(each, ast.Constant)]
    return {each.value for each in arguments if isinstance(each.value, str)}


LOOKED_UP = looked_up()


def is_read(setting: Setting) -> bool:
    """Return whether something looks the setting up, as the broker's, a topic's or a group's."""
    return not {setting.name, setting.topic, setting.group}.isdisjoint(LOOKED_UP - {""})


# What Apache Kafka 4.3.1 shows as not read-only, of the keys that exist here.
DYNAMIC_IN_KAFKA = set(
    """
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    follower.replication.throttled.rate leader.replication.throttled.rate
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio
    log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy
    log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.type log.preallocate log.retention.bytes log.retention.ms
    log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
    max.connection.creation.rate max.connections max.connections.per.ip
    max.connections.per.ip.overrides message.max.bytes min.insync.replicas
    unclean.leader.election.enable
    """.split()  # noqa: SIM905 - one key a line would be a page
)


def test_the_initial_rebalance_delay_is_0_by_default() -> None:
    assert BROKER_SETTINGS["group.initial.rebalance.delay.ms"].default == 0


def test_settings_that_are_dynamic_in_kafka_are_dynamic_here() -> None:
    ours_alone = {
        "log.message.downconversion.enable",
        "polylog.clock.confirmed.ms",
        "polylog.durability",
        "polylog.scrub.bytes.per.second",
        "polylog.scrub.interval.ms",
        # Kafka's tools set it; its table of settings lacks it.
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }

    assert set(DYNAMIC_SETTINGS) - ours_alone == DYNAMIC_IN_KAFKA


@pytest.mark.parametrize("name", [each.name for each in BROKER_SETTINGS.values() if each.applies])
def test_a_setting_marked_as_applied_is_used(name: str) -> None:
    assert is_read(BROKER_SETTINGS[name])


def test_an_unused_setting_is_detected() -> None:
    unread = BROKER_SETTINGS["num.partitions"]._replace(name="nobody.reads.this")

    assert not is_read(unread)
    assert not is_read(unread._replace(topic="nor.this"))
    assert is_read(unread._replace(topic="segment.bytes"))


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("default.replication.factor", 1),
        ("offsets.topic.replication.factor", 3),
        ("transaction.state.log.replication.factor", 3),
        ("transaction.state.log.min.isr", 2),
    ],
)
def test_numbers_of_replicas_have_kafkas_defaults_and_may_be_those_of_a_kafka_cluster(
    name: str, default: int
) -> None:
    assert BROKER_SETTINGS[name].default == default
    assert load([f"{name}=3"]).integer(name) == 3


@pytest.fixture
def _own_tables() -> Iterator[None]:
    """What a test adds is gone after it."""
    tables: list[dict[str, Any]] = [
        settings.TOPIC_SETTINGS,
        settings.TOPIC_KEYS,
    ]
    before = [dict(table) for table in tables]
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)


ADDED = Setting("a.protocols.key", Kind.INT, 3, doc="A key of a protocol.", minimum=1)


@pytest.mark.usefixtures("_own_tables")
def test_an_added_topic_setting_is_checked_described_and_inherited_as_any_other() -> None:
    settings.add_topic_settings([ADDED])
    settings.add_topic_settings([ADDED])

    described = [each.name for each in TopicConfig({}, load()).describe()]
    assert described == sorted(described)
    assert described.count(ADDED.name) == 1
    assert TopicConfig({}, load()).integer(ADDED.name) == 3
    assert parse_topic_value(ADDED.name, "5") == 5
    with pytest.raises(ConfigError, match=r"a\.protocols\.key='0': allowed is 1 \.\."):
        parse_topic_value(ADDED.name, "0")
    with pytest.raises(ConfigError, match=r"did you mean a\.protocols\.key\?"):
        parse_topic_value("a.protocol.key", "1")


@pytest.mark.usefixtures("_own_tables")
@pytest.mark.parametrize("name", ["retention.ms", "preallocate", "remote.storage.enable"])
def test_a_topic_setting_cannot_be_added_under_the_name_of_another(name: str) -> None:
    with pytest.raises(ValueError, match=f"another topic setting {name}"):
        settings.add_topic_settings([ADDED._replace(name=name)])

    assert settings.TOPIC_KEYS[name].name == name
    assert settings.TOPIC_KEYS[name].doc != ADDED.doc
