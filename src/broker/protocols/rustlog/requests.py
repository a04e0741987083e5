"""What can be asked and answered, whichever of the two dialects says it."""

from typing import NamedTuple, TypeAlias


class Run(NamedTuple):
    """Records, one behind the other: for each a uint32 length and its bytes."""

    data: bytes
    position: int  # of the first one
    length: int  # how many there are


class Produce(NamedTuple):
    """Append records."""

    topic: str
    partition: int
    records: Run


class Fetch(NamedTuple):
    """Read records from an offset on, or from where a group is."""

    group: str | None
    topic: str
    partition: int
    offset: int
    bytes_max: int


class OffsetCommit(NamedTuple):
    """Remember the next offset that a group is to read."""

    group: str
    topic: str
    partition: int
    offset: int


class OffsetFetch(NamedTuple):
    """Tell what was remembered."""

    group: str
    topic: str
    partition: int


class CreateTopic(NamedTuple):
    """Make a topic with so many partitions."""

    topic: str
    partitions: int


class ListTopics(NamedTuple):
    """Name all topics."""


class DescribeTopic(NamedTuple):
    """Tell how far each partition of a topic goes."""

    topic: str


class DescribePartition(NamedTuple):
    """Tell how far a partition goes."""

    topic: str
    partition: int


class MetricsFetch(NamedTuple):
    """Tell what is counted."""


class Ping(NamedTuple):
    """Say that the broker is there."""


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
)


class Produced(NamedTuple):
    """Where the records stand, one behind the other."""

    base_offset: int
    length: int  # how many records


class Fetched(NamedTuple):
    """The answer to a Fetch, whose bytes were written along with reading."""

    body: bytes


class Committed(NamedTuple):
    """The offset is remembered."""


class GroupOffset(NamedTuple):
    """What a group is to read next; None: nobody has said."""

    offset: int | None


class Created(NamedTuple):
    """The topic is there."""


class TopicList(NamedTuple):
    """Topics with their numbers of partitions, by name."""

    topics: list[tuple[str, int]]


class TopicEnds(NamedTuple):
    """The next offset to be read of each partition, in order."""

    topic: str
    ends: list[int]


class PartitionEnd(NamedTuple):
    """The next offset to be read of a partition."""

    topic: str
    partition: int
    end: int


class Metrics(NamedTuple):
    """What is counted, as Prometheus reads it."""

    text: str


class Pong(NamedTuple):
    """The broker is there."""


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
)
