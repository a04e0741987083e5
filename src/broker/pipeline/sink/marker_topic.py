"""The marker topic: creates it if it does not exist, and reads and writes its records."""

from collections import OrderedDict
from typing import Final

from broker import codec
from broker.client.admin import create_topic, topic_config
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster, Partition, Topic
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.client.produce import Producer
from broker.client.transactions import ProducerId
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.pipeline.limits import (
    SINK_MARKER_PARTITIONS,
    SINK_MARKER_SEGMENT_BYTES,
    SINK_QUERIES_REMEMBERED,
)
from broker.pipeline.sink.markers import QueryLog

_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SINK_MARKER_SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.1",
}
_NO_PRODUCER_ID: Final = ProducerId(-1, -1)

_Key = tuple[str, str, str]
_Read = tuple[int, QueryLog]
# Spark reuses its workers: the next task of a query reads only newer records. By cluster, topic id
# and query; with the next offset to read.
_CACHE: "OrderedDict[_Key, _Read]" = OrderedDict()


def prepare(cluster: Cluster, name: str) -> None:
    """Create the topic if it does not exist, and check that it is compacted.

    Raises:
        ConfigError: its cleanup policy would delete markers.
        RequestError, Unreachable: errors of the broker.
    """
    create_topic(cluster, name, SINK_MARKER_PARTITIONS, _CONFIGS)
    policy = topic_config(cluster, name, "cleanup.policy")
    if policy != "compact":
        raise ConfigError(
            f"topic {name!r} for the markers of the sink has cleanup.policy={policy}, expected"
            " compact: markers would be deleted; use another topic (option markerTopic)"
        )


class MarkerTopic:
    """The marker records of one query."""

    def __init__(self, cluster: Cluster, name: str, query: str) -> None:
        """Determine the partition of the query.

        Raises:
            RequestError: there is no such topic.
            Unreachable: no broker answers.
        """
        self._cluster = cluster
        self._query = query
        self._topic: Topic = cluster.topics([name])[name]
        number = codec.partition(query.encode(), len(self._topic.partitions))
        self.partition: Partition = (name, number)

    def read(self) -> QueryLog:
        """Return the records of the query up to the current end.

        Raises:
            MarkerMismatch: the topic has other records.
            RequestError, Unreachable: errors of the broker.
        """
        key = str(self._cluster), self._topic.topic_id, self._query
        end = list_offsets(self._cluster, {self.partition: LATEST})[self.partition].offset
        position, log = _CACHE.pop(key, (0, QueryLog(self._query)))
        if position == 0 or position > end:
            begin = list_offsets(self._cluster, {self.partition: EARLIEST})[self.partition].offset
            position, log = begin, QueryLog(self._query)
        name, number = self.partition
        part = Range(name, self._topic.topic_id, number, position, end)
        for chunk in fetch(self._cluster, part):
            log.feed(chunk.data)
            position = chunk.next_offset
        # After an error above the log is not cached again: it may have a part of a chunk.
        _CACHE[key] = max(position, end), log
        while len(_CACHE) > SINK_QUERIES_REMEMBERED:
            _CACHE.popitem(last=False)
        return log

    def read_of(self, task: int) -> QueryLog:
        """Return the records of the query after the last transaction of a task has ended.

        To be called after InitProducerId for the task's transactional id: the coordinator has then
        decided about an open transaction, but its marker may arrive in this partition later.

        Raises:
            RequestError: the transaction does not end within give_up_seconds; or as `read`.
            MarkerMismatch, Unreachable: as `read`.
        """

        def ask() -> QueryLog:
            log = self.read()
            if log.is_open(task):
                raise RequestError(
                    ErrorCode.CONCURRENT_TRANSACTIONS,
                    f"{self._cluster}: the last transaction of task {task} of {self._query!r} has"
                    f" no end in {self.partition[0]}-{self.partition[1]}",
                )
            return log

        return self._cluster.retried(ask)

    def write(self, record: tuple[bytes, bytes]) -> None:
        """Write a record outside of transactions; it may be written twice if a response is lost.

        Raises:
            RequestError, Unreachable: errors of the broker.
        """
        batches = codec.encode([record])
        Producer(self._cluster, _NO_PRODUCER_ID).send({self.partition: batches})
