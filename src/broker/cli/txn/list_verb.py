"""`broker txn list`."""

from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.patterns import matcher
from broker.cli.times import parse_duration
from broker.client.transaction_admin import list_transactions


class ListedTransaction(NamedTuple):
    """A transactional id.

    Attributes:
        transactional_id: its name.
        state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ...
        producer_id: of its producer.
        coordinator: the id of the broker that coordinates it.
    """

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@verb(
    ListedTransaction,
    examples=("broker txn list", "broker txn list --state Ongoing --longer-than 15m"),
)
@click.argument("patterns", nargs=-1, metavar="[ID|REGEX]...")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only those in this state.")
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=int, metavar="N", help="Only of this one."
)
@click.option("--longer-than", metavar="DURATION", help="Only those open for longer: 15m, 1h.")
def command(
    session: Session,
    patterns: tuple[str, ...],
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: str | None,
) -> None:
    """List transactional ids and the state of their transactions."""
    matches = matcher(patterns)
    found = list_transactions(
        session.cluster,
        states=states,
        producer_ids=producer_ids,
        longer_than_ms=None if longer_than is None else parse_duration(longer_than),
    )
    for each in found:
        if matches(each.transactional_id):
            session.write(
                ListedTransaction(
                    each.transactional_id, each.state, each.producer_id, each.coordinator
                )
            )
