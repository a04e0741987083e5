"""Operations on topics are logged, with names and numbers."""

import asyncio
import logging

import pytest

from broker.core.topics.rules import NewPartitions, NewTopic
from broker.model.errors import RequestError
from broker.model.identifiers import id_to_text
from broker.model.own_config import ConfigChange
from tests.support.fakes import FakeBroker


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "broker.core.topics.topics")
    return caplog


def sets(**values: str) -> ConfigChange:
    return lambda _: {name.replace("_", "."): value for name, value in values.items()}


def test_a_created_topic_is_logged(lines: pytest.LogCaptureFixture) -> None:
    topic = FakeBroker().create("a", 3, {"retention.ms": "5"})

    shown_id = id_to_text(topic.topic_id)
    [line] = lines.messages
    assert line == (
        f"topic created: topic=a id={shown_id} partitions=3 replicas=1"
        " config={'retention.ms': '5'}"
    )


def test_an_automatically_created_topic_is_logged(
    lines: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(FakeBroker().topics.get_or_create("a"))

    [line] = lines.messages
    assert line.startswith("topic created: topic=a ")


def test_added_partitions_are_logged(lines: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    topic = broker.create("a", 2)
    lines.clear()

    asyncio.run(broker.topics.add_partitions(topic, NewPartitions(5)))

    assert lines.messages == ["partitions added: topic=a from=2 to=5"]


def test_an_altered_configuration_is_logged_with_its_changes(
    lines: pytest.LogCaptureFixture,
) -> None:
    broker = FakeBroker()
    topic = broker.create("a", 1, {"retention.ms": "5", "segment.ms": "7"})
    lines.clear()

    asyncio.run(broker.topics.alter_config(topic, sets(retention_ms="6", segment_ms="7")))
    asyncio.run(broker.topics.alter_config(topic, sets(retention_ms="6")))
    asyncio.run(broker.topics.alter_config(topic, sets(retention_ms="6")))

    assert lines.messages == [
        "topic configuration altered: topic=a set={'retention.ms': '6'} removed=[]",
        "topic configuration altered: topic=a set={} removed=['segment.ms']",
        "topic configuration altered: topic=a set={} removed=[]",
    ]


def test_a_deleted_topic_is_logged(lines: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    topic = broker.create("a", 2)
    lines.clear()

    asyncio.run(broker.topics.delete(topic))

    [line] = lines.messages
    assert line == f"topic deleted: topic=a id={id_to_text(topic.topic_id)} partitions=2"


def test_refused_creations_and_topics_found_at_a_start_are_not_logged(
    lines: pytest.LogCaptureFixture,
) -> None:
    broker = FakeBroker()
    broker.create("a")
    lines.clear()

    with pytest.raises(RequestError):
        asyncio.run(broker.topics.create(NewTopic("a")))
    FakeBroker(store=broker.store).topics.load()

    assert lines.messages == []
