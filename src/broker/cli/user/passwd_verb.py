"""`broker user passwd`."""

from broker.cli.frame import Session, dry_run, verb
from broker.cli.places import Stopped, stopped_options
from broker.cli.user.passwords import NewPassword, password_options
from broker.cli.user.users import Named, UserRow, named_options, place, row


@verb(
    UserRow,
    is_single=True,
    examples=("broker user passwd alice", "broker user passwd alice --password-file - < password"),
)
@named_options
@password_options
@stopped_options
@dry_run
def command(
    session: Session,
    named: Named,
    new: NewPassword,
    stopped: Stopped,
    dry_run: bool,
) -> None:
    """Set the password of a user. Open connections stay."""
    where = place(session, stopped)
    wanted = [each for each, _ in named.found(where)]
    if not dry_run:
        where.set_password(named.name, new.read(), wanted, new.iterations)
    status = "would_be_changed" if dry_run else "changed"
    session.write(row(named.name, [(each, new.iterations) for each in wanted], status))
