"""`broker profile create`."""

from pathlib import Path

import click

from broker.cli.frame import Session, dry_run, verb
from broker.cli.profile.rows import ProfileRow, row
from broker.cli.profiles import Profile, Profiles, read_profiles, write_profiles
from broker.model.address import parse_addresses


@verb(
    ProfileRow,
    is_single=True,
    is_local=True,
    examples=(
        "broker profile create local localhost:9092 --use",
        "broker profile create remote kafka-1:9093,kafka-2:9093 --settings remote.properties",
    ),
)
@click.argument("name")
@click.argument("addresses", metavar="HOST:PORT[,...]")
@click.option(
    "--settings",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, resolve_path=True),
    metavar="FILE",
    help="Kafka's client settings, as --command-config of other commands.",
)
@click.option("--use", is_flag=True, help="Make it the current one, too.")
@dry_run
def command(
    session: Session,
    name: str,
    addresses: str,
    settings: Path | None,
    use: bool,
    dry_run: bool,
) -> None:
    """Create or replace a profile; the first one becomes the current one."""
    parse_addresses(addresses)
    known = read_profiles()
    profile = Profile(addresses, None if settings is None else str(settings))
    current = name if use or known.current is None else known.current
    if not dry_run:
        write_profiles(Profiles(current, {**known.profiles, name: profile}))
    session.write(row(name, profile, current))
