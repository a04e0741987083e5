"""`broker acl remove`."""

from broker.cli.acl.entries import COLUMNS, AclRow, Wanted, entry_options, place, row
from broker.cli.confirmation import print_undo
from broker.cli.frame import Session, dry_run, verb
from broker.cli.places import Stopped, stopped_options


@verb(
    AclRow,
    columns=(*COLUMNS, "status"),
    examples=(
        "broker acl remove User:alice --topic orders --dry-run",
        "broker acl remove User:alice --topic orders --only produce",
    ),
)
@entry_options
@stopped_options
@dry_run
def command(session: Session, wanted: Wanted, stopped: Stopped, dry_run: bool) -> None:
    """Take back what `broker acl allow` with the same options has allowed."""
    acls = wanted.acls()
    where = place(session, stopped)
    known = set(where.entries())
    there = [each for each in acls if each in known]
    if there and not dry_run:
        where.delete(there)
    done = "would_be_removed" if dry_run else "removed"
    for each in acls:
        session.write(row(each, done if each in known else "absent"))
    if there == acls and not dry_run:  # otherwise it would allow more than before
        print_undo(wanted.command("allow", stopped))
