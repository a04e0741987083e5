"""`broker txn abort`."""

from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.confirmation import confirm
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.partitions import partition_text, partitions_of
from broker.client.transaction_admin import (
    ActiveProducer,
    abort,
    describe_producers,
    list_transactions,
)
from broker.model.errors import ConfigError, ErrorCode, RequestError


class Aborted(NamedTuple):
    """An open transaction that is aborted in a partition.

    Attributes:
        partition: TOPIC-PARTITION.
        producer_id: whose transaction it is.
        producer_epoch: the producer's epoch.
        start_offset: the first record of the transaction.
        transactional_id: the transactional id that has this producer id now; null: none, so the
            transaction hangs.
    """

    partition: str
    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None


@verb(
    Aborted,
    examples=(
        "broker txn abort orders:0 --start-offset 4711 --dry-run",
        "broker txn abort orders:0 --producer-id 1000 --yes",
    ),
)
@click.argument("wanted", metavar="TOPIC:PARTITION", shell_complete=topics)
@click.option("--producer-id", type=int, metavar="N", help="Whose transaction it is.")
@click.option("--start-offset", type=int, metavar="N", help="The first record of the transaction.")
@dry_run
@yes
def command(
    session: Session,
    wanted: str,
    producer_id: int | None,
    start_offset: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Abort an open transaction in one partition, for which its coordinator does nothing any more.

    `broker txn producers TOPIC --open` shows them. The records of the transaction are lost to
    consumers of committed records; there is no undo.
    """
    if producer_id is None and start_offset is None:
        raise ConfigError("name the transaction by --start-offset or --producer-id")
    partitions = partitions_of(session.cluster, [wanted])
    if len(partitions) != 1:
        raise ConfigError(f"{wanted} is more than one partition: name it as TOPIC:PARTITION")
    [partition] = partitions
    name = partition_text(partition)
    found = [
        each
        for each in describe_producers(session.cluster, partitions)[partition]
        if each.transaction_start is not None
        and producer_id in {None, each.producer_id}
        and start_offset in {None, each.transaction_start}
    ]
    if not found:
        raise RequestError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"{session.cluster}: no such transaction is open in {name}: `broker txn producers"
            f" {wanted} --open` shows those that are",
        )
    [producer] = found  # a producer has one transaction, and each begins at its own offset
    row = _row(session, name, producer)
    if not dry_run:
        owner = (
            f"of {row.transactional_id}, which may still commit it" if row.transactional_id else ""
        )
        line = f"{name}: the transaction since offset {row.start_offset} {owner}"
        confirm([line.rstrip()], [name], is_confirmed=yes)
        abort(session.cluster, partition, producer)
    session.write(row)


def _row(session: Session, name: str, producer: ActiveProducer) -> Aborted:
    owners = list_transactions(session.cluster, producer_ids=[producer.producer_id])
    return Aborted(
        name,
        producer.producer_id,
        producer.producer_epoch,
        producer.transaction_start or 0,
        owners[0].transactional_id if owners else None,
    )
