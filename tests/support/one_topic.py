"""A broker that has one topic and nothing else, for tests that only write and read its records."""

from typing import Any

from broker.core.broker import Broker
from broker.core.cluster_view import Alone
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.health import Health
from broker.core.logs.partition import LogWaiters
from broker.core.logs.recompression import Recompression
from broker.core.metadata import OwnMetadata
from broker.core.metrics.measured import Measured
from broker.core.scheduling.admission import Admission
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.response_cache import ResponseCache
from broker.core.scheduling.tasks import Tasks
from broker.core.topics.topic import Topic
from broker.model.clock import SystemClock
from broker.model.config import load
from tests.support.fakes import FakeStore


class OneTopic:
    """The only topic, with the interface of `Topics` that handlers use."""

    def __init__(self, topic: Topic) -> None:
        """Know this one."""
        self.topic = topic

    def get(self, name: str) -> Topic | None:
        """Return the topic of a name."""
        return self.topic if name == self.topic.name else None

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic of an id."""
        return self.topic if topic_id == self.topic.topic_id else None


def broker_of(topic: Topic, transactions: Any = None) -> Broker:
    """Return a broker of one topic; its other attributes must not be used."""
    nothing: Any = None
    topics: Any = OneTopic(topic)
    store: Any = FakeStore()
    return Broker(
        configs=BrokerConfigs(load(), OwnMetadata(store, IoThread())),
        clock=SystemClock(),
        cluster_id="cluster",
        io_thread=nothing,
        topics=topics,
        log_waiters=LogWaiters(),
        groups=nothing,
        transactions=transactions,
        producer_ids=nothing,
        recompression=Recompression(),
        persist_log_starts=nothing,
        group_configs=nothing,
        metadata=nothing,
        cluster=Alone(1, None),
        appends=Tasks(1 << 62),
        long_answers=Admission(1 << 62, 0),
        response_cache=ResponseCache(lambda: 0, 1 << 20),
        health=Health(),
        metrics=Measured(),
    )
