"""`broker topic delete`."""

import shlex
from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.confirmation import confirm, print_undo
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.topic.selection import selected
from broker.client.configs import Kind, Resource, own_configs
from broker.client.groups import list_groups
from broker.client.metadata import Cluster
from broker.client.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from broker.client.topics import TopicState, delete_topics, sizes
from broker.model.errors import PolylogError


class DeletedTopic(NamedTuple):
    """A topic.

    Attributes:
        topic: its name.
        partitions: how many it has had.
        records: offsets between start and end of all partitions.
        size_bytes: of one replica of each partition on disk; null if the brokers do not tell it.
        groups: groups that have committed offsets in it.
        status: deleted, would_be_deleted or failed.
    """

    topic: str
    partitions: int
    records: int
    size_bytes: int | None
    groups: tuple[str, ...]
    status: str


@verb(
    DeletedTopic,
    examples=(
        "broker topic delete orders",
        "broker topic delete 'test-.*' --dry-run",
        "broker topic delete orders --yes --if-exists",
    ),
)
@click.argument("patterns", nargs=-1, required=True, metavar="NAME|REGEX...", shell_complete=topics)
@click.option("--if-exists", is_flag=True, help="Succeed if it does not exist.")
@yes
@dry_run
def command(
    session: Session, patterns: tuple[str, ...], if_exists: bool, yes: bool, dry_run: bool
) -> None:
    """Delete topics with all their records; the name must be typed, or --yes be given."""
    cluster = session.cluster
    found = selected(cluster, patterns, is_lenient=if_exists)
    if not found:
        return
    rows = what_goes(cluster, found)
    if dry_run:
        for each in rows:
            session.write(each._replace(status="would_be_deleted"))
        return
    lines = [
        f"{each.topic}: {each.partitions} partitions, {each.records:,} records, groups:"
        f" {', '.join(each.groups) or 'none'}"
        for each in rows
    ]
    confirm(lines, list(found), is_confirmed=yes)
    undo = {name: creation(cluster, topic) for name, topic in found.items()}
    results = delete_topics(cluster, list(found))
    for each in rows:
        error = results.get(each.topic)
        if error is not None:
            session.fail(error)
        else:
            print_undo(f"{undo[each.topic]}  # without its records")
        session.write(each._replace(status="deleted" if error is None else "failed"))


def what_goes(cluster: Cluster, topics: dict[str, TopicState]) -> list[DeletedTopic]:
    """Return what a deletion of topics would take away."""
    led = [
        (name, each.partition)
        for name, topic in topics.items()
        for each in topic.partitions
        if each.leader is not None
    ]
    starts = list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(led, LATEST))
    known = sizes(cluster, list(topics))
    users: dict[str, list[str]] = {}
    for group in (each.group for each in list_groups(cluster)):
        try:
            read = {topic for topic, _ in committed_offsets(cluster, group)}
        except PolylogError:
            continue  # a group that may not be looked at hides itself, not the topic
        for each in read & topics.keys():
            users.setdefault(each, []).append(group)
    rows = []
    for name, topic in topics.items():
        parts = [key for key in led if key[0] == name]
        rows.append(
            DeletedTopic(
                name,
                len(topic.partitions),
                sum(ends[key].offset - starts[key].offset for key in parts),
                topic.size_bytes(known),
                tuple(users.get(name, ())),
                "deleted",
            )
        )
    return rows


def creation(cluster: Cluster, topic: TopicState) -> str:
    """Return the command that creates a topic as it is, without records."""
    words = ["broker", "topic", "create", topic.name]
    words += ["-p", str(len(topic.partitions)), "-r", str(topic.replicas)]
    for name, value in own_configs(cluster, Resource(Kind.TOPIC, topic.name)).items():
        words += ["--config", f"{name}={value}"]
    return shlex.join(words)
