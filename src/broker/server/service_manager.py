"""Tells a service manager such as systemd how the broker is: sd_notify(3).

Messages are datagrams of lines NAME=VALUE to the AF_UNIX socket that NOTIFY_SOCKET names:

    READY=1                  the broker listens, all its logs are recovered, and it has joined
    STATUS=                  one line for people, when it has changed
    EXTEND_TIMEOUT_USEC=     while logs are recovered or leaderships move: more time for it
    WATCHDOG=1               the loop runs; sent at half of WATCHDOG_USEC
    STOPPING=1               the broker stops

A manager that does not read its socket misses messages; the broker never waits for it.
"""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

_SOCKET: Final = "NOTIFY_SOCKET"
_WATCHDOG: Final = "WATCHDOG_USEC"
_WATCHDOG_PID: Final = "WATCHDOG_PID"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
EXTENSION: Final = "EXTEND_TIMEOUT_USEC=60000000"


class ServiceManager:
    """The socket of a service manager."""

    def __init__(self, address: str, watchdog_seconds: float | None) -> None:
        """Keep its address; one that begins with @ is in the abstract namespace.

        With `watchdog_seconds`, the manager takes the broker for dead after so long a silence.
        """
        self.watchdog_seconds = watchdog_seconds
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def tell(self, *lines: str) -> None:
        """Send a message; it is lost if the manager does not read."""
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.setblocking(False)
            sending.sendto("\n".join(lines).encode(), self._address)


def of_environment(
    environment: MutableMapping[str, str] = os.environ, pid: int | None = None
) -> ServiceManager | None:
    """Return the service manager that started this process, if any.

    Child processes are not told of it: they would be taken for the broker.
    """
    address = environment.pop(_SOCKET, "")
    watchdog_usec = environment.pop(_WATCHDOG, "")
    watched = environment.pop(_WATCHDOG_PID, "")
    if not address.startswith(("/", "@")):
        return None
    is_watched = watched in ("", str(os.getpid() if pid is None else pid))
    has_watchdog = is_watched and watchdog_usec.isdecimal() and int(watchdog_usec) > 0
    return ServiceManager(address, int(watchdog_usec) / 1e6 if has_watchdog else None)
