"""`broker topic list`."""

from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, verb
from broker.cli.topic.selection import selected
from broker.client.topics import TopicState, sizes


class ListedTopic(NamedTuple):
    """A topic.

    Attributes:
        topic: its name.
        partitions: how many it has.
        replicas: of each partition; the smallest number if they differ.
        size_bytes: of one replica of each partition on disk; null if the brokers do not tell it.
        under_replicated: partitions with replicas that are not in sync.
        unavailable: partitions without a leader.
        is_internal: whether the brokers use it for themselves.
        topic_id: 32 hexadecimal digits; empty before Kafka 2.8.
    """

    topic: str
    partitions: int
    replicas: int
    size_bytes: int | None
    under_replicated: int
    unavailable: int
    is_internal: bool
    topic_id: str


@verb(
    ListedTopic,
    columns=("topic", "partitions", "replicas", "size_bytes", "under_replicated", "unavailable"),
    examples=(
        "broker topic list",
        "broker topic list 'orders.*' -o name",
        "broker topic list --under-replicated -o json",
    ),
)
@click.argument("patterns", nargs=-1, metavar="[NAME|REGEX]...", shell_complete=topics)
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@click.option(
    "--under-replicated", is_flag=True, help="Only those with replicas that are not in sync."
)
@click.option("--unavailable", is_flag=True, help="Only those with partitions without a leader.")
def command(
    session: Session,
    patterns: tuple[str, ...],
    internal: bool,
    under_replicated: bool,
    unavailable: bool,
) -> None:
    """List topics, all or those that names or regular expressions select."""
    found = selected(session.cluster, patterns, with_internal=internal)
    known = sizes(session.cluster, list(found)) if found else {}
    for each in found.values():
        row = _row(each, known)
        if (row.under_replicated or not under_replicated) and (row.unavailable or not unavailable):
            session.write(row)


def _row(topic: TopicState, known: dict[tuple[str, int], int]) -> ListedTopic:
    return ListedTopic(
        topic.name,
        len(topic.partitions),
        topic.replicas,
        topic.size_bytes(known),
        sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        sum(each.leader is None for each in topic.partitions),
        topic.is_internal,
        topic.topic_id,
    )
