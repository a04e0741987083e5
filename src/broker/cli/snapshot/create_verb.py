"""`broker snapshot create`."""

from pathlib import Path

import click

from broker.cli.frame import Session, verb
from broker.cli.pipeline.options import SERVER_NAMES, topic_option
from broker.cli.reporting import print_progress
from broker.pipeline.jobs.rows import SnapshotPartition


@verb(
    SnapshotPartition,
    server_names=SERVER_NAMES,
    totals={
        "folder": "of the snapshot",
        "partitions": "that it has",
        "segments": "that were linked",
        "bytes": "of these",
    },
    examples=(
        "broker snapshot create snap --data-dir data",
        "broker snapshot create snap --data-dir data --topic orders -o json",
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The broker's data directory.",
)
@topic_option
def command(session: Session, folder: Path, data_dir: Path, topics: tuple[str, ...]) -> None:
    """Create hard links of a running broker's files in a new folder.

    The folder gets a manifest, too, which has the current high watermark and last stable offset of
    each partition and a hash of each file. The snapshot takes no space until the broker deletes its
    own files. It must be on the same file system. Never start a broker on it.
    """
    from broker.pipeline.jobs import snapshot  # noqa: PLC0415 - not needed by `--help`

    session.report(
        snapshot.create(
            folder,
            data_dir,
            str(session.cluster),
            topics=topics,
            security=session.connection.security(),
            timeout_seconds=session.connection.timeout_seconds,
            progress=print_progress,
        )
    )
