"""`broker config lint`."""

from pathlib import Path
from typing import NamedTuple

import click

from broker.cli.exit_codes import Exit
from broker.cli.frame import Session, verb
from broker.model.explanation import lint


class Linted(NamedTuple):
    """Something about a line of a file.

    Attributes:
        name: of the setting; "" for none.
        severity: error (a start would be refused), warning (it is not what one may expect) or note.
        file: the file.
        line: its number; 0: the whole file.
        text: what it is, and what to do.
    """

    name: str
    severity: str
    file: str
    line: int
    text: str


@verb(
    Linted,
    columns=("file", "line", "severity", "text"),
    is_local=True,
    examples=("broker config lint server.properties", "broker config lint polylog.toml -o json"),
)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
)
def command(session: Session, files: tuple[Path, ...]) -> None:
    """Check configuration files, TOML or Kafka's properties; exit code 1 if a start is refused."""
    for file in files:
        for each in lint(file):
            session.write(Linted(each.name, each.severity, str(each.file), each.line, each.text))
            if each.severity == "error":
                session.exit_code = Exit.FAILED
