"""`broker acl allow`."""

from broker.cli.acl.entries import COLUMNS, AclRow, Wanted, entry_options, place, row
from broker.cli.confirmation import print_undo
from broker.cli.frame import Session, dry_run, verb
from broker.cli.places import Stopped, stopped_options


@verb(
    AclRow,
    columns=(*COLUMNS, "status"),
    examples=(
        "broker acl allow User:alice --topic orders --group readers",
        "broker acl allow User:app --topic team- --prefixed --only produce --create",
        "broker acl allow User:alice --topic orders --data-dir data",
    ),
)
@entry_options
@stopped_options
@dry_run
def command(session: Session, wanted: Wanted, stopped: Stopped, dry_run: bool) -> None:
    """Let a principal write to and read from topics, as members of groups and in transactions.

    PRINCIPAL is such as User:alice. With --data-dir the broker must be stopped; its data directory
    may not exist yet.
    """
    acls = wanted.acls()
    if dry_run:
        for each in acls:
            session.write(row(each, "would_be_allowed"))
        return
    before = place(session, stopped).create(acls)
    for each in acls:
        session.write(row(each, "allowed"))
    if before.isdisjoint(acls):  # otherwise it would remove entries that were there before
        print_undo(wanted.command("remove", stopped))
