"""`broker user list`."""

from broker.cli.frame import Session, verb
from broker.cli.places import Stopped, stopped_options
from broker.cli.user.users import UserRow, place, row


@verb(
    UserRow,
    columns=("user", "mechanisms", "iterations"),
    examples=("broker user list", "broker user list -o name", "broker user list --data-dir data"),
)
@stopped_options
def command(session: Session, stopped: Stopped) -> None:
    """List users with their mechanisms."""
    for user, found in sorted(place(session, stopped).mechanisms().items()):
        session.write(row(user, found, "there"))
