"""Copies of topics: same partitions, settings, keys, values, headers and timestamps."""

import sys
from collections.abc import Collection
from typing import NamedTuple

from broker.cli.frame import Session
from broker.cli.partitions import partition_text
from broker.cli.progress import progress
from broker.cli.topic.missed import missed_in
from broker.cli.topic.selection import one
from broker.cli.topic.spans import spans
from broker.cli.topic.writing import Writer
from broker.client.configs import Kind, Resource, own_configs
from broker.client.fetch import Range
from broker.client.metadata import Cluster, Partition
from broker.client.offsets import LATEST, list_offsets
from broker.client.reading import read
from broker.client.topics import NewTopic, create_topics
from broker.model.errors import ErrorCode, PolylogError, RequestError


class CopiedTopic(NamedTuple):
    """A copy.

    Attributes:
        topic: the new topic.
        source: the topic that was copied.
        partitions: how many both have.
        records: that were copied.
        status: copied, renamed, or would_be_copied and would_be_renamed in a dry run.
    """

    topic: str
    source: str
    partitions: int
    records: int
    status: str


def copy_topic(
    session: Session, source: str, target: str, *, compression: str, is_dry_run: bool
) -> CopiedTopic:
    """Create a topic with the settings of another one, and copy its records.

    Raises:
        RequestError: the source does not exist, the target exists, or a broker refuses; or the
            target has another number of records than the source in the end.
        Unreachable: a broker does not respond.
    """
    cluster = session.cluster
    topic = one(cluster, source)
    own = own_configs(cluster, Resource(Kind.TOPIC, source))
    settings = {name: value for name, value in own.items() if value is not None}
    new = NewTopic(target, len(topic.partitions), topic.replicas, settings)
    error = create_topics(cluster, [new], is_dry_run=is_dry_run)[target]
    if error is not None:
        raise error
    ids = {source: topic.topic_id}
    keys = [(source, each.partition) for each in topic.partitions]
    parts = spans(cluster, keys, "start:end", ids)
    for key in behind_transactions(cluster, keys):
        print(
            f"{partition_text(key)}: copied up to an open transaction at offset {parts[key].end}",
            file=sys.stderr,
        )
    total = sum((each.end or 0) - each.start for each in parts.values())
    if is_dry_run:
        return CopiedTopic(target, source, len(keys), total, "would_be_copied")
    writer = Writer(cluster, target, len(keys), compression=compression)
    count = 0
    when_missed = missed_in(session)
    try:
        with progress(f"copying {source} to {target}", total) as shown:
            for (_, partition), span in sorted(parts.items()):
                part = Range(source, topic.topic_id, partition, span.start, span.end or 0)
                for each in read(cluster, part, when_missed=when_missed):
                    record = each.record
                    fields = (record.key, record.value, record.headers, record.timestamp)
                    writer.add(fields, partition)
                    count += 1
                    shown.add(1, len(record.value or b""))
            writer.flush()
    except PolylogError:
        print(
            f"{target} has a part of {source} only: delete it before the next try", file=sys.stderr
        )
        raise
    # The topic is new: its ends count all that was ever written to it.
    ends = list_offsets(cluster, {(target, number): LATEST for _, number in keys})
    there = sum(each.offset for each in ends.values())
    if not count == writer.written == there:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{count} records of {source} were read, but {target} has {there}: another client"
            " writes to it; delete it before the next try",
        )
    return CopiedTopic(target, source, len(keys), count, "copied")


def behind_transactions(cluster: Cluster, partitions: Collection[Partition]) -> list[Partition]:
    """Return the partitions with records behind the start of an open transaction."""
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    stable = list_offsets(cluster, dict.fromkeys(partitions, LATEST), is_committed=True)
    return [key for key in partitions if stable[key].offset < ends[key].offset]
