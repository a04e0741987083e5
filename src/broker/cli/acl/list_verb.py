"""`broker acl list`."""

from broker.cli.acl.entries import COLUMNS, AclRow, place, row
from broker.cli.frame import Session, verb
from broker.cli.places import Stopped, stopped_options


@verb(
    AclRow,
    columns=(*COLUMNS, "host"),
    examples=("broker acl list", "broker acl list -o name", "broker acl list --data-dir data"),
)
@stopped_options
def command(session: Session, stopped: Stopped) -> None:
    """List all entries."""
    for each in sorted(place(session, stopped).entries()):
        session.write(row(each, "there"))
