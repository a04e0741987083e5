"""`broker user create`."""

import shlex

import click

from broker.cli.confirmation import print_undo
from broker.cli.frame import Session, dry_run, verb
from broker.cli.places import Stopped, stopped_options
from broker.cli.user.passwords import NewPassword, password_options
from broker.cli.user.users import UserRow, mechanism_option, place, row
from broker.model.errors import ErrorCode, RequestError
from broker.model.scram import MECHANISMS

_DEFAULT = "SCRAM-SHA-512"


@verb(
    UserRow,
    is_single=True,
    examples=(
        "broker user create alice",
        "broker user create alice --password-file - < password",
        "broker user create admin --data-dir data",
    ),
)
@click.argument("name")
@mechanism_option(_DEFAULT)
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
    """Create a user, who logs in with SCRAM.

    With --data-dir the broker must be stopped; its data directory may not exist yet.
    """
    where = place(session, stopped, is_new=True)
    wanted = [MECHANISMS[each] for each in mechanisms or (_DEFAULT,)]
    known = dict(where.mechanisms().get(name, []))
    there = [each.name for each in wanted if each in known]
    if there:
        raise RequestError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"user {name} exists with {', '.join(there)}: set the password with `broker user"
            " passwd`",
        )
    if not dry_run:
        where.set_password(name, new.read(), wanted, new.iterations)
        named = [word for each in wanted for word in ("--mechanism", each.name)]
        print_undo(shlex.join(["broker", "user", "delete", name, *named, *stopped.words()]))
    status = "would_be_created" if dry_run else "created"
    session.write(row(name, [(each, new.iterations) for each in wanted], status))
