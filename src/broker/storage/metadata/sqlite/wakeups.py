"""Datagrams that tell the other processes of a store of a commit, so that their watches read it.

Each process binds a Unix socket in a folder beside the store. A datagram has no content and may be
lost: a process that gets none looks at the file from time to time. The socket of a process that has
ended refuses datagrams and is removed by the next sender.
"""

import logging
import os
import socket
from contextlib import suppress
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text, random_id

_READ_AT_ONCE = 100  # datagrams
_log = logging.getLogger(__name__)


class Wakeups:
    """The sockets of one open store."""

    def __init__(self, folder: Path) -> None:
        """Bind a socket in the folder, which is created if it does not exist."""
        if not folder.is_dir():
            file_ops.make_folder(folder)
        self._folder = folder
        self._name = id_to_text(random_id())
        # Socket addresses have 107 bytes at most; through this link a longer path is one, too.
        self._opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)  # noqa: TID251 (a folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind(self._address(self._name))
        except BaseException:
            self._socket.close()
            os.close(self._opened)
            raise

    def fileno(self) -> int:
        """Return the descriptor of the socket, which is readable after a datagram."""
        return self._socket.fileno()

    def drain(self) -> None:
        """Remove the datagrams that have arrived."""
        with suppress(BlockingIOError):
            for _ in range(_READ_AT_ONCE):
                self._socket.recv(1)

    def send(self) -> None:
        """Send a datagram to all other processes."""
        try:
            names = file_ops.list_folder(self._folder)
        except (StorageError, OSError) as error:
            # The commit stands; the others look from time to time.
            _log.warning("cannot wake other processes: folder=%s error=%s", self._folder, error)
            return
        for name in names:
            if name == self._name:
                continue
            try:
                self._socket.sendto(b"\0", self._address(name))
            except ConnectionRefusedError:  # its process has ended
                with suppress(OSError):
                    (self._folder / name).unlink()
            except OSError:  # full: it has a datagram to read; or gone since
                continue

    def close(self) -> None:
        """Remove the socket."""
        (self._folder / self._name).unlink(missing_ok=True)
        self._socket.close()
        os.close(self._opened)

    def _address(self, name: str) -> str:
        return f"/proc/self/fd/{self._opened}/{name}"
