"""What the event stores of Cursus's clients send, and how they read answers.

Python's, as its package sends it: one connection that is kept, each command in an envelope without
a topic; a NOT_LEADER is followed. Java's and Go's send the same commands.
"""

import json
from typing import NamedTuple, Self

from tests.support.cursus_client import CursusClient, Message, envelope, read_batch

RETRIES = 6


class RefusedError(Exception):
    """The broker's error, which the client raises."""


class Appended(NamedTuple):
    """The answer to an append."""

    version: int
    offset: int
    partition: int


class Stream(NamedTuple):
    """What a stream has: the payload of its snapshot by its version, and the events after it."""

    snapshot: tuple[int, str] | None
    events: list[Message]


class EventStore:
    """One client and its topic."""

    def __init__(self, address: str, topic: str, producer_id: str = "store") -> None:
        """Connect with the first command."""
        self._address, self.topic, self._producer_id = address, topic, producer_id
        self._connection: CursusClient | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def connection(self) -> CursusClient:
        """The connection, made if need be."""
        if self._connection is None:
            self._connection = CursusClient(self._address)
        return self._connection

    def create(self, partitions: int, *, others: str = "") -> str:
        """Create the topic."""
        return self._ask(
            f"CREATE topic={self.topic} partitions={partitions} event_sourcing=true{others}"
        )

    def append(self, key: str, version: int, payload: str, metadata: str = "") -> Appended:
        """Append an event; version, offset and partition must be in the answer."""
        answer = self._ask(self.append_command(key, version, payload, metadata))
        fields = dict(part.split("=", 1) for part in answer.split()[1:])
        return Appended(int(fields["version"]), int(fields["offset"]), int(fields["partition"]))

    def append_command(self, key: str, version: int, payload: str, metadata: str = "") -> str:
        """Return the text of an append."""
        more = f" metadata={metadata}" if metadata else ""
        return (
            f"APPEND_STREAM topic={self.topic} key={key} version={version}"
            f" event_type=Happened schema_version=1 producerId={self._producer_id}{more}"
            f" message={payload}"
        )

    def read(self, key: str, from_version: int = 0, *, limit: int = 0) -> Stream:
        """Read a stream: a description and a batch."""
        command = f"READ_STREAM topic={self.topic} key={key}"
        if from_version > 0:
            command += f" from_version={from_version}"
        if limit:
            command += f" limit={limit}"
        description = json.loads(self.connection.answer(envelope(command)))
        if description["status"] != "OK":
            raise RefusedError(description["error"])
        frame = self.connection.frame()
        assert frame is not None
        batch = read_batch(frame)
        assert description["topic"] == self.topic == batch.topic.decode()
        assert description["key"] == key
        assert description["partition"] == batch.partition
        assert description["count"] == len(batch.messages)
        found = description.get("snapshot")
        snapshot = (found["version"], found["payload"]) if found else None
        return Stream(snapshot, batch.messages)

    def version(self, key: str) -> int:
        """Return a stream's version."""
        answer = self._ask(f"STREAM_VERSION topic={self.topic} key={key}")
        return int(answer.removeprefix("OK version="))

    def save_snapshot(self, key: str, version: int, payload: str) -> str:
        """Store a snapshot."""
        return self._ask(
            f"SAVE_SNAPSHOT topic={self.topic} key={key} version={version} message={payload}"
        )

    def read_snapshot(self, key: str) -> tuple[int, str] | None:
        """Return the last snapshot."""
        answer = self._ask(f"READ_SNAPSHOT topic={self.topic} key={key}")
        if answer == "OK snapshot=null":
            return None
        found = json.loads(answer.removeprefix("OK snapshot="))
        return found["version"], found["payload"]

    def _ask(self, command: str) -> str:
        answer = self.connection.ask(envelope(command))
        for _ in range(RETRIES):
            if "NOT_LEADER LEADER_IS" not in answer:
                break
            self._address = answer.split("LEADER_IS", 1)[1].split()[0]
            self.close()
            answer = self.connection.ask(envelope(command))
        if not answer.startswith("OK"):
            raise RefusedError(answer)
        return answer
