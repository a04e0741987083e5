"""V1, RustLog and Cursus in a cluster: their clients know the address of one broker only.

Each test runs with the address of each broker, and with the one that two workers share. The topics
have more partitions than there are brokers, so that each broker leads some; groups are many enough
to have each broker as coordinator.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker.model.unseen_limits import UNCOPIED_WAIT_MS
from broker.protocols.v1.handlers.produce import partition_of
from tests.compatibility.all_protocols.exchanges import EXCHANGES, Exchange
from tests.compatibility.cursus.event_stores import EventStore
from tests.compatibility.cursus.event_stores import RefusedError as StoreError
from tests.compatibility.cursus.members import JavaMember
from tests.compatibility.cursus.sdks import JavaProducer, PythonProducer, java_polls
from tests.compatibility.cursus.streams import JavaConsumer, PythonConsumer, StreamingConsumer
from tests.compatibility.cursus.transactions import begun, initialised, joined, seen
from tests.compatibility.v1.sdks import SdkError, TypeScriptSdk, python_sdk
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch
from tests.support.etcd import Etcd
from tests.support.line_client import LineClient
from tests.support.rustlog_client import RefusedError, RustLogClient
from tests.support.wire_client import WireClient
from tests.support.workers_process import Workers

BROKERS = range(3)
PARTITIONS = 6
GROUPS = 9
WAIT_S = 30.0


class Cluster:
    """Three brokers on one etcd."""

    def __init__(self, folder: Path) -> None:
        """Start them."""
        self.etcd = Etcd(folder / "etcd")
        store = f"polylog.metadata.store=etcd://{self.etcd.endpoints[0]}/cluster"
        self.brokers: list[BrokerProcess] = []
        try:
            for number in BROKERS:
                settings = [store, f"node.id={number + 1}", "offsets.topic.num.partitions=6"]
                (folder / str(number)).mkdir()
                broker = BrokerProcess(folder / str(number), settings=settings)
                self.brokers.append(broker)
                broker.start()
            wait_until(lambda: all(map(_knows_all, self.brokers)), "all know each other", WAIT_S)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all processes."""
        for broker in self.brokers:
            if broker.is_running:
                broker.kill()
        self.etcd.close()


def _knows_all(broker: BrokerProcess) -> bool:
    with python_sdk(broker.address) as sdk:
        return len(sdk.metadata()[1]) == len(BROKERS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
        for broker in cluster.brokers:
            broker.check()
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    folder = tmp_path_factory.mktemp("workers")
    running = Workers(folder, settings=["offsets.topic.num.partitions=6"])
    running.start()
    yield running
    assert running.stop() == 0
    running.check()


class Entrance(NamedTuple):
    """An address of a cluster, and the ids of all of its brokers."""

    address: str
    ids: list[int]


@pytest.fixture(params=[*BROKERS, "workers"])
def entrance(request: pytest.FixtureRequest) -> Entrance:
    if request.param == "workers":
        workers: Workers = request.getfixturevalue("workers")
        return Entrance(workers.address, [1, 2])
    cluster: Cluster = request.getfixturevalue("cluster")
    return Entrance(cluster.brokers[request.param].address, [1, 2, 3])


@pytest.fixture
def address(entrance: Entrance) -> str:
    return entrance.address


@pytest.fixture(params=BROKERS)
def broker(cluster: Cluster, request: pytest.FixtureRequest) -> BrokerProcess:
    return cluster.brokers[request.param]


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


def _metadata(address: str, topic: str) -> list[str]:
    with CursusClient(address) as client:
        answer = client.ask(f"METADATA topic={topic}")
    found = re.search(r" leaders=(\S+)", answer)
    assert found is not None, answer
    return found[1].split(",")


def test_v1_clients_use_all_partitions_and_groups_through_one_broker(
    entrance: Entrance, topic: str
) -> None:
    address, ids = entrance
    with python_sdk(address) as sdk:
        sdk.send("ADMIN_CREATE_TOPIC", f"{topic} {PARTITIONS} 1")
        assert len(set(_metadata(address, topic))) == len(ids)
        for number in range(60):
            made = sdk.produce(topic, f"key-{number}", f"value-{number}")
            assert made.high_watermark == made.offset
        values = [
            value
            for partition in range(PARTITIONS)
            for _, value in sdk.consume(topic, partition, 0).messages
        ]
        assert sorted(values) == sorted(f"value-{number}" for number in range(60))
        for number in range(GROUPS):
            group = f"{topic}-{number}"
            joined = sdk.join(group, topic, "member")
            assert joined.partitions == list(range(PARTITIONS))
            assert sdk.sync(group, topic, "member", joined.generation) == joined
            sdk.heartbeat(group, topic, "member", joined.generation)
            sdk.commit(group, topic, "member", joined.generation, number % PARTITIONS, 5)
            assert sdk.offset(group, topic, number % PARTITIONS) == 5
            sdk.leave(group, topic, "member", joined.generation)
            with pytest.raises(SdkError, match="GENERATION_MISMATCH"):
                sdk.heartbeat(group, topic, "member", joined.generation)
        assert sdk.metadata()[1] == ids


def test_v1_clients_that_pipeline_get_the_responses_in_order(address: str, topic: str) -> None:
    with closing(TypeScriptSdk(address)) as sdk:
        lines = [f"PRODUCE|{topic} key-{number}:v" for number in range(30)]
        answers = sdk.send_all(lines)
        assert len(answers) == len(lines)
        assert all("offset=" in each for each in answers), answers


def test_rustlog_clients_use_all_partitions_and_groups_through_one_broker(
    address: str, topic: str
) -> None:
    with RustLogClient(address) as client:
        client.create(topic, PARTITIONS)
        for partition in range(PARTITIONS):
            records = [b"%d-%d" % (partition, number) for number in range(partition + 1)]
            assert client.produce(topic, records, partition) == 0
            assert list(client.read_all(topic, 0, partition).values()) == records
            assert client.high_watermark(topic, partition) == partition + 1
        for number in range(GROUPS):
            group, partition = f"{topic}-{number}", number % PARTITIONS
            assert client.committed(group, topic, partition) is None
            client.commit(group, topic, partition, partition)
            assert client.committed(group, topic, partition) == partition
            found = client.fetch(topic, 0, partition=partition, group=group)
            assert found.records == [b"%d-%d" % (partition, partition)]
        described = client.ask(b"\x07" + len(topic).to_bytes(2, "big") + topic.encode())
        rows = described[3 + len(topic) + 8 :]
        assert [
            (int.from_bytes(rows[at : at + 4]), int.from_bytes(rows[at + 4 : at + 12]))
            for at in range(0, len(rows), 12)
        ] == [(number, number + 1) for number in range(PARTITIONS)]
        with pytest.raises(RefusedError, match="does not exist"):
            client.produce(topic, [b"x"], PARTITIONS)
        answer = client.ask_json(
            {"Produce": {"topic": topic, "partition": 1, "records": [[104, 105]]}}
        )
        assert answer == {"Produce": {"offsets": [2]}}


def test_long_answers_of_another_broker_arrive_whole(address: str, topic: str) -> None:
    record = bytes(range(256)) * (4 << 12)  # 4 MiB
    with RustLogClient(address) as client:
        client.create(topic, 3)
        for partition in range(3):
            assert client.produce(topic, [record, record], partition) == 0
            assert client.fetch(topic, 0, 10 << 20, partition).records == [record, record]


def test_cursus_producers_and_pollers_use_all_partitions_through_one_broker(
    address: str, topic: str
) -> None:
    with closing(JavaProducer(address, topic, PARTITIONS)) as java:
        for partition in range(PARTITIONS):
            java.send(partition, java.body(partition, [b"a", b"b"]))
    python = PythonProducer(address, topic)
    python.send([b"c"] * PARTITIONS)
    with CursusClient(address) as client:
        for partition in range(PARTITIONS):
            body = batch(topic, partition, [Message(b"direct", 1, b"p", epoch=1)])
            assert b'"status":"OK"' in client.answer(body)
            body = batch(topic, partition, [Message(b"unread", 1, b"p", epoch=1)], acks=b"0")
            assert client.answer(body) == b'{"status":"OK"}'
            read = client.consume(f"CONSUME topic={topic} partition={partition} offset=0 member=m")
            payloads = [each.payload for each in read.messages]
            assert payloads[:2] == [b"a", b"b"]
            assert payloads[-2:] == [b"direct", b"unread"]
        for number in range(2 * PARTITIONS):
            text = f"PUBLISH topic={topic} producerId=p message=routed-{number}"
            assert '"status":"OK"' in client.ask(text)
        listed = client.ask(f"LIST_OFFSETS topic={topic}")
        ends = list(map(int, re.findall(r":leo=(\d+)", listed)))
        assert len(ends) == PARTITIONS
        assert sum(ends) == 5 * PARTITIONS + 2 * PARTITIONS
        described = client.ask(f"DESCRIBE topic={topic}")
        assert list(map(int, re.findall(r'"leo": (\d+)', described))) == ends
        found = [
            each.payload
            for partition in range(PARTITIONS)
            for each in client.consume(
                f"CONSUME topic={topic} partition={partition} offset=2 member=m"
            ).messages
            if each.payload.startswith(b"routed")
        ]
        assert sorted(found) == sorted(b"routed-%d" % each for each in range(2 * PARTITIONS))
    polls = java_polls(address, topic, 3, f"{topic}-polls")
    assert next(polls)[:2] == [b"a", b"b"]


def test_cursus_patterns_read_topics_of_all_brokers(address: str, topic: str) -> None:
    with CursusClient(address) as client:
        for number in range(PARTITIONS):
            client.ask(f"CREATE topic={topic}-{number} partitions=1")
            body = batch(f"{topic}-{number}", 0, [Message(b"%d" % number, 1)])
            assert b'"status":"OK"' in client.answer(body)
        read = client.consume(f"CONSUME topic={topic}-* partition=0 offset=0 member=m")
        assert sorted(each.payload for each in read.messages) == [
            b"%d" % number for number in range(PARTITIONS)
        ]


def test_cursus_groups_are_found_through_one_broker(address: str, topic: str) -> None:
    with CursusClient(address) as client:
        client.ask(f"CREATE topic={topic} partitions={PARTITIONS}")
        names = [f"{topic}-{number}" for number in range(GROUPS)]
        for group in names:
            member = JavaMember(address, topic, group, "member")
            member.join()
            assert member.partitions == list(range(PARTITIONS))
            assert member.beat()
            member.commit()
            assert client.ask(f"FETCH_OFFSET topic={topic} partition=2 group={group}") == (
                "OK offset=10"
            )
            assert f'"group_name":"{group}"' in client.ask(f"GROUP_STATUS group={group}")
            assert client.ask(f"FIND_COORDINATOR group={group}").startswith("OK coordinator_id=")
        listed = client.ask("LIST_GROUPS").rpartition("groups=")[2].split(",")
        assert set(names) <= set(listed)


@pytest.mark.parametrize("make", [JavaConsumer, PythonConsumer])
def test_cursus_streams_of_a_group_deliver_all_partitions_through_one_broker(
    address: str,
    topic: str,
    make: Callable[[str, str, str, str], StreamingConsumer],
) -> None:
    with CursusClient(address) as client:
        client.ask(f"CREATE topic={topic} partitions={PARTITIONS}")
        with closing(make(address, topic, f"{topic}-group", "one")) as one:
            one.start()
            for round_ in range(2):
                for partition in range(PARTITIONS):
                    body = batch(topic, partition, [Message(b"%d" % round_, round_ + 1)])
                    assert b'"status":"OK"' in client.answer(body)
            wanted = {(each, offset) for each in range(PARTITIONS) for offset in range(2)}

            def has_all() -> bool:
                one.poll()
                return {(each.partition, each.offset) for each in one.got} >= wanted

            wait_until(has_all, "records of all partitions", WAIT_S)
            # Another member joins: the streams of this one end, though its coordinator and the
            # leaders of its partitions are different brokers.
            two = JavaMember(address, topic, f"{topic}-group", "two")
            two.join()

            def has_rejoined() -> bool:
                one.poll()
                return len(one.member.partitions) < PARTITIONS

            wait_until(has_rejoined, "a rebalance is noticed by the streams", WAIT_S)


def test_a_stream_that_is_not_read_does_not_fill_the_memory(
    broker: BrokerProcess, topic: str
) -> None:
    payload, address = bytes(1 << 20), broker.address
    with CursusClient(address) as client, CursusClient(address) as reader:
        client.ask(envelope(f"CREATE topic={topic} partitions=3"))
        leaders = _metadata(address, topic)
        partition = next(each for each in range(3) if leaders[each] != address)
        reader.send(f"STREAM topic={topic} partition={partition} group=g offset=0")
        before = broker.private_memory()
        for number in range(64):
            body = batch(topic, partition, [Message(payload, number + 1)])
            assert b'"status":"OK"' in client.answer(body)
        assert broker.private_memory() - before < 32 << 20
        got = 0
        while got < 64:
            frame = reader.frame()
            assert frame is not None
            got += frame.count(payload)


def test_while_a_leader_is_down_clients_get_errors_to_retry_and_streams_go_on_after_it(
    cluster: Cluster, topic: str
) -> None:
    here, down, _ = cluster.brokers
    with (
        python_sdk(here.address) as v1,
        RustLogClient(here.address) as rustlog,
        CursusClient(here.address) as cursus,
        closing(JavaConsumer(here.address, topic, f"{topic}-group", "one")) as reader,
    ):
        cursus.ask(f"CREATE topic={topic} partitions=3")
        partition = _metadata(here.address, topic).index(down.address)
        key = next(
            key
            for key in map(str, range(100))
            if v1.produce(topic, key, "v").partition == partition
        )
        reader.start()
        down.kill()
        with pytest.raises(SdkError, match="NOT_LEADER"):
            v1.produce(topic, key, "v")
        with pytest.raises(RefusedError, match="try again"):
            rustlog.produce(topic, [b"v"], partition)
        body = batch(topic, partition, [Message(b"after", 1)])
        assert cursus.answer(body).startswith(b"ERROR: NOT_LEADER LEADER_IS ")
        down.start()
        wait_until(lambda: b'"status":"OK"' in cursus.answer(body), "it leads again", WAIT_S)
        assert v1.produce(topic, key, "v").partition == partition
        rustlog.produce(topic, [b"v"], partition)

        def has_gone_on() -> bool:
            reader.poll()
            return (partition, b"after") in {(each.partition, each.payload) for each in reader.got}

        wait_until(has_gone_on, "the stream goes on", WAIT_S)
        assert not reader.stopped


def test_cursus_transactions_commit_and_abort_on_all_partitions_through_one_broker(
    entrance: Entrance, topic: str
) -> None:
    address, ids = entrance
    committed: list[set[str]] = [set() for _ in range(PARTITIONS)]
    with CursusClient(address) as client:
        client.ask(f"CREATE topic={topic} partitions={PARTITIONS}")
        assert len(set(_metadata(address, topic))) == len(ids)
        for number in range(GROUPS):
            name, group = f"{topic}-{number}", f"{topic}-g{number}"
            there = f"topic={topic} group={group}"
            fetch = f"FETCH_OFFSET topic={topic} partition=2 group={group}"
            member = joined(client, topic, group)
            who = initialised(client, name)
            for result in ("abort", "commit"):
                assert client.ask(f"BEGIN_TXN {who}").startswith("OK ")
                for partition in range(PARTITIONS):
                    publish = f"TXN_PUBLISH {who} topic={topic} partition={partition} seqNum=1"
                    for _ in range(2):  # sent again, it is staged once
                        answer = client.ask(f"{publish} key=k message={result}-{number}")
                        assert " staged_messages=1 " in answer, answer
                offsets = ",".join(f"P{each}:{number + 1}" for each in range(PARTITIONS))
                answer = client.ask(
                    f"SEND_OFFSETS_TO_TXN {who} {there} member={member} generation=1 {offsets}"
                )
                assert answer.endswith(f" staged_offsets={PARTITIONS}"), answer
                assert client.ask(fetch) == "OK offset=0"
                assert f"abort-{number}" not in seen(client, topic, 2, "committed")
                status = client.ask(f"TXN_STATUS transactional_id={name}")
                assert status.endswith(f" state=open messages={PARTITIONS} offsets={PARTITIONS}")
                answer = client.ask(f"END_TXN {who} result={result}")
                assert answer.startswith(f"OK transactional_id={name} state={result}"), answer
                assert client.ask(f"END_TXN {who} result={result}") == answer, "again"
            assert client.ask(fetch) == f"OK offset={number + 1}"
            for each in committed:
                each.add(f"commit-{number}")
        for partition, payloads in enumerate(committed):
            found = seen(client, topic, partition, "committed")
            assert sorted(found) == sorted(payloads)


# What a leader or coordinator that is down, or is coming back, is answered with: which of them
# depends on whether its lease has ended.
RETRIED = ("ERROR: coordinator_", "ERROR: NOT_LEADER")


def test_cursus_transactions_are_decided_while_a_leader_is_down_and_visible_after_it(
    cluster: Cluster, topic: str
) -> None:
    here, down, _ = cluster.brokers
    coordinators: dict[str, str] = {}  # what identifies one producer of each
    with CursusClient(here.address) as client:
        client.ask(f"CREATE topic={topic} partitions=12")
        partition = _metadata(here.address, topic).index(down.address)
        for number in range(60):
            name = f"{topic}-{number}"
            initialised(client, name)
            found = client.ask(f"FIND_COORDINATOR transactional_id={name}").partition(" host=")[2]
            if found not in coordinators:
                coordinators[found] = begun(client, name)
        assert len(coordinators) == len(BROKERS)
        host, _, port = down.address.rpartition(":")
        lost = coordinators.pop(f"{host} port={port}")
        publish = f"topic={topic} partition={partition} seqNum"
        for who in (lost, *coordinators.values()):
            answer = client.ask(f"TXN_PUBLISH {who} {publish}=1 message={who}")
            assert " staged_messages=1 " in answer, answer
        down.kill()
        for command in (f"TXN_PUBLISH {lost} {publish}=2 message=x", f"END_TXN {lost}"):
            assert client.ask(command).startswith(RETRIED)
        for who in coordinators.values():
            answer = client.ask(f"TXN_PUBLISH {who} {publish}=2 message=x")
            assert answer.startswith(RETRIED), answer
            assert " state=committed messages=1 " in client.ask(f"END_TXN {who}")
        down.start()

        def is_aborted() -> bool:
            answer = client.ask(f"END_TXN {lost}")
            assert answer.startswith((*RETRIED, "ERROR: transaction_aborted ")), answer
            return "transaction_aborted" in answer

        wait_until(is_aborted, "the transaction of the coordinator that was down ends", WAIT_S)

        def shown() -> list[str]:
            answer = client.answer(
                f"CONSUME topic={topic} partition={partition} offset=0"
                " isolation_level=read_committed"
            )
            if answer.startswith(b"ERROR: "):
                return []
            return [message.payload.decode() for message in read_batch(answer).messages]

        wait_until(lambda: len(shown()) == len(coordinators), "all are visible", WAIT_S)
        assert sorted(shown()) == sorted(coordinators.values())


# ---- reads in the same send as a write -----------------------------------------------------------


def test_a_v1_read_after_a_write_in_one_send_sees_it_with_several_replicas(
    broker: BrokerProcess, topic: str
) -> None:
    with LineClient(broker.address) as client:
        assert client.command(f"ADMIN_CREATE_TOPIC {topic} {PARTITIONS} {len(BROKERS)}").startswith(
            "OK"
        )
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for number in range(2 * PARTITIONS):
            partition = partition_of(b"k%d" % number, PARTITIONS)
            place = f"{topic} {partition} {ends[partition]}"
            client.send(
                f"V1|1|PRODUCE|{topic} k{number}:v{number}\nV1|2|CONSUME|{place}\n".encode()
            )
            assert client.line().startswith(b"V1|1|OK|")
            assert client.line().startswith(b"V1|2|OK|messages=%d:v%d " % (ends[partition], number))
            ends[partition] += 1


def test_a_cursus_read_after_a_write_in_one_send_sees_it_with_several_replicas(
    broker: BrokerProcess, topic: str
) -> None:
    create = f"CREATE topic={topic} partitions={PARTITIONS} replication_factor={len(BROKERS)}"
    with CursusClient(broker.address) as client:
        assert client.ask(create).startswith("OK ")
        for offset in range(3):
            for partition in range(PARTITIONS):
                place = f"topic={topic} partition={partition}"
                client.send(f"PUBLISH {place} producerId=p message=m")
                client.send(f"CONSUME {place} offset={offset} group=g-{topic}")
                assert client.frame()
                found = client.frame()
                assert found
                assert [each.offset for each in read_batch(found).messages] == [offset]


def test_v1_tells_the_replicas_that_kafkas_clients_see(broker: BrokerProcess, topic: str) -> None:
    with LineClient(broker.address) as v1, WireClient(broker.address) as kafka:
        created = v1.command(f"ADMIN_CREATE_TOPIC {topic} 3 2")
        asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        [described] = kafka.request("Metadata", 8, asked)["topics"]
        for each in described["partitions"]:
            number, in_sync = each["partition_index"], " ".join(map(str, each["isr_nodes"]))
            assert f" replication_factor={len(each['replica_nodes'])} " in created
            assert v1.command(f"REPLICA_FETCH {topic} {number} 1 0") == (
                f"OK|replica=1 acked_offset=0 hw=-1 isr=[{in_sync}] under_replicated=false"
            )
            led = f"leader={each['leader_id']} isr=[{in_sync}] "
            answer = v1.command(
                f"ADMIN_SET_PARTITION_LEADER {topic} {number} {each['leader_id']} 1,0"
            )
            assert answer.startswith(f"OK|topic={topic} partition={number} {led}")


def test_a_cursus_member_commits_of_a_pattern_what_its_broker_leads(
    broker: BrokerProcess, topic: str
) -> None:
    names, group = [f"{topic}-{each}" for each in "abcd"], f"g-{topic}"
    with CursusClient(broker.address) as client:
        for name in names:
            assert client.ask(f"CREATE topic={name} partitions=1").startswith("OK ")
            client.answer(batch(name, 0, [Message(name.encode())] * 2))
        member = f"generation=1 member={joined(client, names[0], group)}"
        place = f"topic={topic}-? partition=0 group={group}"

        def consumed() -> list[bytes]:
            start = client.ask(f"FETCH_OFFSET {place}").removeprefix("OK offset=")
            answer = client.answer(f"CONSUME {place} offset={start} {member}")
            return sorted(each.payload for each in read_batch(answer).messages)

        assert consumed() == sorted(2 * [each.encode() for each in names])
        assert client.ask(f"COMMIT_OFFSET {place} offset=2 {member}") == "OK"
        left = [each for each in names if _metadata(broker.address, each) != [broker.address]]
        for name in names:
            offset = client.ask(f"FETCH_OFFSET topic={name} partition=0 group={group}")
            assert offset == f"OK offset={0 if name in left else 2}"
        assert consumed() == sorted(2 * [each.encode() for each in left])


def test_an_event_store_has_the_streams_of_all_partitions_through_one_broker(
    entrance: Entrance, topic: str
) -> None:
    address, ids = entrance
    keys = [f"order-{number}" for number in range(4 * PARTITIONS)]
    with EventStore(address, topic) as store:
        store.create(PARTITIONS)
        assert len(set(_metadata(address, topic))) == len(ids)
        for version in (1, 2, 3):
            for key in keys:
                assert store.append(key, version, f"{key}-{version}").version == version
        for key in keys:
            with pytest.raises(StoreError, match="version_conflict current=3 expected=3"):
                store.append(key, 3, "again")
            assert store.version(key) == 3
            assert [each.payload for each in store.read(key, 2).events] == [
                f"{key}-2".encode(),
                f"{key}-3".encode(),
            ]
            store.save_snapshot(key, 2, key)
            assert store.read_snapshot(key) == (2, key)
            snapshot, events = store.read(key)
            assert (snapshot, len(events)) == ((2, key), 1)
            with pytest.raises(StoreError, match="invalid_from_version"):
                store.read(key, 1 << 63)


# ---- reads behind writes, of topics with replicas ------------------------------------------------

EXCHANGES_SAMPLED = 8
SENDS = 6


@pytest.fixture
def replicated(cluster: Cluster) -> dict[str, str]:
    """A topic on all brokers per way of its writes: native ones, and those that Python serves."""
    topics = {}
    with python_sdk(cluster.brokers[0].address) as sdk:
        for compression in ("producer", "gzip"):
            topics[compression] = f"topic-{uuid.uuid4().hex[:8]}"
            sdk.send("ADMIN_CREATE_TOPIC", f"{topics[compression]} 1 3")
    with WireClient(_metadata(cluster.brokers[0].address, topics["gzip"])[0]) as client:
        wire_requests.alter_topic(client, topics["gzip"], {"compression.type": "gzip"})
    return topics


def _exchange(exchange: Exchange, address: str, topic: str, ends: dict[str, int]) -> None:
    """Write and read SENDS times, each time the next offset of the topic."""
    last = ends[topic] + SENDS
    while ends[topic] < last:
        begun = time.monotonic()
        try:
            exchange.run(address, topic, [ends[topic]])
        except AssertionError:
            # A replica that has no time may copy later than a read waits for it.
            if time.monotonic() - begun < UNCOPIED_WAIT_MS / 1000:
                raise
        ends[topic] += 1


def test_a_read_behind_a_write_on_its_connection_sees_it_before_it_is_copied_by_itself(
    cluster: Cluster, replicated: dict[str, str], choices: Random
) -> None:
    """Whatever the acks, the protocol, and who serves it: the read waits for the replicas."""
    ends = dict.fromkeys(replicated.values(), 0)
    ways = [(each, compression) for each in EXCHANGES for compression in replicated]
    always = [(each, "gzip") for each in EXCHANGES if each.name == "kafka-12" and each.acks == "1"]
    for exchange, compression in (*always, *choices.sample(ways, EXCHANGES_SAMPLED)):
        topic = replicated[compression]
        address = _metadata(cluster.brokers[0].address, topic)[0]
        if exchange.is_forwarded:
            address = choices.choice([address, *(each.address for each in cluster.brokers)])
        _exchange(exchange, address, topic, ends)
