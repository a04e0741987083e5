"""`broker snapshot create`: hard links of a running broker's files, to be read without it."""

from collections.abc import Sequence
from pathlib import Path

from broker.cli.reporting import (
    Parser,
    add_broker,
    add_output,
    add_topics,
    print_progress,
    print_report,
)
from broker.client.reachability import check_reachable


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code: 0 if its report has no problems."""
    parser = Parser(prog="broker snapshot")
    commands = parser.add_commands()
    create = commands.add_parser(
        "create",
        help="create hard links of a running broker's files in a folder",
        description="Create hard links of the files of a running broker's topics in a new folder,"
        " with a manifest that has the current high watermark and last stable offset of each"
        " partition and a hash of each file. The snapshot takes no space until the broker deletes"
        " its own files. It must be on the same file system. Never start a broker on it.",
    )
    create.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    create.add_argument(
        "--data-dir", type=Path, required=True, metavar="D", help="the broker's data directory"
    )
    add_broker(create)
    add_topics(create)
    add_output(create)
    parsed = parser.parse_args(arguments)
    from broker.pipeline.jobs import snapshot  # noqa: PLC0415 - not needed by `--help`

    check_reachable(parsed.broker)
    report = snapshot.create(
        parsed.folder,
        parsed.data_dir,
        parsed.broker,
        topics=parsed.topic,
        progress=print_progress,
    )
    return print_report(report, parsed.output)
