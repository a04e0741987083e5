"""`broker user delete`."""

from broker.cli.confirmation import confirm
from broker.cli.frame import Session, dry_run, verb, yes
from broker.cli.places import Stopped, stopped_options
from broker.cli.user.users import Named, UserRow, named_options, place, row


@verb(
    UserRow,
    is_single=True,
    examples=("broker user delete alice", "broker user delete alice --dry-run"),
)
@named_options
@stopped_options
@yes
@dry_run
def command(
    session: Session,
    named: Named,
    stopped: Stopped,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete a user; the name must be typed, or --yes be given.

    Open connections stay; ACLs for the user stay, too.
    """
    where = place(session, stopped)
    wanted = named.found(where)
    if not dry_run:
        names = ", ".join(each.name for each, _ in wanted)
        what = f"{named.name} will no longer log in with {names}"
        confirm([what], [named.name], is_confirmed=yes)
        where.delete(named.name, [each for each, _ in wanted])
    session.write(row(named.name, wanted, "would_be_deleted" if dry_run else "deleted"))
