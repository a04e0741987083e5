"""The files of the audit: lines are appended to one, which is closed when it is full.

    audit.jsonl                         lines are appended here
    audit-00000000000000018201.jsonl    closed before the line with that number

A write that has failed is repeated at the same position, so no part of it stays. After a crash the
last line may be incomplete: it is cut off at the next start. The oldest closed files are removed
when there are too many.
"""

import logging
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.security_limits import AUDIT_LINE_BYTES_MAX

_DIGITS = 20

_log = logging.getLogger(__name__)


class AuditFile:
    """The open file and the closed ones beside it; used by one thread at a time."""

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        """Keep where the files are.

        Args:
            path: of the file that is appended to.
            bytes_max: the size from which on it is closed.
            files_max: how many closed files are kept.
        """
        self._path = path
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._size = 0

    def resume(self) -> bytes | None:
        """Return the last line, without its line feed; None if there is no line anywhere.

        Raises StorageError when a file cannot be read, or is none of the audit's.
        """
        if self._path.is_symlink():
            raise StorageError(f"{self._path} is a link: the audit is written to files only")
        try:
            size = file_ops.size(self._path)
        except FileNotFoundError:
            size = 0
        line, self._size = _last_line(self._path, size)
        if self._size < size:
            _log.warning("incomplete last line of the audit cut off: bytes=%d", size - self._size)
            file_ops.truncate(self._path, self._size)
        if line is None and (closed := self._closed()):
            newest = closed[-1]
            line, _ = _last_line(newest, file_ops.size(newest))
        return line

    def append(self, lines: bytes, number: int) -> None:
        """Append lines, durably; `number` is that of the first of them. Raises StorageError."""
        if self._size and self._size + len(lines) > self._bytes_max:
            self._close(number)
        file_ops.write_at(self._path, lines, self._size)
        if not self._size:
            file_ops.sync_folder(self._path.parent)
        self._size += len(lines)

    def _close(self, number: int) -> None:
        name = f"{self._path.stem}-{number:0{_DIGITS}}{self._path.suffix}"
        file_ops.rename(self._path, self._path.with_name(name))
        file_ops.sync_folder(self._path.parent)
        self._size = 0
        closed = self._closed()
        for each in closed[: max(0, len(closed) - self._files_max)]:
            file_ops.remove(each)

    def _closed(self) -> list[Path]:
        """Return the closed files, from the oldest on."""
        names = file_ops.list_folder(self._path.parent)
        start, end = f"{self._path.stem}-", self._path.suffix
        return [
            self._path.with_name(name)
            for name in names
            if name.startswith(start)
            and name.endswith(end)
            and name[len(start) : len(name) - len(end)].isdigit()
        ]


def _last_line(path: Path, size: int) -> tuple[bytes | None, int]:
    """Return the last whole line of a file of that size, and where it ends."""
    if not size:
        return None, 0
    start = max(0, size - 2 * AUDIT_LINE_BYTES_MAX)
    tail = file_ops.read_range(path, start, size - start)
    whole, feed, rest = tail.rpartition(b"\n")
    if not feed and start:
        raise StorageError(f"{path} is no file of the audit: it ends with a line that is too long")
    if not feed:
        return None, 0
    return whole.rpartition(b"\n")[2], size - len(rest)
