"""Records on the standard output: in the format of -f, or as rows of -o."""

import sys

import click

from broker.cli.frame import Session
from broker.cli.reporting import check_reader
from broker.cli.topic.record_format import record_format
from broker.cli.topic.record_rows import record_row
from broker.client.reading import Read


class Printer:
    """Prints records; what was printed is seen when `flush` was called."""

    def __init__(self, session: Session, format_: str | None, default: str) -> None:
        """Keep the format of -f, or the default without it.

        Raises:
            UsageError: there is also one of -o.
            ConfigError: the format is invalid.
        """
        if format_ is not None and not session.is_text:
            raise click.UsageError("use -f or -o, not both")
        self._session = session
        self._formatted = record_format(default if format_ is None else format_)
        # Bytes of records are written as they are, so not by a stream of text.
        self._stream = sys.stdout.buffer if session.is_text else None

    def print(self, read: Read) -> None:
        """Print a record."""
        if self._stream is not None:
            self._stream.write(self._formatted(read))
        else:
            self._session.write(record_row(read.topic, read.partition, read.record))

    def flush(self) -> None:
        """Let readers see what was printed."""
        if self._stream is not None:
            self._stream.flush()
        else:
            self._session.output.flush()

    def wait(self) -> None:
        """Let readers see what was printed; BrokenPipeError: they have gone."""
        self.flush()
        check_reader(sys.stdout)
