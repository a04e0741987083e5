"""`broker cert server`."""

from pathlib import Path

import click

from broker.cli.cert.files import DAYS, CertFile, common_options, make, private_files
from broker.cli.frame import Session, verb


@verb(
    CertFile,
    is_local=True,
    examples=(
        "broker cert server certs --host localhost",
        "broker cert server certs --host broker-1.example --host 10.0.0.1 --name broker-1",
    ),
)
@common_options(DAYS)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    required=True,
    metavar="HOST",
    help="A host name or address that clients and other brokers connect to, localhost for all of"
    " this machine; may be repeated.",
)
@click.option("--name", default="server", help="Of the file and the certificate (default: server).")
def command(
    session: Session, directory: Path, days: int, hosts: tuple[str, ...], name: str
) -> None:
    """Make DIR/NAME.pem, the key store of a broker, with the authority in DIR."""
    with private_files(directory, name):
        for each in make(directory, name, days, hosts):
            session.write(CertFile(str(each), name, days))
