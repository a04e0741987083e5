"""A pool of idle connections.

Spark reuses its worker processes for many tasks, so the pool of this module outlives a task:
connections are made once, not once per task. A worker is a forked process: it does not use the
connections of its parent.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from broker.client.connection import Client
from broker.model.address import Address
from broker.model.clock import Clock, SystemClock
from broker.model.limits import CLIENT_IDLE_CONNECTIONS_MAX, CLIENT_IDLE_SECONDS

_Key = tuple[Address, str]


class Pool:
    """Idle connections by address and client id; thread-safe."""

    def __init__(self, clock: Clock) -> None:
        """Start without connections."""
        self._clock = clock
        self._lock = threading.Lock()
        self._process = os.getpid()
        # For each connection the time of its return in ms; the last one was returned last.
        self._idle: dict[_Key, list[tuple[int, Client]]] = {}

    @contextmanager
    def lease(self, address: Address, client_id: str) -> Iterator[Client]:
        """Lease a connection, a new one if none is idle; an exception in the block closes it.

        Raises:
            Unreachable: no connection can be made.
        """
        client = self._take((address, client_id)) or Client(address, client_id)
        try:
            yield client
        except BaseException:
            client.close()  # a response may still be on its way
            raise
        self._return((address, client_id), client)

    def close(self, address: Address | None = None) -> None:
        """Close the idle connections to an address, whose broker stopped or restarted, or all."""
        with self._lock:
            for key in [each for each in self._idle if address in {each[0], None}]:
                for _, client in self._idle.pop(key):
                    client.close()

    def _take(self, key: _Key) -> Client | None:
        oldest = self._clock.monotonic_ms() - CLIENT_IDLE_SECONDS * 1000
        with self._lock:
            if self._process != os.getpid():
                self._close_copies()
            idle = self._idle.get(key, [])
            while idle:
                since, client = idle.pop()
                if since >= oldest:
                    return client
                client.close()
        return None

    def _return(self, key: _Key, client: Client) -> None:
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if len(idle) >= CLIENT_IDLE_CONNECTIONS_MAX:
                client.close()
                return
            idle.append((self._clock.monotonic_ms(), client))

    def _close_copies(self) -> None:
        """Close this process's copies of the parent's connections; the parent keeps its own."""
        self._process = os.getpid()
        for idle in self._idle.values():
            for _, client in idle:
                client.close()
        self._idle.clear()


POOL = Pool(SystemClock())  # of this process
