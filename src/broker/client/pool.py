"""Connections that wait for their next user.

Spark keeps its worker processes from task to task, so what a module holds outlives a task: a
connection per broker is made once, not once per task. A worker is a fork: what its parent had open
is not used there.
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
    """Idle connections by address and client id; for any number of threads."""

    def __init__(self, clock: Clock) -> None:
        """Begin without any."""
        self._clock = clock
        self._lock = threading.Lock()
        self._process = os.getpid()
        # The last one is the latest to have come back, with when that was, in ms.
        self._idle: dict[_Key, list[tuple[int, Client]]] = {}

    @contextmanager
    def lease(self, address: Address, client_id: str) -> Iterator[Client]:
        """Lend a connection, a new one if none is idle; what fails meanwhile closes it.

        Raises:
            Unreachable: nobody answers at the address.
        """
        client = self._take((address, client_id)) or Client(address, client_id)
        try:
            yield client
        except BaseException:
            client.close()  # whether an answer is still to come, nobody knows
            raise
        self._give_back((address, client_id), client)

    def close(self, address: Address | None = None) -> None:
        """Close what is idle at an address, whose broker has gone or has started again, or all."""
        with self._lock:
            for key in [each for each in self._idle if address in {each[0], None}]:
                for _, client in self._idle.pop(key):
                    client.close()

    def _take(self, key: _Key) -> Client | None:
        oldest = self._clock.monotonic_ms() - CLIENT_IDLE_SECONDS * 1000
        with self._lock:
            if self._process != os.getpid():
                self._forget()
            idle = self._idle.get(key, [])
            while idle:
                since, client = idle.pop()
                if since >= oldest:
                    return client
                client.close()
        return None

    def _give_back(self, key: _Key, client: Client) -> None:
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if len(idle) >= CLIENT_IDLE_CONNECTIONS_MAX:
                client.close()
                return
            idle.append((self._clock.monotonic_ms(), client))

    def _forget(self) -> None:
        """Close this process's copies; the parent's connections stay as they are."""
        self._process = os.getpid()
        for idle in self._idle.values():
            for _, client in idle:
                client.close()
        self._idle.clear()


POOL = Pool(SystemClock())  # the one of this process
