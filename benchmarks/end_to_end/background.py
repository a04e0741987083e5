"""What other clients do to a broker while a quiet one is measured beside them.

A load is a program of its own: `python -m benchmarks.end_to_end.background NAME --port PORT` makes
what it needs, prints "ready", goes on until its standard input ends, and removes what it made.
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
RETRIABLE = (3, 5, 6, 14, 15, 16)  # while a topic or coordinator begins
READY_SECONDS = 60.0
NOW_MS = 1_700_000_000_000
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, no time
MIB = 1 << 20
TOPICS_AT_ONCE = 10

Frames = Iterator[bytes]  # without end


@dataclass
class Asker:
    """A connection that sends the next request when the one before is answered."""

    client: Client
    frames: Frames
    left: int = 0  # bytes of the answer that are still to come


def ask_for_ever(askers: Sequence[Asker]) -> None:
    """Ask on all connections, and read what is answered without looking at it."""
    with selectors.DefaultSelector() as ready:
        for asker in askers:
            ready.register(asker.client.socket, selectors.EVENT_READ, asker)
            asker.client.send(next(asker.frames))
        while True:
            for key, _ in ready.select():
                asker = key.data
                if asker.left == 0:
                    size = asker.client.socket.recv(4, socket.MSG_WAITALL)
                    if len(size) < 4:
                        raise BenchmarkError("the broker closed the connection")
                    asker.left = int.from_bytes(size)
                else:
                    asker.left -= len(asker.client.socket.recv(min(asker.left, MIB)))
                if asker.left == 0:
                    asker.client.send(next(asker.frames))


class Background:
    """A broker, and what is made on it for one load."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        """Connect; what the load made is removed when the stack closes."""
        self.port = port
        self._stack = stack
        self.client = self.connect()
        self._topics: list[str] = []
        stack.callback(self._delete_topics)

    def connect(self) -> Client:
        """Return a connection."""
        return self._stack.enter_context(Client(self.port))

    def askers(self, count: int, frames: Callable[[int], Frames]) -> list[Asker]:
        """Return so many connections; `frames` says what each of them asks."""
        return [Asker(self.connect(), frames(number)) for number in range(count)]

    def topics(self, count: int, partitions: int, **config: str) -> list[str]:
        """Make topics, and return their names."""
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
        """Ask once."""
        return self.client.ask(api, version, body)

    def fill(self, topic: str, partitions: int, batch: bytes, count: int) -> None:
        """Append a batch to each partition so many times."""
        for _ in range(count):
            for partition in range(partitions):
                body = produce_body(topic, [(partition, batch)])
                until_served(partial(self._produce, body))

    def _produce(self, body: codec.Fields) -> list[int]:
        return produced(self.ask("Produce", 7, body))

    def find_coordinator(self, group: str) -> None:
        """Wait for the coordinator of a group: Kafka makes its topic when it is asked for one."""
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
    """Ask until nothing is still beginning."""
    deadline = time.monotonic() + READY_SECONDS
    while set(codes := ask()) & set(RETRIABLE):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    check(codes)


def frame(api: str, version: int, body: codec.Fields) -> bytes:
    """Return a request."""
    return codec.request_frame(api, version, body, correlation_id=1)


def always(api: str, version: int, body: codec.Fields) -> Callable[[int], Frames]:
    """Ask the same again and again."""
    request = frame(api, version, body)
    return lambda _: itertools.repeat(request)


def topic_body(name: str, partitions: int, configs: Sequence[codec.Fields] = ()) -> codec.Fields:
    """Return a topic of CreateTopics."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": list(configs),
    }


def produce_body(topic: str, batches: Sequence[tuple[int, bytes]]) -> codec.Fields:
    """Return a Produce of batches in partitions of one topic."""
    data = [{"index": partition, "records": batch} for partition, batch in batches]
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 60_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def produced(answer: codec.Fields) -> list[int]:
    """Return the errors of a Produce."""
    return [
        each["error_code"] for topic in answer["responses"] for each in topic["partition_responses"]
    ]


def commit_body(group: str, topic: str, partitions: int) -> codec.Fields:
    """Return an OffsetCommit of somebody who is no member."""
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
    """Return a Fetch from the start of partitions of one topic."""
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


# ---- loads of clients that mean well -------------------------------------------------------------


def join_storm(broker: Background) -> Callable[[], None]:
    """500 members join a group, and then another one."""
    clients = [broker.connect() for _ in range(500)]

    def run() -> None:
        for number in itertools.count():
            Members(f"storm-{os.getpid()}-{number}", clients).join()

    broker.find_coordinator("storm")
    Members(f"storm-{os.getpid()}", clients[:1]).join()  # the coordinator has begun
    return run


def offset_fetch(broker: Background) -> Callable[[], None]:
    """4 connections ask for 5,000 committed offsets."""
    [topic] = broker.topics(1, 5_000)
    broker.commit("background", topic, 5_000)
    body = {"groups": [{"group_id": "background", "topics": None}], "require_stable": False}
    askers = broker.askers(4, always("OffsetFetch", 8, body))
    return lambda: ask_for_ever(askers)


def offset_commit(broker: Background) -> Callable[[], None]:
    """8 connections commit offsets of 100 partitions."""
    [topic] = broker.topics(1, 100)
    for number in range(8):
        broker.commit(f"background-{number}", topic, 100)
    askers = broker.askers(
        8,
        lambda number: itertools.repeat(
            frame("OffsetCommit", 8, commit_body(f"background-{number}", topic, 100))
        ),
    )
    return lambda: ask_for_ever(askers)


def metadata(broker: Background) -> Callable[[], None]:
    """10 connections ask for all topics: 2,000 partitions."""
    broker.topics(20, 100)
    askers = broker.askers(10, always("Metadata", 9, {"topics": None}))
    return lambda: ask_for_ever(askers)


def topic_creation(broker: Background) -> Callable[[], None]:
    """2 connections create topics of 10 partitions and delete them."""

    def frames(number: int) -> Frames:
        for turn in itertools.count():
            name = f"created-{os.getpid()}-{number}-{turn}"
            topics = [topic_body(name, 10)]
            yield frame("CreateTopics", 5, {"topics": topics, "timeout_ms": 60_000})
            yield frame("DeleteTopics", 3, {"topic_names": [name], "timeout_ms": 60_000})

    askers = broker.askers(2, frames)
    return lambda: ask_for_ever(askers)


def conversion(broker: Background) -> Callable[[], None]:
    """4 connections fetch as consumers of Kafka 0.10 do: every batch is converted."""
    [topic] = broker.topics(1, 4)
    [batch] = codec.encode([(b"key", b"x" * 100)] * 20, timestamp_ms=NOW_MS)
    broker.fill(topic, 4, batch, 250)
    askers = broker.askers(4, lambda n: always("Fetch", 2, fetch_body(topic, [n]))(n))
    return lambda: ask_for_ever(askers)


def large_fetches(broker: Background) -> Callable[[], None]:
    """4 connections fetch 16 MiB each time."""
    [topic] = broker.topics(1, 4)
    [batch] = codec.encode([(None, b"x" * 900_000)], timestamp_ms=NOW_MS)
    broker.fill(topic, 4, batch, 18)
    askers = broker.askers(4, lambda n: always("Fetch", 11, fetch_body(topic, [n]))(n))
    return lambda: ask_for_ever(askers)


# ---- attacks -------------------------------------------------------------------------------------


def long_polls(broker: Background) -> Callable[[], None]:
    """5 connections wait in Fetch v3 of 10,000 partitions, 160 KB each."""
    [topic] = broker.topics(1, 10)
    body = fetch_body(topic, [n % 10 for n in range(10_000)], max_wait_ms=300_000)
    askers = broker.askers(5, always("Fetch", 3, body))
    return lambda: ask_for_ever(askers)


def metadata_of_10000(broker: Background) -> Callable[[], None]:
    """100 connections ask for all topics: 10,000 partitions."""
    broker.topics(10, 1_000)
    askers = broker.askers(100, always("Metadata", 9, {"topics": None}))
    return lambda: ask_for_ever(askers)


def producer_ids(broker: Background) -> Callable[[], None]:
    """4 connections produce with an id that nobody gave out, another one each time."""
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

    askers = broker.askers(4, frames)
    return lambda: ask_for_ever(askers)


def tiny_segments(broker: Background) -> Callable[[], None]:
    """2 connections write a segment with each batch, in 100 partitions."""
    [topic] = broker.topics(1, 100, segment_bytes="1024")
    [batch] = codec.encode([(None, b"x" * 1_000)], timestamp_ms=NOW_MS)
    batches = [(partition, batch) for partition in range(100)]
    askers = broker.askers(2, always("Produce", 7, produce_body(topic, batches)))
    return lambda: ask_for_ever(askers)


def resets(broker: Background) -> Callable[[], None]:
    """One client connects and resets, or asks for what is refused, as often as it can."""
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


def run_until_told(run: Callable[[], None]) -> None:
    """Run until standard input ends; a load that ends before, ends the program."""
    is_over = threading.Event()

    def work() -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the load has ended
            if not is_over.is_set():  # else its connections are being closed
                sys.stderr.write(f"background: {error!r}\n")
                os._exit(1)

    threading.Thread(target=work, daemon=True).start()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    sys.stdin.read()
    is_over.set()


def main(words: Sequence[str]) -> int:
    """Run a load until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*LOADS, *ATTACKS])
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(words)
    with ExitStack() as stack:
        run_until_told({**LOADS, **ATTACKS}[given.name](Background(given.port, stack)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
