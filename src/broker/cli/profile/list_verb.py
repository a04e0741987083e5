"""`broker profile list`."""

from broker.cli.frame import Session, verb
from broker.cli.profile.rows import ProfileRow, row
from broker.cli.profiles import read_profiles


@verb(ProfileRow, is_local=True, examples=("broker profile list",))
def command(session: Session) -> None:
    """List profiles."""
    known = read_profiles()
    for name, each in sorted(known.profiles.items()):
        session.write(row(name, each, known.current))
