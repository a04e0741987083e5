"""Loads of other clients while the latency of a client with little traffic is measured.

A load is a separate program: `python -m benchmarks.end_to_end.background NAME --port PORT` creates
its topics, prints "ready", runs until its standard input ends, and deletes its topics.
"""

import argparse
import itertools
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from benchmarks.end_to_end.blocking_client import Client, check
from benchmarks.end_to_end.members import Members
from benchmarks.end_to_end.targets import HOST, BenchmarkError
from broker import codec

READY = "ready"
RETRIABLE = (3, 5, 6, 14, 15, 16)  # while a topic or coordinator is being loaded
READY_SECONDS = 60.0
NOW_MS = 1_700_000_000_000
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with timeout 0
MIB = 1 << 20
TOPICS_AT_ONCE = 10

Frames = Iterator[bytes]  # infinite


@dataclass
class Requester:
    """A connection that sends the next request after each response."""

    client: Client
    frames: Frames
    left: int = 0  # bytes of the response that are not received yet


def request_repeatedly(requesters: Sequence[Requester]) -> None:
    """Send requests on all connections, and discard the responses."""
    with selectors.DefaultSelector() as ready:
        for requester in requesters:
            ready.register(requester.client.socket, selectors.EVENT_READ, requester)
            requester.client.send(next(requester.frames))
        while True:
            for key, _ in ready.select():
                requester = key.data
                if requester.left == 0:
                    size = requester.client.socket.recv(4, socket.MSG_WAITALL)
                    if len(size) < 4:
                        raise BenchmarkError("the broker closed the connection")
                    requester.left = int.from_bytes(size)
                else:
                    requester.left -= len(requester.client.socket.recv(min(requester.left, MIB)))
                if requester.left == 0:
                    requester.client.send(next(requester.frames))


class Background:
    """A broker, and the topics created for one load."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        """Connect; topics are deleted when the stack closes."""
        self.port = port
        self._stack = stack
        self.client = self.connect()
        self._topics: list[str] = []
        stack.callback(self._delete_topics)

    def connect(self) -> Client:
        """Return a connection."""
        return self._stack.enter_context(Client(self.port))

    def requesters(self, count: int, frames: Callable[[int], Frames]) -> list[Requester]:
        """Return connections; `frames` returns the requests of each."""
        return [Requester(self.connect(), frames(number)) for number in range(count)]

    def topics(self, count: int, partitions: int, **config: str) -> list[str]:
        """Create topics, and return their names."""
        configs = [{"name": name.replace("_", "."), "value": v} for name, v in config.items()]
        names = [f"background-{os.getpid()}-{number}" for number in range(count)]
        for first in range(0, count, TOPICS_AT_ONCE):
            some = names[first : first + TOPICS_AT_ONCE]
            topics = [topic_body(name, partitions, configs) for name in some]
            body = {"topics": topics, "timeout_ms": 60_000}
            check(each["error_code"] for each in self.ask("CreateTopics", 5, body)["topics"])
            self._topics += some
        return names

    def ask(self, api: str, version: int, body: codec.Fields) -> codec.Fields:
        """Send a request and return the response."""
        return self.client.ask(api, version, body)

    def fill(self, topic: str, partitions: int, batch: bytes, count: int) -> None:
        """Append a batch to each partition several times."""
        for _ in range(count):
            for partition in range(partitions):
                body = produce_body(topic, [(partition, batch)])
                until_served(partial(self._produce, body))

    def _produce(self, body: codec.Fields) -> list[int]:
        return produced(self.ask("Produce", 7, body))

    def find_coordinator(self, group: str) -> None:
        """Wait for the coordinator of a group; Kafka creates its topic on the first request."""
        body = {"key": group, "key_type": 0}
        until_served(lambda: [self.ask("FindCoordinator", 3, body)["error_code"]])

    def commit(self, group: str, topic: str, partitions: int) -> None:
        """Commit an offset of each partition."""
        self.find_coordinator(group)
        until_served(
            lambda: [
                each["error_code"]
                for each in self.ask("OffsetCommit", 8, commit_body(group, topic, partitions))[
                    "topics"
                ][0]["partitions"]
            ]
        )

    def _delete_topics(self) -> None:
        for first in range(0, len(self._topics), TOPICS_AT_ONCE):
            names = self._topics[first : first + TOPICS_AT_ONCE]
            self.ask("DeleteTopics", 3, {"topic_names": names, "timeout_ms": 60_000})


def until_served(ask: Callable[[], Sequence[int]]) -> None:
    """Repeat a request until topic and coordinator are loaded."""
    deadline = time.monotonic() + READY_SECONDS
    while set(codes := ask()) & set(RETRIABLE):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    check(codes)


def frame(api: str, version: int, body: codec.Fields) -> bytes:
    """Return the frame of a request."""
    return codec.request_frame(api, version, body, correlation_id=1)


def always(api: str, version: int, body: codec.Fields) -> Callable[[int], Frames]:
    """Return frames that repeat one request."""
    request = frame(api, version, body)
    return lambda _: itertools.repeat(request)


def topic_body(name: str, partitions: int, configs: Sequence[codec.Fields] = ()) -> codec.Fields:
    """Return a topic for CreateTopics."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": list(configs),
    }


def produce_body(topic: str, batches: Sequence[tuple[int, bytes]]) -> codec.Fields:
    """Return the body of a Produce to partitions of one topic."""
    data = [{"index": partition, "records": batch} for partition, batch in batches]
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 60_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def produced(answer: codec.Fields) -> list[int]:
    """Return the error codes of a Produce response."""
    return [
        each["error_code"] for topic in answer["responses"] for each in topic["partition_responses"]
    ]


def commit_body(group: str, topic: str, partitions: int) -> codec.Fields:
    """Return the body of an OffsetCommit without a member."""
    offsets = [
        {"partition_index": number, "committed_offset": 7, "committed_metadata": ""}
        for number in range(partitions)
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": offsets}],
    }


def fetch_body(topic: str, partitions: Sequence[int], **fields: int) -> codec.Fields:
    """Return the body of a Fetch from the start of partitions of one topic."""
    wanted = [
        {"partition": number, "fetch_offset": 0, "partition_max_bytes": 16 * MIB}
        for number in partitions
    ]
    return {
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": 50 * MIB,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": wanted}],
        **fields,
    }


# ---- regular loads -------------------------------------------------------------------------------


def join_storm(broker: Background) -> Callable[[], None]:
    """Let 500 members join one group after another."""
    clients = [broker.connect() for _ in range(500)]

    def run() -> None:
        for number in itertools.count():
            Members(f"storm-{os.getpid()}-{number}", clients).join()

    broker.find_coordinator("storm")
    Members(f"storm-{os.getpid()}", clients[:1]).join()  # the coordinator is loaded
    return run


def offset_fetch(broker: Background) -> Callable[[], None]:
    """Fetch 5,000 committed offsets on 4 connections."""
    [topic] = broker.topics(1, 5_000)
    broker.commit("background", topic, 5_000)
    body = {"groups": [{"group_id": "background", "topics": None}], "require_stable": False}
    requesters = broker.requesters(4, always("OffsetFetch", 8, body))
    return lambda: request_repeatedly(requesters)


def offset_commit(broker: Background) -> Callable[[], None]:
    """Commit offsets of 100 partitions on 8 connections."""
    [topic] = broker.topics(1, 100)
    for number in range(8):
        broker.commit(f"background-{number}", topic, 100)
    requesters = broker.requesters(
        8,
        lambda number: itertools.repeat(
            frame("OffsetCommit", 8, commit_body(f"background-{number}", topic, 100))
        ),
    )
    return lambda: request_repeatedly(requesters)


def metadata(broker: Background) -> Callable[[], None]:
    """Request metadata of 2,000 partitions on 10 connections."""
    broker.topics(20, 100)
    requesters = broker.requesters(10, always("Metadata", 9, {"topics": None}))
    return lambda: request_repeatedly(requesters)


def topic_creation(broker: Background) -> Callable[[], None]:
    """Create and delete topics of 10 partitions on 2 connections."""

    def frames(number: int) -> Frames:
        for turn in itertools.count():
            name = f"created-{os.getpid()}-{number}-{turn}"
            topics = [topic_body(name, 10)]
            yield frame("CreateTopics", 5, {"topics": topics, "timeout_ms": 60_000})
            yield frame("DeleteTopics", 3, {"topic_names": [name], "timeout_ms": 60_000})

    requesters = broker.requesters(2, frames)
    return lambda: request_repeatedly(requesters)


def conversion(broker: Background) -> Callable[[], None]:
    """Fetch as consumers of Kafka 0.10 on 4 connections: every batch is converted."""
    [topic] = broker.topics(1, 4)
    [batch] = codec.encode([(b"key", b"x" * 100)] * 20, timestamp_ms=NOW_MS)
    broker.fill(topic, 4, batch, 250)
    requesters = broker.requesters(4, lambda n: always("Fetch", 2, fetch_body(topic, [n]))(n))
    return lambda: request_repeatedly(requesters)


def large_fetches(broker: Background) -> Callable[[], None]:
    """Fetch 16 MiB per request on 4 connections."""
    [topic] = broker.topics(1, 4)
    [batch] = codec.encode([(None, b"x" * 900_000)], timestamp_ms=NOW_MS)
    broker.fill(topic, 4, batch, 18)
    requesters = broker.requesters(4, lambda n: always("Fetch", 11, fetch_body(topic, [n]))(n))
    return lambda: request_repeatedly(requesters)


# ---- attacks -------------------------------------------------------------------------------------


def long_polls(broker: Background) -> Callable[[], None]:
    """Keep 5 connections waiting in Fetch v3 requests of 160 KB for 10,000 partitions."""
    [topic] = broker.topics(1, 10)
    body = fetch_body(topic, [n % 10 for n in range(10_000)], max_wait_ms=300_000)
    requesters = broker.requesters(5, always("Fetch", 3, body))
    return lambda: request_repeatedly(requesters)


def metadata_of_10000(broker: Background) -> Callable[[], None]:
    """Request metadata of 10,000 partitions on 100 connections."""
    broker.topics(10, 1_000)
    requesters = broker.requesters(100, always("Metadata", 9, {"topics": None}))
    return lambda: request_repeatedly(requesters)


def producer_ids(broker: Background) -> Callable[[], None]:
    """Produce on 4 connections, with another unassigned producer id in each request."""
    [topic] = broker.topics(1, 100)

    def frames(number: int) -> Frames:
        for producer_id in itertools.count(number, 4):
            [batch] = codec.encode(
                [(None, b"x")],
                timestamp_ms=NOW_MS,
                producer_id=1_000_000 + producer_id,
                producer_epoch=0,
                base_sequence=0,
            )
            batches = [(partition, batch) for partition in range(100)]
            yield frame("Produce", 7, produce_body(topic, batches))

    requesters = broker.requesters(4, frames)
    return lambda: request_repeatedly(requesters)


def tiny_segments(broker: Background) -> Callable[[], None]:
    """Write a segment with each batch in 100 partitions, on 2 connections."""
    [topic] = broker.topics(1, 100, segment_bytes="1024")
    [batch] = codec.encode([(None, b"x" * 1_000)], timestamp_ms=NOW_MS)
    batches = [(partition, batch) for partition in range(100)]
    requesters = broker.requesters(2, always("Produce", 7, produce_body(topic, batches)))
    return lambda: request_repeatedly(requesters)


def resets(broker: Background) -> Callable[[], None]:
    """Connect and reset, or send a refused request, as often as possible."""
    refused = struct.pack(">ihhih", 10, 999, 0, 1, -1)

    def run() -> None:
        for number in itertools.count():
            with socket.create_connection((HOST, broker.port)) as each, suppress(OSError):
                each.sendall(refused if number % 2 else frame("ApiVersions", 0, {}))
                if number % 2:
                    each.recv(1)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    return run


Load = Callable[[Background], Callable[[], None]]
LOADS: dict[str, Load] = {
    "join-storm": join_storm,
    "offset-fetch": offset_fetch,
    "offset-commit": offset_commit,
    "metadata": metadata,
    "topic-creation": topic_creation,
    "conversion": conversion,
    "large-fetches": large_fetches,
}
OURS = ("conversion",)  # Kafka 4 serves no Fetch below v4
ATTACKS: dict[str, Load] = {
    "long-polls": long_polls,
    "metadata-of-10000": metadata_of_10000,
    "producer-ids": producer_ids,
    "tiny-segments": tiny_segments,
    "resets": resets,
}


def run_until_stdin_ends(run: Callable[[], None]) -> None:
    """Run until standard input ends; exit if the load ends before."""
    is_over = threading.Event()

    def work() -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - any error ends the load
            if not is_over.is_set():  # otherwise connections are being closed
                sys.stderr.write(f"background: {error!r}\n")
                os._exit(1)

    os.sync()  # thousands of new files are one journal commit, which stalls whoever writes
    threading.Thread(target=work, daemon=True).start()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    sys.stdin.read()
    is_over.set()


def main(arguments: Sequence[str]) -> int:
    """Run a load until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*LOADS, *ATTACKS])
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        run_until_stdin_ends({**LOADS, **ATTACKS}[given.name](Background(given.port, stack)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
