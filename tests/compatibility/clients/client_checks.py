"""What every Kafka client library must be able to do here: one list of checks for all.

A library's test file gives a `client` fixture and a class that inherits `ClientChecks`.
"""

import queue
import random
import threading
import uuid
from collections.abc import Callable

import pytest

from tests.compatibility.clients.client import EARLIEST, LATEST, Client, Member, Record
from tests.compatibility.clients.group_member import GroupMember
from tests.support import wire_requests
from tests.support.broker_process import Broker, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import CODECS, codec_numbers

YEAR_2020_MS = 1_577_836_800_000
GROUP_TIMEOUT_S = 120

StartMember = Callable[[str, str, str, str], GroupMember]


def numbered(count: int, *, partition: int = 0, first: int = 0) -> list[Record]:
    """Return records whose values are their indices."""
    return [Record(b"%d" % i, partition=partition) for i in range(first, first + count)]


def values(records: list[Record]) -> list[bytes | None]:
    """Return the values only."""
    return [record.value for record in records]


class ClientChecks:
    """The checks; each name states what must hold."""

    @pytest.mark.parametrize("compression", CODECS)
    def test_records_of_each_compression_come_back(
        self, client: Client, topic: str, compression: str, broker: Broker
    ) -> None:
        client.create_topic(topic)
        sent = [Record(b"value %d " % i * 20, key=b"k%d" % i) for i in range(200)]

        client.produce(topic, sent, compression=compression)

        read = client.consume(topic, EARLIEST, len(sent))
        assert [(r.key, r.value) for r in read] == [(r.key, r.value) for r in sent]
        assert [r.offset for r in read] == list(range(len(sent)))
        # A client that finds no common version sends uncompressed without an error.
        with WireClient(broker.address) as wire:
            stored = wire_requests.fetch(wire, topic, 0, 0)
        assert CODECS[compression] in codec_numbers(stored)

    @pytest.mark.parametrize(
        ("compression", "stored"), [("gzip", "zstd"), ("lz4", "uncompressed"), ("none", "snappy")]
    )
    def test_a_topic_decides_on_compression_and_time(
        self, client: Client, topic: str, broker: Broker, compression: str, stored: str
    ) -> None:
        with WireClient(broker.address) as wire:
            wire_requests.create_topic(
                wire, topic, compression_type=stored, message_timestamp_type="LogAppendTime"
            )
            sent = [Record(b"value %d " % i * 20, timestamp=YEAR_2020_MS + i) for i in range(500)]

            client.produce(topic, sent, compression=compression, idempotent=True)

            codecs = codec_numbers(wire_requests.fetch(wire, topic, 0, 0))
        read = client.consume(topic, EARLIEST, len(sent))
        assert values(read) == values(sent)
        assert [r.offset for r in read] == list(range(len(sent)))
        assert all((r.timestamp or 0) > YEAR_2020_MS + len(sent) for r in read)
        assert set(codecs) == {CODECS.get(stored, 0)}

    def test_keys_headers_and_nulls_come_back(self, client: Client, topic: str) -> None:
        client.create_topic(topic)
        sent = [
            Record(
                b"value", key=b"key", headers=(("a", b"1"), ("a", b"2"), ("bytes", b"\x00\xff"))
            ),
            Record(b"no key"),
            Record(None, key=b"tombstone"),
            Record(b"", key=b""),
            Record(b"empty header", headers=(("", b""),)),
            Record("ключ".encode(), key="ключ".encode(), headers=(("имя", "да".encode()),)),
        ]

        client.produce(topic, sent)

        read = client.consume(topic, EARLIEST, len(sent))
        assert [(r.key, r.value, r.headers) for r in read] == [
            (r.key, r.value, r.headers) for r in sent
        ]

    def test_timestamps_come_back(self, client: Client, topic: str) -> None:
        client.create_topic(topic)
        stamps = [YEAR_2020_MS, YEAR_2020_MS + 5, YEAR_2020_MS + 1, YEAR_2020_MS + 86_400_000]

        client.produce(topic, [Record(b"x", timestamp=stamp) for stamp in stamps])

        assert [r.timestamp for r in client.consume(topic, EARLIEST, len(stamps))] == stamps

    def test_records_of_one_megabyte_come_back(self, client: Client, topic: str) -> None:
        client.create_topic(topic)
        random_bytes = random.Random(1)  # Incompressible, the same in each run.
        sent = [Record(random_bytes.randbytes(1_000_000)) for _ in range(3)]

        client.produce(topic, sent)

        assert values(client.consume(topic, EARLIEST, len(sent))) == values(sent)

    def test_a_thousand_records_over_sixteen_partitions_keep_their_order(
        self, client: Client, topic: str
    ) -> None:
        client.create_topic(topic, partitions=16)
        sent = [Record(b"%d" % i, partition=i % 16) for i in range(1_000)]

        client.produce(topic, sent)

        read = client.consume(topic, EARLIEST, len(sent), partitions=16)
        assert len(read) == len(sent)
        for partition in range(16):
            of_partition = [record for record in read if record.partition == partition]
            assert values(of_partition) == values(sent[partition::16])

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_each_level_of_acks_stores_the_records(
        self, client: Client, topic: str, acks: str
    ) -> None:
        client.create_topic(topic)
        sent = numbered(50)

        offsets = client.produce(topic, sent, acks=acks)

        assert values(client.consume(topic, EARLIEST, len(sent))) == values(sent)
        if acks != "0":
            assert offsets == list(range(len(sent)))

    def test_an_idempotent_producer_stores_each_record_once_in_order(
        self, client: Client, topic: str
    ) -> None:
        client.create_topic(topic)

        first = client.produce(topic, numbered(300), idempotent=True)
        second = client.produce(topic, numbered(10, first=300), idempotent=True)

        assert first + second == list(range(310))
        assert values(client.consume(topic, EARLIEST, 310)) == values(numbered(310))

    def test_reading_starts_at_an_offset(self, client: Client, topic: str) -> None:
        client.create_topic(topic)
        client.produce(topic, numbered(100))

        read = client.consume(topic, 37, 63)

        assert [r.offset for r in read] == list(range(37, 100))
        assert values(read) == values(numbered(63, first=37))

    def test_reading_from_latest_sees_only_what_comes_later(
        self, client: Client, topic: str
    ) -> None:
        client.create_topic(topic)
        client.produce(topic, [Record(b"before")] * 10)

        read = client.consume(
            topic, LATEST, 1, when_idle=lambda: client.produce(topic, [Record(b"after")])
        )

        assert set(values(read)) == {b"after"}

    @pytest.mark.parametrize("compression", CODECS)
    def test_a_time_is_found_inside_batches(
        self, client: Client, topic: str, compression: str
    ) -> None:
        client.create_topic(topic)
        sent = [Record(b"%d" % i * 50, timestamp=YEAR_2020_MS + 1_000 * i) for i in range(20)]
        client.produce(topic, sent, compression=compression)

        assert client.offset_for_time(topic, YEAR_2020_MS - 1) == 0
        assert client.offset_for_time(topic, YEAR_2020_MS + 7_000) == 7
        assert client.offset_for_time(topic, YEAR_2020_MS + 7_001) == 8
        assert client.offset_for_time(topic, YEAR_2020_MS + 20_000) is None

    def test_a_topic_is_created_listed_and_deleted(self, client: Client, topic: str) -> None:
        client.create_topic(topic, partitions=3)
        wait_until(lambda: client.topics().get(topic) == 3, "topic is listed")

        client.delete_topic(topic)

        wait_until(lambda: topic not in client.topics(), "topic is deleted")

    def test_a_topic_created_again_is_empty(self, client: Client, topic: str) -> None:
        client.create_topic(topic)
        client.produce(topic, numbered(20))
        client.delete_topic(topic)
        wait_until(lambda: topic not in client.topics(), "topic is deleted")

        client.create_topic(topic)
        offsets = client.produce(topic, [Record(b"new topic")])

        assert offsets == [0]
        assert values(client.consume(topic, EARLIEST, 1)) == [b"new topic"]

    def test_producing_to_an_unknown_topic_creates_it(self, client: Client, topic: str) -> None:
        client.produce(topic, [Record(b"first")])

        assert values(client.consume(topic, EARLIEST, 1)) == [b"first"]
        assert client.topics()[topic] == 1

    def test_metadata_names_the_address_that_was_dialled(
        self, client: Client, broker: Broker
    ) -> None:
        assert client.brokers() == [broker.address]

    @pytest.mark.timeout(400)
    def test_a_group_of_three_that_loses_a_member_resumes_at_its_commits(
        self, client: Client, topic: str, broker: Broker, doomed_member: StartMember
    ) -> None:
        client.create_topic(topic, partitions=6)
        group = f"group-{uuid.uuid4().hex}"
        doomed = doomed_member(client.name, broker.address, group, topic)
        survivors = Survivors([client.join(group, topic), client.join(group, topic)])
        try:
            wait_until(
                lambda: [*survivors.shares(), len(doomed.assignment())] == [2, 2, 2],
                "two each",
                GROUP_TIMEOUT_S,
            )
            produce_to_all(client, topic, count=10)
            wait_until(
                lambda: len(survivors.read) == 40 and doomed.has_committed(20),
                "first ten",
                GROUP_TIMEOUT_S,
            )
            survivors.commit()
            produce_to_all(client, topic, count=5, first=10)
            wait_until(
                lambda: len(survivors.read) == 60 and doomed.has_read(30),
                "five more",
                GROUP_TIMEOUT_S,
            )
            survivors.commit()
            lost = doomed.assignment()
            survivors.forget()

            doomed.kill()

            wait_until(lambda: len(survivors.read) >= 10, "taken over", GROUP_TIMEOUT_S)
            assert sorted((r.partition, r.offset) for r in survivors.read) == [
                (partition, offset) for partition in lost for offset in range(10, 15)
            ]
        finally:
            survivors.close()


def produce_to_all(client: Client, topic: str, count: int, first: int = 0) -> None:
    """Write `count` numbered records to each of six partitions."""
    client.produce(
        topic,
        [record for p in range(6) for record in numbered(count, partition=p, first=first)],
    )


class PolledMember:
    """A group member in this process, polled by its own thread as in applications.

    kafka-python discards a join that completes between two polls and joins again, and a leader that
    joins again starts a rebalance: members polled in turn can keep each other from stabilizing.
    """

    def __init__(self, member: Member) -> None:
        self.read: list[Record] = []
        self.share = 0
        self._member = member
        self._commits: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._poll_until_it_leaves)
        self._thread.start()

    def commit(self) -> None:
        """Commit everything that was read."""
        committed = threading.Event()
        self._commits.put(committed)
        assert committed.wait(GROUP_TIMEOUT_S), "the commit has failed"

    def close(self) -> None:
        """Leave the group."""
        self._leaving.set()
        self._thread.join()

    def _poll_until_it_leaves(self) -> None:
        while not self._leaving.is_set():
            self.read += self._member.poll()
            self.share = len(self._member.assignment())
            if not self._commits.empty():
                self._member.commit()
                self._commits.get().set()
        self._member.close()


class Survivors:
    """The members of the group that live in this process."""

    def __init__(self, members: list[Member]) -> None:
        self.members = [PolledMember(member) for member in members]
        self._seen = [0] * len(members)

    @property
    def read(self) -> list[Record]:
        """What the members have read since `forget`."""
        return [
            record
            for member, seen in zip(self.members, self._seen, strict=True)
            for record in member.read[seen:]
        ]

    def forget(self) -> None:
        """Count only what is read from now on."""
        self._seen = [len(member.read) for member in self.members]

    def shares(self) -> list[int]:
        """Return how many partitions each member holds."""
        return [member.share for member in self.members]

    def commit(self) -> None:
        """Commit everything that was read."""
        for member in self.members:
            member.commit()

    def close(self) -> None:
        """Leave the group."""
        for member in self.members:
            member.close()
