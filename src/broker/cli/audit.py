"""`broker audit`: check the chain of the audit's events."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from broker.cli.reporting import Parser, add_output, print_report
from broker.core.security.audit_chain import check
from broker.model.errors import ConfigError
from broker.model.report import Report
from broker.model.secret_file import read_secret_file
from broker.model.security_limits import AUDIT_LINE_BYTES_MAX

_STANDARD_INPUT = "-"


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    parser = Parser(prog="broker audit")
    verify = parser.add_commands().add_parser(
        "verify",
        help="check that no event was changed, inserted or removed",
        description="Check the chain of the audit's events: each has the hash of the line before"
        " it. Files are given from the oldest on, closed ones first: audit-*.jsonl audit.jsonl."
        " Lines that were cut off at the end are not noticed: compare the printed hash with that of"
        " the newest record in the topic __audit, or with one that was kept elsewhere. Exit code 1:"
        " the chain is broken.",
    )
    verify.add_argument(
        "files", nargs="+", metavar="FILE", help="a file of events; - is the standard input"
    )
    verify.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="file with the key of the chain, as polylog.audit.key.file of the broker",
    )
    verify.add_argument(
        "--part",
        action="store_true",
        help="the first file does not begin with the first event ever: older files were removed",
    )
    add_output(verify)
    return _verify(parser.parse_args(arguments))


def _verify(parsed: argparse.Namespace) -> int:
    key = b"" if parsed.key_file is None else read_secret_file(parsed.key_file, "--key-file")
    checked = check(_lines(parsed.files), key, is_whole=not parsed.part)
    totals = {
        "events": checked.events,
        "first": checked.first,
        "last": checked.head.sequence,
        "dropped": checked.dropped,
        "hash": checked.head.hash,
    }
    problems = [checked.fault] if checked.fault else []
    if not checked.events and not problems:
        problems.append("there are no events")
    return print_report(Report((), (), totals, problems), parsed.output)


def _lines(files: Sequence[str]) -> Iterator[bytes]:
    with ExitStack() as opened:
        for name in files:
            if name == _STANDARD_INPUT:
                source = sys.stdin.buffer
            else:
                try:
                    source = opened.enter_context(Path(name).open("rb"))
                except OSError as error:
                    raise ConfigError(f"{name}: {error.strerror}") from None
            while line := source.readline(AUDIT_LINE_BYTES_MAX):
                yield line
