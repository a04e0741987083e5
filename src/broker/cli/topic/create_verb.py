"""`broker topic create`."""

from typing import NamedTuple

import click

from broker.cli.completion import topic_settings
from broker.cli.frame import Session, dry_run, pairs, verb
from broker.client.topics import NewTopic, create_topics, topic_states
from broker.model.errors import ErrorCode, RequestError


class CreatedTopic(NamedTuple):
    """A topic.

    Attributes:
        topic: its name.
        partitions: how many it has; null: the broker's default, in a dry run.
        replicas: of each partition; null: the broker's default, in a dry run.
        status: created, exists or valid (in a dry run).
    """

    topic: str
    partitions: int | None
    replicas: int | None
    status: str


@verb(
    CreatedTopic,
    examples=(
        "broker topic create orders",
        "broker topic create orders payments -p 12 -r 3 --config retention.ms=86400000",
        "broker topic create orders --if-not-exists",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), metavar="N", help="Default: the broker's."
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="Default: the broker's.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=topic_settings,
    help="Set a setting of the topic; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if it exists; it is not changed.")
@dry_run
def command(
    session: Session,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    settings = dict(pairs(configs, "--config"))
    wanted = [NewTopic(each, partitions, replication_factor, settings) for each in names]
    results = create_topics(session.cluster, wanted, is_dry_run=dry_run)
    exists = {
        name
        for name, error in results.items()
        if error is not None and error.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists
    }
    there = {name for name, error in results.items() if error is None and not dry_run} | exists
    found = topic_states(session.cluster, there)
    for name in names:
        error = results[name]
        if error is not None and name not in exists:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                error = RequestError(error.code, f"{error}: --if-not-exists accepts that")
            session.fail(error)
            continue
        status = "exists" if name in exists else "valid" if dry_run else "created"
        topic = found.get(name)
        if topic is None:
            session.write(CreatedTopic(name, partitions, replication_factor, status))
        else:
            session.write(CreatedTopic(name, len(topic.partitions), topic.replicas, status))
