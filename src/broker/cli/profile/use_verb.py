"""`broker profile use`."""

import click

from broker.cli.completion import profile_names
from broker.cli.frame import Session, dry_run, verb
from broker.cli.profile.rows import ProfileRow, profile_of, row
from broker.cli.profiles import Profiles, read_profiles, write_profiles


@verb(ProfileRow, is_single=True, is_local=True, examples=("broker profile use production",))
@click.argument("name", shell_complete=profile_names)
@dry_run
def command(session: Session, name: str, dry_run: bool) -> None:
    """Make a profile the one that commands use."""
    known = read_profiles()
    profile = profile_of(known, name)
    if not dry_run:
        write_profiles(Profiles(name, known.profiles))
    session.write(row(name, profile, name))
