"""`broker audit verify`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.frame import Session, verb
from broker.core.security.audit_chain import check
from broker.model.errors import ConfigError
from broker.model.report import Report
from broker.model.secret_file import read_secret_file
from broker.model.security_limits import AUDIT_LINE_BYTES_MAX

_STANDARD_INPUT = "-"


class VerifiedAudit(NamedTuple):
    """What was checked.

    Attributes:
        events: how many lines the chain has.
        first: the number of its first event.
        last: the number of its last event.
        dropped: events that the broker says it has left out.
        hash: of the last line.
    """

    events: int
    first: int
    last: int
    dropped: int
    hash: str


@verb(
    VerifiedAudit,
    is_local=True,
    totals={},
    examples=(
        "broker audit verify audit-20260131.jsonl audit.jsonl",
        "zcat audit-20260131.jsonl.gz | broker audit verify - audit.jsonl",
        "broker audit verify audit.jsonl --part",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File with the key of the chain, as polylog.audit.key.file of the broker.",
)
@click.option(
    "--part",
    is_flag=True,
    help="The first file does not begin with the first event ever: older files were removed.",
)
def command(session: Session, files: tuple[str, ...], key_file: Path | None, part: bool) -> None:
    """Check that no event was changed, inserted or removed: each has the hash of the line before.

    Files are given from the oldest on, closed ones first: audit-*.jsonl audit.jsonl; `-` is the
    standard input. Lines that were cut off at the end are not noticed: compare the printed hash
    with that of the newest record in the topic __audit, or with one that was kept elsewhere.
    """
    key = b"" if key_file is None else read_secret_file(key_file, "--key-file")
    checked = check(_lines(files), key, is_whole=not part)
    found = VerifiedAudit(
        checked.events, checked.first, checked.head.sequence, checked.dropped, checked.head.hash
    )
    problems = [checked.fault] if checked.fault else []
    if not checked.events and not problems:
        problems.append("there are no events")
    session.report(Report((), (), found._asdict(), problems))


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
