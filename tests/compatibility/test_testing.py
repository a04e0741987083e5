"""broker.testing with real clients: a fresh broker, its faults, its clock."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from broker.testing import Broker, TestingError
from tests.support.broker_process import wait_until

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def fresh(shared: Broker) -> Broker:
    if shared.run_number > 1 or shared.topics():
        shared.reset()
    return shared


def producer(broker: Broker, **settings: object) -> Producer:
    return Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "retry.backoff.ms": 10}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )


def delivery(client: Producer, topic: str, value: bytes, partition: int = 0) -> KafkaError | None:
    """Return the error of a record, once it is known."""
    outcomes: list[KafkaError | None] = []
    client.produce(topic, value, partition=partition, on_delivery=lambda e, _: outcomes.append(e))
    client.flush(30)
    return outcomes[0]


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [each.value for each in broker.records(topic)]


def test_records_of_a_client_are_read_and_those_of_the_fixture_are_consumed(fresh: Broker) -> None:
    fresh.create_topic("orders", partitions=2)
    fresh.produce("orders", (b"k", b"first", [("h", b"1")]), partition=1)
    assert delivery(producer(fresh), "orders", b"second", 1) is None

    found = fresh.records("orders")
    consumer = Consumer(
        {
            "bootstrap.servers": fresh.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    consumed = [message.value() for message in consumer.consume(2, 30)]
    consumer.commit(asynchronous=False)
    consumer.close()

    assert [(each.partition, each.offset, each.value) for each in found] == [
        (1, 0, b"first"),
        (1, 1, b"second"),
    ]
    assert found[0].key == b"k"
    assert found[0].headers == [(b"h", b"1")]
    assert consumed == [b"first", b"second"]
    assert fresh.committed("readers")["orders", 1] == 2


def test_records_of_an_aborted_transaction_are_left_out(fresh: Broker) -> None:
    client = producer(fresh, transactional_id="t")
    client.init_transactions()
    for value, ends in ((b"lost", client.abort_transaction), (b"kept", client.commit_transaction)):
        client.begin_transaction()
        client.produce("paid", value)
        client.flush()
        ends()

    assert values(fresh, "paid") == [b"kept"]
    uncommitted = fresh.records("paid", is_committed=False)
    assert [each.value for each in uncommitted] == [b"lost", b"kept"]


def test_a_reset_leaves_nothing(fresh: Broker) -> None:
    address = fresh.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("old", 1)])["old"].result(30)
    entry = ConfigEntry("log.retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    entity = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([entity])[entity].result(30)
    fresh.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER")
    data = fresh.data_dir

    fresh.reset()

    found = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])
    [configs] = [each.result(30) for each in found.values()]
    assert fresh.bootstrap_servers == address
    assert fresh.topics() == {}
    assert configs["log.retention.ms"].value != "60000"
    assert delivery(producer(fresh), "new", b"1") is None
    wait_until(lambda: not data.exists(), "the old data is removed")


def test_data_survives_a_restart_and_a_kill(fresh: Broker) -> None:
    fresh.create_topic("kept")
    fresh.produce("kept", b"1")
    client = producer(fresh)
    assert delivery(client, "kept", b"2") is None

    fresh.kill()
    assert fresh.pid is None
    with pytest.raises(TestingError, match="does not run"):
        fresh.topics()
    fresh.start()
    assert delivery(client, "kept", b"3") is None
    fresh.restart()

    assert values(fresh, "kept") == [b"1", b"2", b"3"]


def test_a_block_with_a_fault_may_end_after_its_broker(fresh: Broker) -> None:
    with fresh.faults.latency("*", 1) as fault, fresh.faults.full_disk():
        fresh.kill()

    assert fault.hits == 0
    fresh.start()


def test_settings_that_no_message_holds_are_refused_and_other_brokers_go_on(
    fresh: Broker,
) -> None:
    with pytest.raises(ValueError, match="bytes at most"), Broker({"broker.rack": "x" * 70_000}):
        pass

    assert fresh.topics() == {}


def test_the_next_requests_fail_with_an_error_and_a_client_retries(fresh: Broker) -> None:
    fresh.create_topic("orders")
    client = producer(fresh)

    with fresh.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", count=2) as fault:
        assert delivery(client, "orders", b"1") is None
        assert fault.hits == 2

    assert fault.hits == 2
    assert values(fresh, "orders") == [b"1"]


def test_an_error_that_is_final_reaches_the_client_and_nothing_is_written(fresh: Broker) -> None:
    fresh.create_topic("orders")
    client = producer(fresh, enable_idempotence=False)

    with fresh.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED"):
        error = delivery(client, "orders", b"1")
    after = delivery(producer(fresh), "orders", b"2")  # this one believes it for a while

    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert after is None
    assert values(fresh, "orders") == [b"2"]


def test_an_error_of_one_partition_leaves_the_others_alone(fresh: Broker) -> None:
    fresh.create_topic("orders", partitions=2)
    client = producer(fresh, enable_idempotence=False, linger_ms=50)
    outcomes: dict[int | None, KafkaError | None] = {}

    with fresh.faults.error("Produce", "INVALID_RECORD", topic="orders", partition=1):
        for each in (0, 1):
            client.produce(
                "orders",
                b"x",
                partition=each,
                on_delivery=lambda e, m: outcomes.update({m.partition(): e}),
            )
        client.flush(30)

    assert outcomes[0] is None
    assert outcomes[1] is not None
    assert [each.partition for each in fresh.records("orders")] == [0]


def test_errors_of_a_fetch_are_immediate_and_the_rest_is_read_on(fresh: Broker) -> None:
    fresh.create_topic("orders", partitions=2)
    for each in (0, 1):
        fresh.produce("orders", b"x", partition=each)
    consumer = Consumer(
        {
            "bootstrap.servers": fresh.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])

    with fresh.faults.error("Fetch", "KAFKA_STORAGE_ERROR", topic="orders", partition=1) as fault:
        [first] = consumer.consume(1, 30)
        wait_until(lambda: fault.hits > 0, "a fetch is hit")
    [second] = consumer.consume(1, 30)
    consumer.close()

    assert (first.partition(), second.partition()) == (0, 1)


def test_a_topic_in_metadata_has_an_error(fresh: Broker) -> None:
    for name in ("a", "b"):
        fresh.create_topic(name)
    admin = AdminClient({"bootstrap.servers": fresh.bootstrap_servers})

    with fresh.faults.error("Metadata", "LEADER_NOT_AVAILABLE", topic="a"):
        topics = admin.list_topics(timeout=30).topics

    assert topics["a"].error is not None
    assert topics["b"].error is None


def test_latency_is_added_to_an_api(fresh: Broker) -> None:
    fresh.create_topic("orders")
    client = producer(fresh)
    assert delivery(client, "orders", b"1") is None

    with fresh.faults.latency("Produce", 700):
        begun = time.monotonic()
        assert delivery(client, "orders", b"2") is None

    assert time.monotonic() - begun >= 0.7


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_disconnect_makes_an_idempotent_producer_send_again_but_writes_once(
    fresh: Broker, when: str
) -> None:
    fresh.create_topic("orders")
    client = producer(fresh, enable_idempotence=True)
    assert delivery(client, "orders", b"1") is None

    with fresh.faults.disconnect("Produce", when, count=1) as fault:  # type: ignore[arg-type]
        assert delivery(client, "orders", b"2") is None

    assert fault.hits == 1
    assert values(fresh, "orders") == [b"1", b"2"]


def test_a_lost_acknowledgement_is_of_a_record_that_is_written(fresh: Broker) -> None:
    fresh.create_topic("orders")
    client = producer(fresh, enable_idempotence=False, retries=0)

    with fresh.faults.disconnect("Produce", "after"):
        error = delivery(client, "orders", b"1")

    assert error is not None
    assert values(fresh, "orders") == [b"1"]


def test_a_full_disk_refuses_writes_and_serves_reads(fresh: Broker) -> None:
    fresh.create_topic("orders")
    fresh.produce("orders", b"1")
    client = producer(fresh, enable_idempotence=False, retries=0)

    with fresh.faults.full_disk():
        time.sleep(1.5)  # longer than between two looks at the disk
        error = delivery(client, "orders", b"2")
        assert values(fresh, "orders") == [b"1"]
    after = delivery(producer(fresh), "orders", b"3")

    assert error is not None
    assert after is None


def test_a_paused_broker_answers_when_it_goes_on(fresh: Broker) -> None:
    fresh.create_topic("orders")
    client = producer(fresh)
    outcomes: list[KafkaError | None] = []

    with fresh.paused():
        client.produce("orders", b"1", on_delivery=lambda e, _: outcomes.append(e))
        client.flush(0.3)
        assert outcomes == []
        with pytest.raises(TestingError, match="paused"):
            fresh.faults.disconnect_all()
    client.flush(30)

    assert outcomes == [None]


def test_time_that_passes_deletes_old_records_and_new_ones_have_the_new_time(
    fresh: Broker,
) -> None:
    config = {
        "message.timestamp.type": "LogAppendTime",  # the broker's time, not that of clients
        "retention.ms": "3600000",
        "segment.ms": "1000",
    }
    fresh.create_topic("old", config=config)
    fresh.produce("old", b"1")
    [first] = fresh.records("old")

    fresh.clock.advance(7200)
    fresh.produce("old", b"2")  # rolls the segment

    wait_until(lambda: values(fresh, "old") == [b"2"], "the old record is deleted")
    [second] = fresh.records("old")
    assert second.timestamp_ms >= first.timestamp_ms + 7_200_000


def test_all_connections_are_closed(fresh: Broker) -> None:
    fresh.create_topic("orders")
    client = producer(fresh)
    assert delivery(client, "orders", b"1") is None

    assert fresh.faults.disconnect_all() > 0

    assert delivery(client, "orders", b"2") is None


def test_the_fixtures_own_requests_are_never_hit(fresh: Broker) -> None:
    fresh.create_topic("orders")

    with fresh.faults.disconnect("*") as fault:
        fresh.produce("orders", b"1")
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": fresh.bootstrap_servers}).list_topics(timeout=0.5)

    assert fault.hits > 0
    assert values(fresh, "orders") == [b"1"]


def test_wrong_names_are_refused_with_the_nearest_ones(fresh: Broker) -> None:
    with pytest.raises(ValueError, match=r"'Produced'; did you mean Produce\?"):
        fresh.faults.error("Produced", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="no error named"):
        fresh.faults.error("Produce", "NOT_THE_LEADER")
    with pytest.raises(ValueError, match="no partitions"):
        fresh.faults.error("JoinGroup", "NOT_COORDINATOR", topic="orders")


def test_settings_are_the_brokers_and_a_wrong_one_is_explained() -> None:
    with Broker({"num.partitions": 3}) as broker:
        assert delivery(producer(broker), "made", b"1") is None
        assert broker.topics() == {"made": 3}
    wait_until(lambda: not broker.folder.exists(), "its files are removed")
    with pytest.raises(TestingError, match=r"num\.partitions"), Broker({"num.partitions": "many"}):
        pass


def test_the_async_form_starts_and_closes_one() -> None:
    async def use() -> Path:
        async with Broker() as broker:
            assert broker.topics() == {}
            return broker.folder

    folder = asyncio.run(use())

    wait_until(lambda: not folder.exists(), "its files are removed")


KILLED = """
import os, signal
from broker.testing import Broker
broker = Broker()
broker.start()
broker.reset()
print(broker.pid, broker.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_when_the_test_process_is_killed() -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    pid, folder = killed.stdout.split()

    wait_until(lambda: not Path("/proc", pid).exists(), "the broker ends")
    wait_until(lambda: not Path(folder).parent.exists(), "its files are removed")
