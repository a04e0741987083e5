"""`broker txn producers`."""

from typing import NamedTuple

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, verb
from broker.cli.partitions import partitions_of
from broker.client.transaction_admin import describe_producers


class PartitionProducer(NamedTuple):
    """A producer that has written to a partition.

    Attributes:
        topic: the topic.
        partition: its number.
        producer_id: of the producer.
        producer_epoch: its epoch.
        last_sequence: the sequence number of its last record.
        last_timestamp_ms: when it has written that.
        coordinator_epoch: of its last marker; -1: none.
        open_since_offset: the first record of its open transaction; null: none is open.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    open_since_offset: int | None


@verb(
    PartitionProducer,
    examples=("broker txn producers orders", "broker txn producers orders:0,1 --open"),
)
@click.argument(
    "wanted",
    metavar="TOPIC[:PARTITION,...]...",
    nargs=-1,
    required=True,
    shell_complete=topics,
)
@click.option("--open", "only_open", is_flag=True, help="Only those with an open transaction.")
def command(session: Session, wanted: tuple[str, ...], only_open: bool) -> None:
    """Show the producers that the leaders of partitions know, and their open transactions."""
    partitions = partitions_of(session.cluster, wanted)
    for (topic, number), found in sorted(describe_producers(session.cluster, partitions).items()):
        for each in found:
            if each.transaction_start is not None or not only_open:
                session.write(
                    PartitionProducer(
                        topic,
                        number,
                        each.producer_id,
                        each.producer_epoch,
                        each.last_sequence,
                        each.last_timestamp_ms,
                        each.coordinator_epoch,
                        each.transaction_start,
                    )
                )
