"""`broker cert ca`."""

from pathlib import Path

import click

from broker.cli.cert.files import CA_DAYS, CertFile, common_options, make_ca, private_files
from broker.cli.frame import Session, verb


@verb(
    CertFile,
    is_local=True,
    examples=("broker cert ca certs", "broker cert ca certs --name 'Test CA' --days 30"),
)
@common_options(CA_DAYS)
@click.option("--name", default="Polylog CA", help="Its name (default: Polylog CA).")
def command(session: Session, directory: Path, days: int, name: str) -> None:
    """Make an authority: DIR/ca.pem, which brokers and clients trust, and DIR/ca-key.pem.

    The key is needed only to make certificates. A file that exists is never replaced.
    """
    with private_files(directory, name):
        for each in make_ca(directory, name, days):
            session.write(CertFile(str(each), name, days))
