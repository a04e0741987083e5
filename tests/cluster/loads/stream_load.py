"""Clients that append to the same streams, at any broker that answers, and what they saw."""

import re
import threading
import time
from collections.abc import Sequence
from random import Random

from tests.compatibility.cursus.event_stores import EventStore, RefusedError
from tests.histories.streams import Append, Look
from tests.support.broker_process import wait_until
from tests.support.cursus_client import ConnectionEndedError, envelope

KEYS = 6  # which all clients append to
_CONFLICT = re.compile(r"version_conflict current=(\d+) ")
_NO_ANSWER = (OSError, ConnectionEndedError, RefusedError)


class StreamClient:
    """Appends and reads in a thread, with one connection as long as it is good."""

    def __init__(self, name: str, addresses: Sequence[str], topic: str, seed: int) -> None:
        """Begin."""
        self.appends: list[Append] = []
        self.looks: list[Look] = []
        self.acknowledged = 0
        self._name, self._addresses, self._topic = name, addresses, topic
        self._rng = Random(seed)
        self._versions: dict[str, int] = {}  # as far as this client knows
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        turn = 0
        while not self._is_over.is_set():
            address = self._rng.choice(self._addresses)
            try:
                with EventStore(address, self._topic, self._name) as store:
                    while not self._is_over.is_set():
                        turn += 1
                        self._act(store, turn)
            except _NO_ANSWER:
                time.sleep(0.01)  # no leader now, or this broker is down

    def _act(self, store: EventStore, turn: int) -> None:
        key = self._key(turn)
        action = self._rng.random()
        begun = time.monotonic()
        if action < 0.1:
            version = store.version(key)
            self.looks.append(Look(key, version, begun, time.monotonic()))
        elif action < 0.2:
            payloads = [each.payload for each in store.read(key).events]
            version = len(payloads)
            self.looks.append(Look(key, version, begun, time.monotonic(), payloads))
        else:
            version = self._append(store, key, f"{self._name}-{turn}", begun)
        self._versions[key] = version

    def _key(self, turn: int) -> str:
        """Choose a stream: one of a few, or a new one that others may begin as well."""
        if self._rng.random() < 0.8:
            return f"key-{self._rng.randrange(KEYS)}"
        return f"new-{turn // 10}"

    def _append(self, store: EventStore, key: str, payload: str, begun: float) -> int:
        """Append an event; return the version that there is then."""
        version = self._versions.get(key, 0) + 1
        answer = ""
        try:
            # Sent once: what is tried again may be refused because the first try was appended.
            answer = store.connection.ask(envelope(store.append_command(key, version, payload)))
        finally:
            ended = time.monotonic()
            found = _CONFLICT.search(answer)
            current = None if found is None else int(found[1])
            is_acknowledged = answer.startswith(f"OK version={version} ")
            self.acknowledged += is_acknowledged
            sent = payload.encode()
            self.appends.append(Append(key, version, sent, begun, ended, is_acknowledged, current))
        if not is_acknowledged and current is None:
            raise RefusedError(answer)
        return version if current is None else current


def wait_for_appends(clients: Sequence[StreamClient], count: int) -> None:
    """Wait until so many more events are acknowledged."""

    def acknowledged() -> int:
        return sum(each.acknowledged for each in clients)

    before = acknowledged()
    wait_until(lambda: acknowledged() >= before + count, "events are appended")


def read_all(store: EventStore, clients: Sequence[StreamClient]) -> dict[str, list[bytes]]:
    """Return the payloads of all streams, whose versions are 1, 2, 3, ..."""
    found: dict[str, list[bytes]] = {}
    for key in {each.key for client in clients for each in client.appends}:
        events = store.read(key).events
        assert [each.aggregate_version for each in events] == [*range(1, len(events) + 1)]
        assert store.version(key) == len(events)
        found[key] = [each.payload for each in events]
    return found
