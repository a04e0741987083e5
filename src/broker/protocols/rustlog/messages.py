"""Requests and responses, independent of the form that encodes them."""

from typing import NamedTuple, TypeAlias


class Run(NamedTuple):
    """Consecutive records in a buffer: for each a uint32 length and its bytes."""

    data: bytes
    position: int  # of the first record
    length: int  # the number of records


class Produce(NamedTuple):
    """Append records."""

    topic: str
    partition: int
    records: Run


class Fetch(NamedTuple):
    """Read records from an offset, or from a group's committed offset."""

    group: str | None
    topic: str
    partition: int
    offset: int
    bytes_max: int


class OffsetCommit(NamedTuple):
    """Commit the next offset that a group is to read."""

    group: str
    topic: str
    partition: int
    offset: int


class OffsetFetch(NamedTuple):
    """Return a group's committed offset."""

    group: str
    topic: str
    partition: int


class CreateTopic(NamedTuple):
    """Create a topic with this number of partitions."""

    topic: str
    partitions: int


class ListTopics(NamedTuple):
    """List all topics."""


class DescribeTopic(NamedTuple):
    """Return the end offset of each partition of a topic."""

    topic: str


class DescribePartition(NamedTuple):
    """Return the end offset of a partition."""

    topic: str
    partition: int


class MetricsFetch(NamedTuple):
    """Return the metrics."""


class Ping(NamedTuple):
    """Return Pong."""


class Forwarding(NamedTuple):
    """Take what follows on the connection as forwarded by another broker."""

    client_host: str
    revision: int  # of the other broker's metadata


Request: TypeAlias = (
    Produce
    | Fetch
    | OffsetCommit
    | OffsetFetch
    | CreateTopic
    | ListTopics
    | DescribeTopic
    | DescribePartition
    | MetricsFetch
    | Ping
    | Forwarding
)


class Produced(NamedTuple):
    """The offsets of the records, which are consecutive."""

    base_offset: int
    length: int  # the number of records


class Fetched(NamedTuple):
    """The response to a Fetch, which is encoded while records are read."""

    body: bytes


class Committed(NamedTuple):
    """The offset is committed."""


class GroupOffset(NamedTuple):
    """The next offset that a group is to read; None: it has committed none."""

    offset: int | None


class Created(NamedTuple):
    """The topic was created."""


class TopicList(NamedTuple):
    """Topics with their numbers of partitions, sorted by name."""

    topics: list[tuple[str, int]]


class TopicEnds(NamedTuple):
    """The last stable offset of each partition, in order.

    An answer to another broker has only the partitions that this one leads.
    """

    topic: str
    partition_count: int
    ends: list[tuple[int, int]]  # partition and offset


class PartitionEnd(NamedTuple):
    """The last stable offset of a partition."""

    topic: str
    partition: int
    end: int


class Metrics(NamedTuple):
    """The metrics in Prometheus' text format."""

    text: str


class Pong(NamedTuple):
    """The response to a Ping."""


class Accepted(NamedTuple):
    """The response to a Forwarding."""


Response: TypeAlias = (
    Produced
    | Fetched
    | Committed
    | GroupOffset
    | Created
    | TopicList
    | TopicEnds
    | PartitionEnd
    | Metrics
    | Pong
    | Accepted
)
