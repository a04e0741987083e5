"""`broker user delete`."""

from broker.cli.confirmation import confirm
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.places import Stopped, stopped_options
from broker.cli.user.users import (
    UserRow,
    existing,
    mechanism_option,
    name_argument,
    place,
    row,
)


@verb(
    UserRow,
    is_single=True,
    examples=("broker user delete alice", "broker user delete alice --dry-run"),
)
@name_argument
@mechanism_option("all that the user has")
@stopped_options
@yes
@dry_run
def command(
    session: Session,
    name: str,
    mechanisms: tuple[str, ...],
    stopped: Stopped,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete a user; the name must be typed, or --yes be given.

    Open connections stay; ACLs for the user stay, too.
    """
    where = place(session, stopped)
    wanted = existing(where, name, mechanisms)
    if not dry_run:
        named = ", ".join(each.name for each, _ in wanted)
        confirm([f"{name} will no longer log in with {named}"], [name], is_confirmed=yes)
        where.delete(name, [each for each, _ in wanted])
    session.write(row(name, wanted, "would_be_deleted" if dry_run else "deleted"))
