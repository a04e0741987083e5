"""`broker user passwd`."""

from broker.cli.frame import Session, dry_run, verb
from broker.cli.places import Stopped, stopped_options
from broker.cli.user.passwords import NewPassword, password_options
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
    examples=("broker user passwd alice", "broker user passwd alice --password-file - < password"),
)
@name_argument
@mechanism_option("all that the user has")
@password_options
@stopped_options
@dry_run
def command(
    session: Session,
    name: str,
    mechanisms: tuple[str, ...],
    new: NewPassword,
    stopped: Stopped,
    dry_run: bool,
) -> None:
    """Set the password of a user. Open connections stay."""
    where = place(session, stopped)
    wanted = [each for each, _ in existing(where, name, mechanisms)]
    if not dry_run:
        where.set_password(name, new.read(), wanted, new.iterations)
    status = "would_be_changed" if dry_run else "changed"
    session.write(row(name, [(each, new.iterations) for each in wanted], status))
