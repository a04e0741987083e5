"""A history: the requests and results of the clients of a log, in the order they were written.

A line is an operation, JSON: `process` (who), `f` (what), `type`, `t` (monotonic, in seconds) and
`value`, whose fields README.md lists. The types are Jepsen's: `invoke` is written before a request
leaves, `ok` after its response, `fail` if it certainly had no effect, `info` if that is unknown. An
operation without an `invoke` counts as requested when its result was written.
"""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

TYPES = frozenset({"invoke", "ok", "fail", "info"})


class Operation(NamedTuple):
    """One line."""

    process: str
    f: str
    type: str
    t: float
    value: dict[str, Any]


class MalformedHistoryError(ValueError):
    """A line is not an operation."""


def encode(operation: Operation) -> str:
    """Return a line without its end."""
    return json.dumps(operation._asdict(), separators=(",", ":"))


def decode(lines: Iterable[str]) -> Iterator[Operation]:
    """Yield the operation of each line.

    Raises:
        MalformedHistoryError: a line is not JSON, lacks a field or has an unknown type.
    """
    for number, line in enumerate(lines, 1):
        try:
            operation = Operation(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise MalformedHistoryError(f"line {number} is no operation: {line[:80]!r}") from error
        if operation.type not in TYPES:
            raise MalformedHistoryError(f"line {number}: type {operation.type!r} is unknown")
        yield operation


class Recorder:
    """Writes a history; any number of threads may use it."""

    def __init__(self, path: Path) -> None:
        """Write into a new file."""
        self._path = path
        self._file = path.open("x", buffering=1)
        self._lock = threading.Lock()
        self._done: dict[str, int] = {}

    def write(self, process: str, f: str, type_: str, **value: Any) -> None:
        """Add a line; a send without an offset, or with a negative one, is recorded without one.

        A producer whose retry was a duplicate is not told where its records are.
        """
        offset = value.get("offset")
        if f == "send" and (offset is None or offset < 0):
            value.pop("offset", None)
        with self._lock:
            # The clock is read under the lock, so that times rise as lines do.
            operation = Operation(process, f, type_, time.monotonic(), value)
            self._file.write(encode(operation) + "\n")
            if type_ == "ok":
                self._done[process] = self._done.get(process, 0) + 1

    def done(self) -> dict[str, int]:
        """Return how many operations of each process were answered."""
        with self._lock:
            return dict(self._done)

    def read(self) -> Iterator[Operation]:
        """Yield what was written so far."""
        self._file.flush()
        with self._path.open() as lines:
            yield from decode(lines)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()
