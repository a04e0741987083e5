"""`broker txn describe`."""

from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.partitions import partition_text
from broker.client.transaction_admin import describe_transaction
from broker.model.clock import SystemClock


class DescribedTransaction(NamedTuple):
    """A transactional id.

    Attributes:
        transactional_id: its name.
        state: as in `txn list`.
        producer_id: of its producer.
        producer_epoch: that producer's epoch; others are fenced.
        coordinator: the address of the broker that coordinates it.
        timeout_ms: the coordinator aborts a transaction that is open for longer.
        start_timestamp_ms: when the open transaction began; null: none is open.
        open_seconds: how long it is open.
        partitions: its partitions, as TOPIC-PARTITION.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: str
    timeout_ms: int
    start_timestamp_ms: int | None
    open_seconds: float | None
    partitions: list[str]


@verb(
    DescribedTransaction,
    is_single=True,
    examples=("broker txn describe payments-1", "broker txn describe payments-1 -o json"),
)
@click.argument("transactional_id", metavar="ID")
def command(session: Session, transactional_id: str) -> None:
    """Describe the transactional id ID and its open transaction."""
    found = describe_transaction(session.cluster, transactional_id)
    started = found.started_ms
    session.write(
        DescribedTransaction(
            found.transactional_id,
            found.state,
            found.producer_id,
            found.producer_epoch,
            str(found.coordinator),
            found.timeout_ms,
            started,
            None if started is None else max(SystemClock().wall_ms() - started, 0) / 1000,
            [partition_text(each) for each in found.partitions],
        )
    )
