"""What Cursus's clients send and how they read answers, as far as producing and polling goes.

Written from a description of the Java, Python and Go clients: the connections that they open, the
parts of a response that they read, and what makes them retry or give up.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.compressed import raw_snappy
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch

Compress = Callable[[bytes], bytes]
JAVA_RETRIES = 3
JAVA_TERMINAL = (
    "producer_fenced",
    "stale_producer_epoch",
    "idempotency gap",
    "idempotency error",
    "first message",
    "seqnum=1",
)
PYTHON_TERMINAL = (  # any other error of a batch is followed by the same batch
    "stale_producer_epoch",
    "stale producer epoch",
    "idempotency_gap",
    "idempotency gap",
    "idempotency error",
    "first message",
    "seqnum=1",
    "seqnum 1",
    "seq_num=1",
)


class GaveUpError(Exception):
    """The client closes itself or drops its batch."""


# ---- Java ----------------------------------------------------------------------------------------


def java_field(answer: str, key: str) -> str | None:
    """Scan for a key directly followed by its colon; a text ends at the next quotation mark."""
    sign = f'"{key}":'
    start = answer.find(sign)
    if start < 0:
        return None
    start += len(sign)
    if answer[start] == '"':
        return answer[start + 1 : answer.index('"', start + 1)]
    end = start
    while end < len(answer) and answer[end] in "-0123456789":
        end += 1
    return answer[start:end]


class JavaProducer:
    """Creates its topic, then has a connection per partition; five batches are in flight."""

    def __init__(
        self, address: str, topic: str, partitions: int, compress: Compress | None = None
    ) -> None:
        """Ask for the topic as it does: what CREATE answers it does not read."""
        self._address, self._topic, self._compress = address, topic, compress
        with CursusClient(address) as first:
            first.answer(envelope(f"CREATE topic={topic} partitions={partitions}", "admin"))
            listed = re.search(r"partitions=(\d+)", first.ask(f"LIST topic={topic}"))
            self.partitions = int(listed[1]) if listed else partitions
        with CursusClient(address) as plain:
            answer = plain.ask(envelope(f"METADATA topic={topic}"))
        (leaders,) = [each for each in answer.split(" ") if each.startswith("leaders=")]
        self._leaders = leaders.removeprefix("leaders=").split(",")
        self._connections: dict[int, CursusClient] = {}
        self._seqs: dict[int, int] = {}

    def _connection(self, partition: int) -> CursusClient:
        if partition not in self._connections:
            host, port = self._leaders[partition].split(":")  # any other response breaks it
            self._connections[partition] = CursusClient(f"{host}:{port}")
        return self._connections[partition]

    def body(self, partition: int, payloads: list[bytes], acks: bytes = b"1") -> bytes:
        """Return the next batch of a partition."""
        messages = []
        for payload in payloads:
            self._seqs[partition] = self._seqs.get(partition, 0) + 1
            messages.append(Message(payload, self._seqs[partition], b"java-1", epoch=1_700_000_000))
        made = batch(self._topic, partition, messages, acks=acks)
        return self._compress(made) if self._compress else made

    def send(self, partition: int, *bodies: bytes) -> None:
        """Send several batches on their connection before reading, in the given order."""
        connection = self._connection(partition)
        for body in bodies:
            connection.send(body)
        for body in bodies:
            self._settle(connection, body, (connection.frame() or b"").decode())

    def _settle(self, connection: CursusClient, body: bytes, answer: str) -> None:
        for _ in range(JAVA_RETRIES + 1):
            if "NOT_LEADER" not in answer and java_field(answer, "status") == "OK":
                return
            error = (java_field(answer, "error") or "").lower()
            if any(each in error for each in JAVA_TERMINAL):
                raise GaveUpError(error)
            answer = connection.ask(body)
        raise GaveUpError(f"dropped: {answer}")

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()


def java_polls(address: str, topic: str, partition: int, group: str) -> Iterator[list[bytes]]:
    """Poll as its consumer does: a connection per CONSUME, ignoring responses it does not know."""
    offset = 0
    with CursusClient(address) as client:
        wanted = f"FETCH_OFFSET topic={topic} partition={partition} group={group}"
        answer = client.ask(envelope(wanted))
        found = re.search(r"offset=(\d+)", answer)
        assert answer.startswith("OK")
        assert found
        offset = int(found[1])
    while True:
        command = (
            f"CONSUME topic={topic} partition={partition} offset={offset} group={group}"
            " generation=1 member=m isolation_level=read_committed"
        )
        with CursusClient(address) as client:
            messages = read_batch(client.answer(envelope(command))).messages
        if messages:
            offset = messages[-1].offset + 1
        yield [each.payload for each in messages]


# ---- Python --------------------------------------------------------------------------------------


class EndedError(GaveUpError):
    """The producer has ended: it sends nothing more."""


class PythonProducer:
    """Parses acknowledgements as JSON and sends again after whatever it does not understand."""

    def __init__(self, address: str, topic: str, compress: Compress | None = None) -> None:
        """Create the topic; then connections are made when they are needed."""
        self._address, self._topic, self._compress = address, topic, compress
        with CursusClient(address) as client:
            client.answer(envelope(f"CREATE topic={topic} partitions=1", "admin"))
            tokens = client.ask(envelope(f"METADATA topic={topic}")).split()
        assert any(each.startswith("leaders=") for each in tokens)
        self._seq = 0
        self.sent = 0  # batches, including repeats

    def send(self, payloads: list[bytes], acks: bytes = b"1", tries: int = 3) -> None:
        """Send one batch until it is acknowledged."""
        messages = []
        for payload in payloads:
            self._seq += 1
            messages.append(Message(payload, self._seq, b"py-1", epoch=1_700_000_000))
        body = batch(self._topic, 0, messages, acks=acks)
        answer = b""
        for _ in range(tries):
            self.sent += 1
            with CursusClient(self._address) as connection:
                answer = connection.answer(self._compress(body) if self._compress else body)
            try:
                read = json.loads(answer)
            except ValueError:
                continue  # not JSON: send again
            if read["status"] == "OK":
                return
            if any(each in read["error"].lower() for each in PYTHON_TERMINAL):
                raise EndedError(read["error"])
        raise GaveUpError(answer.decode())


# ---- Go ------------------------------------------------------------------------------------------


def go_ok(answer: str, *needed: str) -> dict[str, str]:
    """Parse strictly: OK, then only name=value, no name twice."""
    word, *tokens = answer.split(" ")
    assert word == "OK", answer
    fields: dict[str, str] = {}
    for token in tokens:
        name, equals, value = token.partition("=")
        assert equals, token
        assert name not in fields, name
        fields[name] = value
    assert set(needed) <= fields.keys()
    return fields


@contextmanager
def go_connection(address: str) -> Iterator[CursusClient]:
    """A connection that has negotiated."""
    with CursusClient(address) as client:
        agreed = client.ask(envelope("NEGOTIATE version=1 features=*"))
        go_ok(agreed, "protocol_version", "enabled", "unsupported")
        yield client


def go_offsets(answer: str) -> dict[int, dict[str, int]]:
    """LIST_OFFSETS, whose entries have exactly five parts."""
    found = {}
    for entry in go_ok(answer, "topic", "partitions", "offsets")["offsets"].split(","):
        place, *pairs = entry.split(":")
        assert len(pairs) == 4
        values = dict(pair.split("=") for pair in pairs)
        assert list(values) == ["earliest", "latest", "leo", "hwm"]
        found[int(place.removeprefix("P"))] = {name: int(text) for name, text in values.items()}
    return found


def go_ack(answer: bytes, epoch: int) -> int:
    """Read an acknowledgement: an error has a prefix; the epoch must be its own. Last offset."""
    text = answer.decode()
    assert not text.startswith("ERROR:"), text
    fields = json.loads(text)
    assert fields["status"] == "OK", text
    assert fields["producer_epoch"] == epoch
    assert fields["producer_id"]
    return int(fields["last_offset"])


def go_without_reading(client: CursusClient, bodies: list[bytes]) -> None:
    """Send acks=0 as its producer does: it never reads a response."""
    for body in bodies:
        client.send(body)


GZIP: Compress = gzip.compress
SNAPPY: Compress = raw_snappy
