"""The topic of the markers: made where it is missing, read as far as it goes."""

from collections import OrderedDict
from typing import Final

from broker import codec
from broker.client.admin import create_topic, topic_config
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster, Topic
from broker.client.offsets import EARLIEST, LATEST, Partition, list_offsets
from broker.client.produce import Producer
from broker.client.retry import with_retries
from broker.client.transactions import ProducerId
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.limits import (
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
_NOBODY: Final = ProducerId(-1, -1)

_Key = tuple[str, str, str]
_Read = tuple[int, QueryLog]
# Spark keeps its workers: the next task of a query reads only what has been written since. By
# cluster, topic id and query; with where to go on.
_REMEMBERED: "OrderedDict[_Key, _Read]" = OrderedDict()


def prepare(cluster: Cluster, name: str) -> None:
    """Make the topic if it is not there, and see that it keeps what it is for.

    Raises:
        ConfigError: it would forget markers.
        RequestError, Unreachable: the broker.
    """
    create_topic(cluster, name, SINK_MARKER_PARTITIONS, _CONFIGS)
    policy = topic_config(cluster, name, "cleanup.policy")
    if policy != "compact":
        raise ConfigError(
            f"topic {name!r} for the markers of the sink has cleanup.policy={policy}, expected"
            " compact: it would forget what was written; name another (option markerTopic)"
        )


class MarkerTopic:
    """The records of one query."""

    def __init__(self, cluster: Cluster, name: str, query: str) -> None:
        """Find the query's partition.

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
        """Return what is written up to now.

        Raises:
            MarkerMismatch: the topic holds something else.
            RequestError, Unreachable: the broker.
        """
        key = str(self._cluster), self._topic.topic_id, self._query
        end = list_offsets(self._cluster, {self.partition: LATEST})[self.partition].offset
        position, log = _REMEMBERED.pop(key, (0, QueryLog(self._query)))
        if position == 0 or position > end:
            begin = list_offsets(self._cluster, {self.partition: EARLIEST})[self.partition].offset
            position, log = begin, QueryLog(self._query)
        name, number = self.partition
        part = Range(name, self._topic.topic_id, number, position, end)
        for chunk in fetch(self._cluster, part):
            log.feed(chunk.data)
            position = chunk.next_offset
        # What fails above forgets the log: half of a chunk may be in it.
        _REMEMBERED[key] = max(position, end), log
        while len(_REMEMBERED) > SINK_QUERIES_REMEMBERED:
            _REMEMBERED.popitem(last=False)
        return log

    def read_of(self, task: int) -> QueryLog:
        """Return what is written, when it is known what has become of a task's last transaction.

        For the one who has taken over the task's transactional id: the end of what was open is
        decided then, but may be written to this partition a moment later.

        Raises:
            RequestError: it does not come within the cluster's patience; or as `read`.
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

        return with_retries(ask, give_up_seconds=self._cluster.give_up_seconds)

    def write(self, record: tuple[bytes, bytes]) -> None:
        """Write a record that belongs to no transaction; twice, should an answer be lost.

        Raises:
            RequestError, Unreachable: the broker.
        """
        batches = codec.encode([record])
        Producer(self._cluster, _NOBODY).send({self.partition: batches})
