"""The interface of `broker import PROTOCOL`; it needs nothing of the broker."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from broker.client.connection import Client


class ImportOption(NamedTuple):
    """An option of the command line: a number, or a flag.

    Attributes:
        name: of the option, without its dashes.
        help: one sentence.
        default: if it is not given.
        allowed: the numbers that are; None: it is a flag, whose value is 0 or 1.
    """

    name: str
    help: str
    default: int
    allowed: range | None


class Imported(NamedTuple):
    """The outcome of an import.

    Attributes:
        row: of ImportCommand.ROW.
        text: the same for people.
        problem: what to do about what was not imported; empty: everything was.
    """

    row: NamedTuple
    text: Sequence[str]
    problem: str = ""


class ImportCommand(Protocol):
    """The package `importing` of a protocol's package, which has a command.

    It is imported for `broker import --help`, too. What the command does is in its module
    `command`, an `Import`.

    Attributes:
        DESCRIPTION: what the command does.
        OPTIONS: of its command line.
        EXAMPLES: command lines.
        ROW: the class of what it prints, which documents each field.
    """

    DESCRIPTION: str
    OPTIONS: tuple[ImportOption, ...]
    EXAMPLES: tuple[str, ...]
    ROW: type[NamedTuple]


class Import(Protocol):
    """The module `command` of an import, which is imported to run it."""

    def run(
        self,
        folder: Path,
        options: Mapping[str, int],
        connect: "Callable[[], Client]",
        progress: Callable[[str], None],
        /,
    ) -> Imported:
        """Import the data of a folder into the broker that `connect` reaches.

        `progress` prints a line for people. Raises PolylogError.
        """
