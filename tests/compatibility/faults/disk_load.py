"""A short mixed load on two topics of a broker whose disk may fail, and what must be left.

Each round writes small and large batches, reads, looks up timestamps, commits offsets, aborts and
commits transactions, deletes records, and creates and deletes a topic. What was acknowledged is
remembered. A part of the broker that has lost its disk may answer with a storage error or one on
which the client retries; any other error is a fault of the broker.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support import wire_requests
from tests.support.broker_process import wait_until
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import Batch, read_batches

VICTIM, OTHER = "victim", "other"
TOPICS = (VICTIM, OTHER)
STORAGE_ERROR = 56
# Errors that a client of a failed disk may get: from the partition; from a coordinator, or a
# create, whose partition has failed.
OF_A_PARTITION = (0, 6, STORAGE_ERROR)  # 6: still loading
OF_A_COORDINATOR = (0, 14, 15, 16, STORAGE_ERROR)
LARGE = 400_000  # bytes of a value: three fill a segment of 1 MiB, and they leave by sendfile
TRANSACTIONAL = 0x10
TRANSACTION_END_TIMEOUT_S = 5.0
MIB = 1 << 20


@dataclass
class Kept:
    """What the broker has acknowledged."""

    values: dict[tuple[str, int], bytes] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)  # records below these were deleted
    committed: dict[str, int] = field(default_factory=dict)  # next offset of a group, by topic
    aborted: list[tuple[str, int, int]] = field(default_factory=list)  # topic, offset, producer

    def copy(self) -> "Kept":
        """Return a copy to which more load can be added."""
        return Kept(dict(self.values), dict(self.starts), dict(self.committed), list(self.aborted))


class Load:
    """The load of one client; `kept` is what was acknowledged to it."""

    def __init__(self, client: WireClient, kept: Kept, suffix: str) -> None:
        """Write through a connection; `suffix` distinguishes the values of this load."""
        self._client = client
        self.kept = kept
        self._suffix = suffix
        self._number = 0
        self.refused: dict[str, int] = {}  # topic → its last error

    def rounds(self, count: int) -> None:
        """Run that many rounds."""
        for _ in range(count):
            for topic in TOPICS:
                self.write(topic, 10)
                self.write(topic, LARGE)
                self.read(topic)
                self.transact(topic, commits=False)
                self.transact(topic, commits=True)
                self.commit(topic)
            self.make_and_delete()
            self.delete_records(VICTIM)

    def write(self, topic: str, size: int) -> int:
        """Write a batch and return the error code."""
        value = self._value(size)
        code, offset = wire_requests.produce(self._client, topic, Batch((value,)).encode())
        self._allow(code, topic, OF_A_PARTITION)
        if code == 0:
            self.kept.values[topic, offset] = value
        return code

    def read(self, topic: str) -> None:
        """Read the first and last records, few and many bytes of them, and look up a timestamp."""
        offsets = [offset for name, offset in self.kept.values if name == topic]
        start = self.kept.starts.get(topic, 0)
        for offset in {max(min(offsets), start), max(offsets)}:
            for size in (100, 2 * MIB):
                self._read_from(topic, offset, size)
        answer = wire_requests.list_offset(self._client, topic, 0, 1)
        self._allow(answer["error_code"], topic, OF_A_PARTITION)

    def _read_from(self, topic: str, offset: int, size: int) -> None:
        body = wire_requests.fetch_body(topic, 0, offset, size) | {"isolation_level": 1}
        try:
            answer = self._client.request("Fetch", 11, body)
        except ConnectionClosedError:
            # The response had begun when the disk failed; the next request gets the error.
            assert topic == VICTIM, "only one topic's disk fails"
            self._client.reconnect()
            self._read_from(topic, offset, size)
            return
        found = answer["responses"][0]["partitions"][0]
        self._allow(found["error_code"], topic, OF_A_PARTITION)
        try:
            batches = list(read_batches(found["records"] or b""))
        except AssertionError:
            # Bytes that the disk did not return are sent as zeros, which no client takes for
            # records; the next request finds the partition offline.
            assert topic == VICTIM, "only one topic's disk fails"
            self._read_from(topic, offset, size)
            return
        for batch in batches:
            kept = self.kept.values.get((topic, batch.base_offset))
            assert kept is None or kept == batch.values[0]

    def commit(self, topic: str) -> None:
        """Commit an offset and ask for it."""
        offset = self.kept.committed.get(topic, 0) + 1
        code = wire_requests.commit_offset(self._client, topic, topic, offset)
        assert code in OF_A_COORDINATOR, f"commit of {topic}: {code}"
        if code == 0:
            self.kept.committed[topic] = offset
        code, found = wire_requests.committed_offset(self._client, topic, topic)
        assert code in OF_A_COORDINATOR, f"committed offset of {topic}: {code}"
        if code == 0:
            assert found >= self.kept.committed.get(topic, -1)

    def transact(self, topic: str, *, commits: bool) -> None:
        """Write a batch in a transaction, as far as the broker allows."""
        # If a log is offline, the previous transaction may never end.
        patience_s = 0.1 if topic in self.refused else TRANSACTION_END_TIMEOUT_S
        producer = init_transaction(self._client, topic, patience_s)
        if producer is None:
            return
        about = {
            "transactional_id": topic,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
        }
        topics = [{"name": topic, "partitions": [0]}]
        added = self._client.request("AddPartitionsToTxn", 3, _v3(about, topics))
        [result] = added["results_by_topic_v3_and_below"][0]["results_by_partition"]
        if result["partition_error_code"]:
            return
        value = self._value(10)
        batch = Batch(
            (value,),
            attributes=TRANSACTIONAL,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
        )
        body = wire_requests.produce_body(topic, [(0, batch.encode())])
        answer = self._client.request(
            "Produce", wire_requests.PRODUCE_VERSION, {**body, "transactional_id": topic}
        )
        code, offset = wire_requests.produced(answer)
        self._allow(code, topic, OF_A_PARTITION)
        ended = self._client.request("EndTxn", 3, {**about, "committed": commits and code == 0})
        if code == 0:
            self.kept.values[topic, offset] = value
            if ended["error_code"] == 0 and not commits:
                self.kept.aborted.append((topic, offset, producer[0]))

    def make_and_delete(self) -> None:
        """Create a topic, write to it, delete it; the disk may refuse each."""
        name = f"made-{self._suffix}-{self._number}"
        new = {"name": name, "num_partitions": 1, "replication_factor": 1}
        made = self._client.request("CreateTopics", 5, {"topics": [new], "timeout_ms": 10_000})
        [answer] = made["topics"]
        assert answer["error_code"] in (0, STORAGE_ERROR), answer
        if answer["error_code"] == 0:
            code, _ = wire_requests.produce(self._client, name, Batch().encode())
            assert code in OF_A_PARTITION, code
        body = {"topic_names": [name], "timeout_ms": 10_000}
        [gone] = self._client.request("DeleteTopics", 5, body)["responses"]
        assert gone["error_code"] in (0, 3, STORAGE_ERROR), gone

    def delete_records(self, topic: str) -> None:
        """Delete the oldest remaining record."""
        start = self.kept.starts.get(topic, 0) + 1
        partition = {"partition_index": 0, "offset": start}
        body = {"topics": [{"name": topic, "partitions": [partition]}], "timeout_ms": 10_000}
        answer = self._client.request("DeleteRecords", 1, body)["topics"][0]["partitions"][0]
        self._allow(answer["error_code"], topic, OF_A_PARTITION)
        self.kept.starts[topic] = start  # whatever the response, they may be deleted

    def _value(self, size: int) -> bytes:
        self._number += 1
        return f"{self._suffix} {self._number} ".encode().ljust(size, b"x")

    def _allow(self, code: int, topic: str, codes: Iterable[int]) -> None:
        if topic == VICTIM:
            assert code in codes, f"{topic} answers {code}"
        else:
            assert code == 0, f"{topic} answers {code}, its disk is well"
        if code:
            self.refused[topic] = code


def _v3(about: dict[str, Any], topics: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"v3_and_below_{name}": value for name, value in about.items()} | {
        "v3_and_below_topics": topics
    }


def init_transaction(
    client: WireClient, name: str, patience_s: float = TRANSACTION_END_TIMEOUT_S
) -> tuple[int, int] | None:
    """Initialise a transactional producer: return its id and epoch, or None if it is refused."""
    body = {"transactional_id": name, "transaction_timeout_ms": 60_000}
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        answer = client.request("InitProducerId", 1, body)
        code = answer["error_code"]
        if code == 0:
            return answer["producer_id"], answer["producer_epoch"]
        if code != 51:  # the previous transaction is still ending
            assert code in OF_A_COORDINATOR, f"transactional id {name}: {code}"
            return None
    return None


# ---- what is left ------------------------------------------------------------------------------


def check_all_is_there(client: WireClient, kept: Kept) -> None:
    """Fail unless a broker on a healthy disk has everything that was acknowledged."""
    for topic in TOPICS:
        wait_until(lambda: wire_requests.is_led(client, topic, 1), f"{topic} is served")  # noqa: B023
        wait_until(lambda: init_transaction(client, topic) is not None, f"{topic} can continue")  # noqa: B023
        found = read_all(client, topic)
        start = kept.starts.get(topic, 0)
        for (name, offset), value in kept.values.items():
            if name == topic and offset >= start:
                assert found.get(offset) == value, f"{topic} has lost {offset}: {value[:30]!r}"
        committed = kept.committed.get(topic)
        if committed is not None:
            wait_until(lambda: _commits(client, topic)[0] == 0, "the group is served")  # noqa: B023
            assert _commits(client, topic)[1] >= committed
        check_aborted(client, topic, kept)


def _commits(client: WireClient, topic: str) -> tuple[int, int]:
    return wire_requests.committed_offset(client, topic, topic)


def check_aborted(client: WireClient, topic: str, kept: Kept) -> None:
    """Fail if a fetch of committed records does not list an aborted one as aborted."""
    for name, offset, producer_id in kept.aborted:
        if name != topic or offset < kept.starts.get(topic, 0):
            continue
        body = wire_requests.fetch_body(topic, 0, offset, 100) | {"isolation_level": 1}
        found = client.request("Fetch", 11, body)["responses"][0]["partitions"][0]
        aborted = [
            each["first_offset"]
            for each in found["aborted_transactions"] or ()
            if each["producer_id"] == producer_id
        ]
        assert offset in aborted, f"the aborted record {offset} of {topic} is shown"


def read_all(client: WireClient, topic: str) -> dict[int, bytes | None]:
    """Return the first value of every readable batch by its offset; there are no gaps."""
    found: dict[int, bytes | None] = {}
    offset = wire_requests.list_offset(client, topic, 0, -2)["offset"]
    end = wire_requests.end_offset(client, topic)
    while offset < end:
        batches = list(read_batches(wire_requests.fetch(client, topic, 0, offset)))
        assert batches, f"nothing at {offset} of {topic}, which ends at {end}"
        for batch in batches:
            assert batch.base_offset <= offset, f"a hole at {offset} of {topic}"
            found[batch.base_offset] = batch.values[0]
            offset = batch.base_offset + len(batch.values)
    return found
