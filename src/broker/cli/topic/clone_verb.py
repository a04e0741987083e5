"""`broker topic clone`."""

import click

from broker.cli.completion import topics
from broker.cli.frame import Session, dry_run, verb
from broker.cli.topic.copying import CopiedTopic, copy_topic
from broker.cli.topic.writing import compression_option


@verb(
    CopiedTopic,
    is_single=True,
    examples=(
        "broker topic clone orders orders-debug",
        "broker topic clone orders orders-debug --dry-run",
    ),
)
@click.argument("source", shell_complete=topics)
@click.argument("target")
@compression_option
@dry_run
def command(session: Session, source: str, target: str, compression: str, dry_run: bool) -> None:
    """Create a topic with the settings and the records that another one has now.

    Keys, values, headers and timestamps are the same, partition by partition; offsets begin with 0
    and have no gaps. Records of aborted transactions are left out, and those from the start of an
    open transaction on, which is said.
    """
    session.write(copy_topic(session, source, target, compression=compression, is_dry_run=dry_run))
