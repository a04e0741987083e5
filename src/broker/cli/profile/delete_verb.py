"""`broker profile delete`."""

import shlex

import click

from broker.cli.completion import profile_names
from broker.cli.confirmation import print_undo
from broker.cli.frame import Session, dry_run, verb
from broker.cli.profile.rows import ProfileRow, profile_of, row
from broker.cli.profiles import Profiles, read_profiles, write_profiles


@verb(ProfileRow, is_single=True, is_local=True, examples=("broker profile delete old",))
@click.argument("name", shell_complete=profile_names)
@dry_run
def command(session: Session, name: str, dry_run: bool) -> None:
    """Delete a profile; the file of its client settings stays."""
    known = read_profiles()
    deleted = profile_of(known, name)
    others = {each: found for each, found in known.profiles.items() if each != name}
    if not dry_run:
        write_profiles(Profiles(None if known.current == name else known.current, others))
        words = ["broker", "profile", "create", name, deleted.bootstrap_server]
        if deleted.command_config is not None:
            words += ["--settings", deleted.command_config]
        print_undo(shlex.join([*words, "--use"] if known.current == name else words))
    session.write(row(name, deleted, known.current))
