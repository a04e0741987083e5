"""Topics created and described by a client."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker import codec
from broker.client.admin import create_topic, topic_config
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.codec import Fields
from broker.model.errors import RequestError
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import ScriptedBroker, scripted_broker


@contextmanager
def answering(answer: Fields) -> Iterator[tuple[ScriptedBroker, Cluster]]:
    """A broker that has one response to everything."""
    pool = Pool(ManualClock())
    with scripted_broker(lambda *_: answer) as broker:
        yield broker, Cluster([broker.address], give_up_seconds=0, pool=pool)
        pool.close()


def created(name: str) -> Fields:
    error_code = codec.error_named(name).code
    return {"topics": [{"name": "t", "error_code": error_code, "error_message": "so it is"}]}


@pytest.mark.parametrize(("error", "is_new"), [("NONE", True), ("TOPIC_ALREADY_EXISTS", False)])
def test_a_topic_is_created_unless_it_exists(error: str, is_new: bool) -> None:
    with answering(created(error)) as (broker, cluster):
        assert create_topic(cluster, "t", 3, {"cleanup.policy": "compact"}) is is_new

    [topic] = broker.of("CreateTopics")[0]["topics"]
    assert (topic["num_partitions"], topic["replication_factor"]) == (3, -1)
    assert [(each["name"], each["value"]) for each in topic["configs"]] == [
        ("cleanup.policy", "compact")
    ]


def test_a_topic_that_cannot_be_created_raises_the_reason() -> None:
    with (
        answering(created("INVALID_TOPIC_EXCEPTION")) as (broker, cluster),
        pytest.raises(RequestError, match=f"{broker.address}: topic 't': so it is"),
    ):
        create_topic(cluster, "t", 3)


@pytest.mark.parametrize(("configs", "value"), [([{"name": "a", "value": "1"}], "1"), ([], None)])
def test_a_topic_setting_is_returned_or_none(configs: list[Fields], value: str | None) -> None:
    with answering({"results": [{"error_code": 0, "configs": configs}]}) as (_, cluster):
        assert topic_config(cluster, "t", "a") == value
