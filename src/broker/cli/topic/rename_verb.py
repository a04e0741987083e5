"""`broker topic rename`."""

import sys

import click

from broker.cli.completion import topics
from broker.cli.confirmation import confirm, print_undo
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.topic.copying import CopiedTopic, behind_transactions, copy_topic
from broker.cli.topic.delete_verb import what_goes
from broker.cli.topic.selection import one
from broker.cli.topic.writing import compression_option
from broker.client.offsets import LATEST, list_offsets
from broker.client.topics import delete_topics
from broker.model.errors import ErrorCode, RequestError

_NOT_KEPT = (
    "A rename copies the records and deletes the old topic. It does not keep offsets, the committed"
    " offsets of groups, ACLs for the old name, nor the topic's id."
)


@verb(
    CopiedTopic,
    is_single=True,
    examples=(
        "broker topic rename orders orders-v1",
        "broker topic rename orders orders-v1 --dry-run",
    ),
)
@click.argument("source", shell_complete=topics)
@click.argument("target")
@compression_option
@yes
@dry_run
def command(
    session: Session, source: str, target: str, compression: str, yes: bool, dry_run: bool
) -> None:
    """Copy a topic under another name, and delete the old one.

    Kafka has no request for it. Offsets, the committed offsets of groups, ACLs for the old name and
    the topic's id are not kept; stop the producers first.
    """
    cluster = session.cluster
    topic = one(cluster, source)
    [old] = what_goes(cluster, {source: topic})
    print(_NOT_KEPT, file=sys.stderr)
    if old.groups:
        print(f"Groups that lose their position: {', '.join(old.groups)}", file=sys.stderr)
    if not dry_run:
        confirm([], [source], is_confirmed=yes)
    keys = {(source, each.partition): LATEST for each in topic.partitions}
    before = list_offsets(cluster, keys)
    if behind_transactions(cluster, keys):
        raise RequestError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"{source} has records of an open transaction, which cannot be copied: wait for its"
            " producer, or see `broker txn list`",
        )
    done = copy_topic(session, source, target, compression=compression, is_dry_run=dry_run)
    if dry_run:
        session.write(done._replace(status="would_be_renamed"))
        return
    if list_offsets(cluster, keys) != before:
        raise RequestError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"{source} has got new records meanwhile, so it was not deleted: stop its producers,"
            f" delete {target}, and try again",
        )
    error = delete_topics(cluster, [source])[source]
    if error is not None:
        raise error
    print_undo(f"broker topic rename {target} {source}")
    session.write(done._replace(status="renamed"))
