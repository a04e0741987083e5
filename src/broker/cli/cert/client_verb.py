"""`broker cert client`."""

from pathlib import Path

import click

from broker.cli.cert.files import DAYS, CertFile, common_options, make, private_files
from broker.cli.frame import Session, verb


@verb(CertFile, is_local=True, examples=("broker cert client certs --name alice",))
@common_options(DAYS)
@click.option("--name", required=True, help="Of the file and the certificate.")
def command(session: Session, directory: Path, days: int, name: str) -> None:
    """Make DIR/NAME.pem, the key store of a client that is then User:CN=NAME."""
    with private_files(directory, name):
        for each in make(directory, name, days, ()):
            session.write(CertFile(str(each), name, days))
