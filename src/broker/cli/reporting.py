"""The parser of `broker start`, and how all commands print errors and progress."""

import argparse
import os
import re
import select
import sys
from functools import partial
from io import UnsupportedOperation
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

from broker.model.printable import printable_lines

if TYPE_CHECKING:
    from broker.model.errors import PolylogError

DEFAULT_BOOTSTRAP: Final = "localhost:9092"


class Parser(argparse.ArgumentParser):
    """A parser whose help has a fixed width, like that of its commands.

    Otherwise argparse imports shutil, which imports every compression module, to find the
    terminal's width for each option that is added: 3 ms.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of ArgumentParser
        """Create a parser; see argparse.ArgumentParser."""
        super().__init__(formatter_class=partial(argparse.HelpFormatter, width=78), **options)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, without the values of settings: they may be passwords; exit."""
        super().error(re.sub(r"=\S.*", "=...", message, flags=re.DOTALL))


def open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed when the process began.

    Otherwise the stream is None, and the first file that is opened gets its number: what is meant
    for a terminal would be written into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - it stays open
            setattr(sys, name, nowhere)


def print_error(error: "PolylogError") -> None:
    """Print why a command fails, or a part of it, on stderr."""
    print(f"broker: {printable_lines(f'{error}{_where_to_look(error)}')}", file=sys.stderr)


def _where_to_look(error: "PolylogError") -> str:
    """Return what lists those that exist, of something that does not; or where help is."""
    from broker.model.errors import ErrorCode, RequestError  # noqa: PLC0415 - only for errors

    if not isinstance(error, RequestError):
        return ""
    if error.code in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR}:
        return ": `broker docs operations` says how to go on, at Damaged records"
    noun = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "topic",
        ErrorCode.GROUP_ID_NOT_FOUND: "group",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "txn",
    }.get(error.code)
    return "" if noun is None else f": `broker {noun} list` shows those that exist"


def print_os_error(error: OSError) -> None:
    """Print why the system refuses something: without a file's name it was a standard stream."""
    what = error.filename if isinstance(error.filename, str) else "input or output"
    print(f"broker: {printable_lines(what)}: {error.strerror or error}", file=sys.stderr)


def check_reader(stream: IO[str] | IO[bytes]) -> None:
    """Raise BrokenPipeError if whoever reads a stream has gone: who waits would not notice."""
    poller = select.poll()
    try:
        poller.register(stream, 0)
    except UnsupportedOperation:
        return  # it is in memory
    if any(events & select.POLLERR for _, events in poller.poll(0)):
        raise BrokenPipeError


def discard_output() -> None:
    """Print nothing more: whoever reads has seen enough, and what is buffered is no error."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def print_progress(line: str) -> None:
    """Print a line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)
