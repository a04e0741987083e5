"""Records on the standard output: in the format of -f, or as rows of -o."""

import sys
from collections.abc import Callable

from broker.cli.frame import Session
from broker.cli.topic.record_rows import record_row
from broker.client.reading import Read


class Printer:
    """Prints records; what was printed is seen when `flush` was called."""

    def __init__(self, session: Session, formatted: Callable[[Read], bytes]) -> None:
        """Keep the format, which is not used if the session has one of -o."""
        self._session = session
        self._formatted = formatted
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
