"""A pool of idle connections.

Spark reuses its worker processes for many tasks, so the pool of this module outlives a task:
connections are made once, not once per task. A worker is a forked process: it does not use the
connections of its parent.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.client.connection import Client
from broker.model.address import Address
from broker.model.clock import Clock, SystemClock
from broker.model.limits import CLIENT_IDLE_CONNECTIONS_MAX, CLIENT_IDLE_SECONDS

if TYPE_CHECKING:
    from broker.client.security import SecuritySettings

_Key = tuple[Address, str, "SecuritySettings | None", float | None]


class Pool:
    """Idle connections by address, client id, who logged in and their timeout; thread-safe."""

    def __init__(self, clock: Clock) -> None:
        """Start without connections."""
        self._clock = clock
        self._lock = threading.Lock()
        self._process = os.getpid()
        # For each connection the time of its return in ms; the last one was returned last.
        self._idle: dict[_Key, list[tuple[int, Client]]] = {}

    @contextmanager
    def lease(
        self,
        address: Address,
        client_id: str,
        security: "SecuritySettings | None" = None,
        timeout_seconds: float | None = None,
    ) -> Iterator[Client]:
        """Lease a connection, a new one if none is idle; an exception in the block closes it.

        Args:
            address: of the broker.
            client_id: as of Client.
            security: TLS and the login; None: neither.
            timeout_seconds: as of Client.

        Raises:
            Unreachable: no connection can be made.
            AccessDenied: the broker refuses the login.
            ConfigError: the settings of its security cannot be used.
        """
        key = (address, client_id, security, timeout_seconds)
        client = self._take(key)
        if client is None:
            secured = None if security is None else security.secured()
            client = Client(address, client_id, timeout_seconds, secured)
        try:
            yield client
        except BaseException:
            client.close()  # a response may still be on its way
            raise
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if len(idle) < CLIENT_IDLE_CONNECTIONS_MAX:
                idle.append((self._clock.monotonic_ms(), client))
            else:
                client.close()

    def close(self, address: Address | None = None) -> None:
        """Close the idle connections to an address, whose broker stopped or restarted, or all."""
        with self._lock:
            self._close([each for each in self._idle if address in {each[0], None}])

    def _take(self, key: _Key) -> Client | None:
        oldest = self._clock.monotonic_ms() - CLIENT_IDLE_SECONDS * 1000
        with self._lock:
            if self._process != os.getpid():
                # These are copies of the parent's connections; the parent keeps its own.
                self._process = os.getpid()
                self._close(list(self._idle))
            idle = self._idle.get(key, [])
            while idle:
                since, client = idle.pop()
                if since >= oldest:
                    return client
                client.close()
        return None

    def _close(self, keys: list[_Key]) -> None:
        for key in keys:
            for _, client in self._idle.pop(key):
                client.close()


POOL = Pool(SystemClock())  # of this process
