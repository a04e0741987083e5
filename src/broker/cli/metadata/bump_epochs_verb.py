"""`broker metadata bump-epochs`."""

from functools import partial
from typing import NamedTuple

from broker.cli.frame import Session, dry_run, verb
from broker.cli.places import Stopped, stopped_options


class RaisedEpochs(NamedTuple):
    """What was done.

    Attributes:
        partitions: whose leader epochs were raised; in a dry run, would be.
        is_dry_run: whether nothing was changed.
    """

    partitions: int
    is_dry_run: bool


@verb(
    RaisedEpochs,
    is_single=True,
    is_local=True,
    examples=("broker metadata bump-epochs --set polylog.metadata.store=etcd://H1:2379/PREFIX",),
)
@stopped_options
@dry_run
def command(session: Session, stopped: Stopped, dry_run: bool) -> None:
    """Raise all leader epochs after an old backup of the store was restored.

    The leader epoch of every partition is raised by 1,000,000, and 2^40 producer ids are skipped:
    logs with a higher epoch than the store's are not served, and no producer may get the id of
    another one. All brokers of the store must be stopped; it may be done again.
    """
    from broker.server.cluster import offline  # noqa: PLC0415 - not needed by `--help`

    work = partial(offline.bump_epochs, is_dry_run=dry_run)
    session.write(RaisedEpochs(offline.run(stopped.configuration(), work), dry_run))
