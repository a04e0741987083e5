"""`broker client list`."""

import json
import sys
from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.cli.http_pages import answered
from broker.cli.patterns import matcher
from broker.client.brokers import Broker, describe
from broker.model.clock import SystemClock
from broker.model.errors import ErrorCode, PeerError, PolylogError, RequestError

_PAGE = "/clients"


class ConnectedClient(NamedTuple):
    """A connection of a client.

    Attributes:
        address: where it comes from, as HOST:PORT.
        client_id: the client.id of its requests; null: none yet, or its protocol has none.
        software: the name that it gives its library (KIP-511); null: it gives none.
        software_version: the version of that.
        principal: who it is for the broker, as TYPE:NAME.
        listener: the name of the listener that it came over.
        protocol: of its requests: kafka, http, v1, ...; "" before the first.
        broker: the id of the broker that it is connected to.
        connected_ms: when it was accepted.
        connected_seconds: for how long it is connected.
    """

    address: str
    client_id: str | None
    software: str | None
    software_version: str | None
    principal: str
    listener: str
    protocol: str
    broker: int
    connected_ms: int
    connected_seconds: float


@verb(
    ConnectedClient,
    columns=(
        "address",
        "client_id",
        "software",
        "software_version",
        "principal",
        "listener",
        "broker",
        "connected_seconds",
    ),
    examples=(
        "broker client list",
        "broker client list 'loader-.*' --protocol kafka -o json",
    ),
)
@click.argument("patterns", nargs=-1, metavar="[CLIENT_ID|REGEX]...")
@click.option("--broker", "wanted", type=int, metavar="ID", help="Only of this broker.")
@click.option("--protocol", metavar="NAME", help="Only those that speak it: kafka, http, v1, ...")
def command(
    session: Session, patterns: tuple[str, ...], wanted: int | None, protocol: str | None
) -> None:
    """List the connections of clients to all brokers, also that of this command.

    Each broker is asked for its page /clients, which is on listeners without a login, and for
    those who may describe the cluster; other servers of Kafka's protocol have none.
    """
    matches = matcher(patterns)
    now_ms = SystemClock().wall_ms()
    brokers = [each for each in describe(session.cluster).brokers if not each.is_fenced]
    chosen = [each for each in brokers if wanted in {None, each.broker_id}]
    if not chosen:
        raise RequestError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"{session.cluster}: there is no broker {wanted}, only"
            f" {', '.join(str(each.broker_id) for each in brokers)}",
        )
    for each in chosen:
        try:
            rows = _rows(each, answered(session.cluster, each.address, _PAGE), now_ms)
        except PolylogError as error:
            session.fail(error)
            continue
        for row in rows:
            if (not patterns or matches(row.client_id or "")) and protocol in {None, row.protocol}:
                session.write(row)


def _rows(broker: Broker, text: bytes, now_ms: int) -> list[ConnectedClient]:
    """Return the clients of a broker, those that are connected longest first."""
    try:
        page = json.loads(text)
        rows = [
            ConnectedClient(
                **each,
                broker=broker.broker_id,
                connected_seconds=max(now_ms - each["connected_ms"], 0) / 1000,
            )
            for each in page["clients"]
        ]
        if not page["is_complete"]:
            print(
                f"broker {broker.broker_id}: {len(rows)} of {page['connections']} connections are"
                " shown: there are more than its page may have",
                file=sys.stderr,
            )
    except (ValueError, TypeError, KeyError) as error:
        raise PeerError(f"{broker.address}{_PAGE}: not a list of clients: {error!r}") from None
    return sorted(rows, key=lambda each: (each.connected_ms, each.address))
