"""`broker topic describe`."""

from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, verb
from broker.cli.topic.selection import one
from broker.client.configs import Kind, Resource, own_configs
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.client.topics import eligible_leaders, sizes


class DescribedPartition(NamedTuple):
    """A partition.

    Attributes:
        partition: its number.
        leader: the broker that leads it; null: none.
        replicas: the brokers that have it.
        isr: those that are in sync.
        elr: those that may be elected although they are not in sync (KIP-966); null: unknown.
        start_offset: of the first record; null without a leader.
        end_offset: that the next record will have; null without a leader.
        size_bytes: on disk; null if the brokers do not tell it.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None


class DescribedTopic(NamedTuple):
    """A topic.

    Attributes:
        topic: its name.
        topic_id: 32 hexadecimal digits; empty before Kafka 2.8.
        is_internal: whether the brokers use it for themselves.
        records: offsets between start and end of all partitions; compaction and transactions
            leave gaps in them.
        configs: the settings that were set for it.
        partitions: a list of partition, leader, replicas, isr, elr, start_offset, end_offset,
            size_bytes.
    """

    topic: str
    topic_id: str
    is_internal: bool
    records: int
    configs: dict[str, str | None]
    partitions: list[DescribedPartition]


@verb(
    DescribedTopic,
    is_single=True,
    examples=("broker topic describe orders", "broker topic describe orders -o json"),
)
@click.argument("name", shell_complete=topics)
def command(session: Session, name: str) -> None:
    """Show a topic: settings, and leader, replicas and offsets of its partitions."""
    cluster = session.cluster
    topic = one(cluster, name)
    led = [(name, each.partition) for each in topic.partitions if each.leader is not None]
    starts = list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(led, LATEST))
    elr = eligible_leaders(cluster, [name])
    size = sizes(cluster, [name])
    settings = own_configs(cluster, Resource(Kind.TOPIC, name))
    partitions = []
    for each in topic.partitions:
        key = name, each.partition
        start, end = starts.get(key), ends.get(key)
        partitions.append(
            DescribedPartition(
                *each[1:],
                elr.get(key),
                None if start is None else start.offset,
                None if end is None else end.offset,
                size.get(key),
            )
        )
    records = sum(ends[key].offset - starts[key].offset for key in led)
    session.write(
        DescribedTopic(name, topic.topic_id, topic.is_internal, records, settings, partitions)
    )
