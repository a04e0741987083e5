"""One change of settings: what was set before, the request, the rows, and the way back."""

import shlex
from collections.abc import Mapping

from broker.cli.config.entities import Entity, change, own
from broker.cli.config.rows import Changed
from broker.cli.confirmation import print_undo
from broker.cli.frame import Session


def make_change(
    session: Session, entity: Entity, changes: Mapping[str, str | None], *, dry_run: bool
) -> None:
    """Change settings of an entity, print a row for each, and the commands that take it back."""
    before = own(session.cluster, entity)
    change(session.cluster, entity, changes, dry_run=dry_run)
    for name, value in changes.items():
        session.write(Changed(name, str(entity), before.get(name), value))
    if dry_run:
        return
    earlier = {name: before.get(name) for name in changes if before.get(name) != changes[name]}
    # A password that was set cannot be read, so nothing can set it again.
    earlier = {name: value for name, value in earlier.items() if value or name not in before}
    sets = [f"{name}={value}" for name, value in earlier.items() if value is not None]
    unsets = [name for name, value in earlier.items() if value is None]
    for verb, words in (("set", sets), ("unset", unsets)):
        if words:
            print_undo(shlex.join(["broker", "config", verb, *words, *entity.options()]))
