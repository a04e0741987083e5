"""`broker snapshot create`: hard links of a running broker's files, to be read without it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from broker.cli.reaching import check_reachable
from broker.cli.reporting import FORMATTER, add_broker, add_output


def run(arguments: Sequence[str]) -> int:
    """Run one command of snapshots; returns 0 when nothing is wrong with what was found."""
    parser = argparse.ArgumentParser(prog="broker snapshot", formatter_class=FORMATTER)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    create = commands.add_parser(
        "create",
        help="link the files of a running broker's topics into a folder",
        description="Link the files of a running broker's topics into a new folder, with a manifest"
        " that says up to where they count: the high watermark and the last stable offset of now,"
        " and a hash of each file. It takes no space until the broker removes its own files, and"
        " must be on the same file system. Never start a broker on it.",
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
    from broker.pipeline.jobs import snapshot  # noqa: PLC0415 - `--help` needs none of it

    check_reachable(parsed.broker)
    report = snapshot.create(
        parsed.folder,
        parsed.data_dir,
        parsed.broker,
        topics=parsed.topic,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(report.in_format(parsed.output))
    return 0 if report.is_well else 1
