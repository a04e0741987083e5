"""`broker profile show`."""

import click

from broker.cli.completion import profile_names
from broker.cli.frame import Session, verb
from broker.cli.profile.rows import ProfileRow, profile_of, row
from broker.cli.profiles import read_profiles
from broker.model.errors import ErrorCode, RequestError


@verb(
    ProfileRow,
    is_single=True,
    is_local=True,
    examples=("broker profile show", "broker profile show -o name"),
)
@click.argument("name", required=False, shell_complete=profile_names)
def command(session: Session, name: str | None) -> None:
    """Show a profile, or the current one."""
    known = read_profiles()
    chosen = known.current if name is None else name
    if chosen is None:
        raise RequestError(
            ErrorCode.RESOURCE_NOT_FOUND,
            "there is no current profile: create one with `broker profile create`",
        )
    session.write(row(chosen, profile_of(known, chosen), known.current))
