"""`broker snapshot create`: hard links of a running broker's files, to be read without it."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from broker.cli.reporting import FORMATTER, add_broker, add_output, print_progress
from broker.client.reachability import check_reachable


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code: 0 if its report has no problems."""
    parser = argparse.ArgumentParser(prog="broker snapshot", formatter_class=FORMATTER)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    create = commands.add_parser(
        "create",
        help="create hard links of a running broker's files in a folder",
        description="Create hard links of the files of a running broker's topics in a new folder,"
        " with a manifest that has the current high watermark and last stable offset of each"
        " partition and a hash of each file. The snapshot takes no space until the broker deletes"
        " its own files. It must be on the same file system. Never start a broker on it.",
        formatter_class=FORMATTER,
    )
    create.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    create.add_argument(
        "--data-dir", type=Path, required=True, metavar="D", help="the broker's data directory"
    )
    add_broker(create)
    create.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T",
        help="only this topic; may be repeated (default: all but the internal ones)",
    )
    add_output(create)
    return _create(parser.parse_args(arguments))


def _create(parsed: argparse.Namespace) -> int:
    from broker.pipeline.jobs import snapshot  # noqa: PLC0415 - not needed by `--help`

    check_reachable(parsed.broker)
    report = snapshot.create(
        parsed.folder,
        parsed.data_dir,
        parsed.broker,
        topics=parsed.topic,
        progress=print_progress,
    )
    print(report.in_format(parsed.output))
    return 0 if report.is_well else 1
