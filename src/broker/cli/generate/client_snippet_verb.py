"""`broker generate client-snippet`."""

from typing import NamedTuple

import click

from broker.cli.client_snippets import SNIPPETS, Access
from broker.cli.frame import Session, verb
from broker.cli.reporting import DEFAULT_BOOTSTRAP
from broker.model.listener import SecurityProtocol
from broker.model.settings import BROKER_SETTINGS


class Snippet(NamedTuple):
    """The program.

    Attributes:
        language: that it is written in.
        snippet: its text.
    """

    language: str
    snippet: str


@verb(
    Snippet,
    is_single=True,
    is_local=True,
    examples=(
        "broker generate client-snippet",
        "broker generate client-snippet --language java --security-protocol SASL_SSL",
        "broker generate client-snippet --language properties --address broker.internal:9093",
    ),
)
@click.option(
    "--language", type=click.Choice(tuple(SNIPPETS)), default="python", help="Default: python."
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    default=DEFAULT_BOOTSTRAP,
    help=f"Where the client connects to (default: {DEFAULT_BOOTSTRAP}).",
)
@click.option(
    "--security-protocol",
    type=click.Choice([each.name for each in SecurityProtocol]),
    default="PLAINTEXT",
    help="Of the listener (default: PLAINTEXT).",
)
@click.option(
    "--mechanism",
    type=click.Choice(BROKER_SETTINGS["sasl.enabled.mechanisms"].choices),
    default="SCRAM-SHA-512",
    help="Of the login, where there is one (default: SCRAM-SHA-512).",
)
@click.option("--topic", default="greetings", help="That the program uses (default: greetings).")
def command(
    session: Session,
    language: str,
    address: str,
    security_protocol: str,
    mechanism: str,
    topic: str,
) -> None:
    """Print a program that produces and consumes a record, for a listener of a broker."""
    has_login = security_protocol.startswith("SASL_")
    access = Access(address, security_protocol, mechanism if has_login else "", topic)
    session.print_text(Snippet(language, SNIPPETS[language](access)), "snippet")
