"""What a broker does with what it does not lead: the table in src/broker/core/README.md.

Broker 1 of three leads partition 0 of topic "a" with leader epoch 4; broker 2 leads partition 1
with epoch 7. What happens while a request waits in a native log is in
tests/native/wire/test_lease_end.py, coordinators are in coordination/test_not_coordinating.py.
"""

import asyncio
from collections.abc import Hashable
from typing import Any

import pytest

from broker.core.cluster.records import NO_LEADER
from broker.core.cluster_view import KnownBroker, Leadership
from broker.core.session import Session
from broker.core.topics.interfaces import LeadsAll
from broker.core.topics.roles import Role
from broker.core.topics.topic import Topic
from broker.core.writing import write
from broker.model.errors import ErrorCode, RequestError
from tests.support.fakes import FakeBroker, batch, only

LED, ELSEWHERE = 0, 1
EPOCH, EPOCH_ELSEWHERE = 4, 7
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH, WRITE_TXN_MARKERS, DESCRIBE_PRODUCERS = 21, 23, 27, 61
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER.number
FENCED_EPOCH = ErrorCode.FENCED_LEADER_EPOCH.number
UNKNOWN_EPOCH = ErrorCode.UNKNOWN_LEADER_EPOCH.number
BROKER_2 = {"node_id": 2, "host": "two.example", "port": 9092, "rack": "r2"}


class Leads(LeadsAll):
    """This broker leads partition 0."""

    def role(self, _topic_id: bytes, partition: int, /) -> Role | None:
        return Role(True, EPOCH, 1, (1,), (1,)) if partition == LED else None


class View:
    """Three brokers, as the image of broker 1 has them."""

    controller_id = 3
    controller_epoch = 1
    revision: Hashable = 0
    reader_racks: dict[int, bytes] = {}  # noqa: RUF012 (it stays empty)

    def __init__(self) -> None:
        self.led = Leadership(1, EPOCH, (1,), (1,))
        self.elsewhere = Leadership(2, EPOCH_ELSEWHERE, (2,), (2,))

    def brokers(self, host: str, port: int, _listener: object = None) -> list[KnownBroker]:
        return [
            KnownBroker(1, host, port, "r1"),
            KnownBroker(2, "two.example", 9092, "r2"),
            KnownBroker(3, "three.example", 9092, "r3"),
        ]

    def leadership(self, _topic: Topic, partition: int) -> Leadership:
        return self.led if partition == LED else self.elsewhere


class Broker(FakeBroker):
    """Broker 1."""

    def __init__(self) -> None:
        super().__init__(leadership=Leads())
        self.view = View()
        self.broker = self.broker._replace(cluster=self.view)
        self.session = Session(self.broker, "127.0.0.1", "one.example", 9092)
        self.topic = self.create("a", 2)

    def produce(self, version: int, partition: int, *, acks: int = -1) -> Any:
        return self.ask(PRODUCE, version, **self.produce_fields(partition, acks))

    def produce_fields(self, partition: int, acks: int = -1) -> dict[str, Any]:
        data = [{"index": partition, "records": batch()}]
        topic = {"name": "a", "topic_id": self.topic.topic_id, "partition_data": data}
        return {"acks": acks, "timeout_ms": 1000, "topic_data": [topic]}

    def fetch(self, version: int, partition: int, *, epoch: int = -1) -> Any:
        wanted = {
            "partition": partition,
            "fetch_offset": 0,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": epoch,
        }
        topic = {"topic": "a", "topic_id": self.topic.topic_id, "partitions": [wanted]}
        fields: dict[str, Any] = {
            "min_bytes": 0,
            "max_wait_ms": 0,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
        }
        return self.ask(FETCH, version, topics=[topic], **fields)

    def list_offsets(self, partition: int, *, epoch: int = -1) -> int:
        wanted = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": -1}
        answer = self.ask(LIST_OFFSETS, 7, topics=[{"name": "a", "partitions": [wanted]}])
        return code_of(answer["topics"])

    def offset_for_leader_epoch(self, partition: int, *, epoch: int = -1) -> int:
        wanted = {"partition": partition, "current_leader_epoch": epoch, "leader_epoch": 0}
        fields: dict[str, Any] = {"topics": [{"topic": "a", "partitions": [wanted]}]}
        return code_of(self.ask(OFFSET_FOR_LEADER_EPOCH, 4, **fields)["topics"])

    def delete_records(self, partition: int) -> int:
        wanted = {"partition_index": partition, "offset": -1}
        fields: dict[str, Any] = {
            "topics": [{"name": "a", "partitions": [wanted]}],
            "timeout_ms": 1000,
        }
        return code_of(self.ask(DELETE_RECORDS, 2, **fields)["topics"])

    def write_marker(self, partition: int) -> int:
        marker = {
            "producer_id": 5,
            "producer_epoch": 0,
            "transaction_result": True,
            "coordinator_epoch": 0,
            "topics": [{"name": "a", "partition_indexes": [partition]}],
        }
        answer = only(self.ask(WRITE_TXN_MARKERS, 1, markers=[marker])["markers"])
        return code_of(answer["topics"])


def code_of(topics: list[Any]) -> int:
    """Return the error code of the only partition of a response."""
    code: int = only(only(topics)["partitions"])["error_code"]
    return code


def produced(answer: Any) -> Any:
    return only(only(answer["responses"])["partition_responses"])


def fetched(answer: Any) -> Any:
    return only(only(answer["responses"])["partitions"])


@pytest.fixture
def broker() -> Broker:
    return Broker()


# ---- a partition that another broker leads -------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
def test_a_produce_to_another_brokers_partition_gets_not_leader_and_since_v10_the_leader(
    broker: Broker, version: int
) -> None:
    answer = broker.produce(version, ELSEWHERE)

    part = produced(answer)
    assert (part["error_code"], part["base_offset"]) == (NOT_LEADER, -1)
    if version >= 10:
        assert part["current_leader"] == {"leader_id": 2, "leader_epoch": EPOCH_ELSEWHERE}
        assert answer["node_endpoints"] == [BROKER_2]


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_from_another_brokers_partition_gets_not_leader_and_since_v16_the_leader(
    broker: Broker, version: int
) -> None:
    answer = broker.fetch(version, ELSEWHERE)

    part = fetched(answer)
    assert part["error_code"] == NOT_LEADER
    if version >= 16:
        assert part["current_leader"] == {"leader_id": 2, "leader_epoch": EPOCH_ELSEWHERE}
        assert answer["node_endpoints"] == [BROKER_2]
    else:
        assert part.get("current_leader", {}).get("leader_id", -1) == -1, "as Kafka 4.3"


def test_no_leader_is_named_while_the_partition_has_none(broker: Broker) -> None:
    broker.view.elsewhere = Leadership(NO_LEADER, 8, (2,), (2,))

    answers = broker.produce(10, ELSEWHERE), broker.fetch(16, ELSEWHERE)

    parts = produced(answers[0]), fetched(answers[1])
    assert [each["error_code"] for each in parts] == [NOT_LEADER] * 2
    assert [list(each["current_leader"].values()) for each in parts] == [[-1, -1]] * 2
    assert [each["node_endpoints"] for each in answers] == [[], []]


def test_a_list_offsets_of_another_brokers_partition_gets_not_leader(broker: Broker) -> None:
    assert broker.list_offsets(ELSEWHERE) == NOT_LEADER


def test_an_offset_for_leader_epoch_of_another_brokers_partition_gets_not_leader(
    broker: Broker,
) -> None:
    assert broker.offset_for_leader_epoch(ELSEWHERE) == NOT_LEADER


def test_a_delete_records_of_another_brokers_partition_gets_not_leader(broker: Broker) -> None:
    assert broker.delete_records(ELSEWHERE) == NOT_LEADER


def test_a_describe_producers_of_another_brokers_partition_gets_not_leader(broker: Broker) -> None:
    wanted = [{"name": "a", "partition_indexes": [ELSEWHERE]}]
    assert code_of(broker.ask(DESCRIBE_PRODUCERS, 0, topics=wanted)["topics"]) == NOT_LEADER


def test_a_marker_for_a_log_that_is_being_released_gets_not_leader(broker: Broker) -> None:
    broker.log("a").admit_transaction(5, 0)
    broker.log("a").is_led = False

    assert broker.write_marker(LED) == NOT_LEADER
    assert not broker.log("a").batches


# ---- an image that is behind the client's, or ahead of it ----------------------------------------

ASKED = ("fetch", "list_offsets", "offset_for_leader_epoch")


def refusal(broker: Broker, asked: str, partition: int, epoch: int) -> int:
    if asked == "fetch":
        code: int = fetched(broker.fetch(16, partition, epoch=epoch))["error_code"]
        return code
    if asked == "list_offsets":
        return broker.list_offsets(partition, epoch=epoch)
    return broker.offset_for_leader_epoch(partition, epoch=epoch)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("partition", "epoch"), [(LED, EPOCH), (ELSEWHERE, EPOCH_ELSEWHERE)])
def test_a_client_that_is_ahead_of_the_image_gets_unknown_leader_epoch(
    broker: Broker, asked: str, partition: int, epoch: int
) -> None:
    assert refusal(broker, asked, partition, epoch + 1) == UNKNOWN_EPOCH


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("partition", "epoch"), [(LED, EPOCH), (ELSEWHERE, EPOCH_ELSEWHERE)])
def test_a_client_that_is_behind_the_image_gets_fenced_leader_epoch(
    broker: Broker, asked: str, partition: int, epoch: int
) -> None:
    assert refusal(broker, asked, partition, epoch - 1) == FENCED_EPOCH


@pytest.mark.parametrize("asked", ASKED)
def test_a_client_that_knows_what_the_image_knows_gets_not_leader_from_another_broker(
    broker: Broker, asked: str
) -> None:
    assert refusal(broker, asked, LED, EPOCH) == 0
    assert refusal(broker, asked, ELSEWHERE, EPOCH_ELSEWHERE) == NOT_LEADER


def test_a_fetch_with_an_older_leader_epoch_gets_the_leader(broker: Broker) -> None:
    answer = broker.fetch(16, ELSEWHERE, epoch=EPOCH_ELSEWHERE - 1)
    own = broker.fetch(16, LED, epoch=EPOCH - 1)

    assert fetched(answer)["current_leader"] == {"leader_id": 2, "leader_epoch": EPOCH_ELSEWHERE}
    assert answer["node_endpoints"] == [BROKER_2]
    assert fetched(own)["current_leader"] == {"leader_id": 1, "leader_epoch": EPOCH}
    assert [each["host"] for each in own["node_endpoints"]] == ["one.example"]


# ---- a topic that another broker has created a moment ago ----------------------------------------


def test_a_topic_that_is_not_in_the_image_yet_gets_errors_on_which_clients_ask_again(
    broker: Broker,
) -> None:
    by_name = {"name": "new", "partition_data": [{"index": 0, "records": batch()}]}
    by_id = {**by_name, "topic_id": bytes(range(16))}
    fields: dict[str, Any] = {"acks": -1, "timeout_ms": 1000}

    codes = [
        produced(broker.ask(PRODUCE, version, topic_data=[topic], **fields))["error_code"]
        for version, topic in ((12, by_name), (13, by_id))
    ]
    asked: dict[str, Any] = {"topics": [{"name": "new"}], "allow_auto_topic_creation": False}
    described = only(broker.ask(METADATA, 9, **asked)["topics"])

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [unknown.number, ErrorCode.UNKNOWN_TOPIC_ID.number]
    assert described["error_code"] == unknown.number
    assert unknown.is_retriable
    assert ErrorCode.UNKNOWN_TOPIC_ID.is_retriable


# ---- a log that is loading -----------------------------------------------------------------------


def test_a_partition_that_is_loading_gets_not_leader_whatever_epoch_its_client_knows(
    broker: Broker,
) -> None:
    broker.log("a").is_loading = True

    assert produced(broker.produce(12, LED))["error_code"] == NOT_LEADER
    for epoch in (-1, EPOCH - 1, EPOCH, EPOCH + 1):
        assert [refusal(broker, asked, LED, epoch) for asked in ASKED] == [NOT_LEADER] * 3
    assert broker.delete_records(LED) == NOT_LEADER
    assert broker.write_marker(LED) == NOT_LEADER


# ---- a lease that has ended ----------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_produce_after_the_lease_gets_not_leader_and_appends_nothing(
    broker: Broker, version: int
) -> None:
    broker.log("a").is_led = False

    answer = produced(broker.produce(version, LED))

    assert (answer["error_code"], answer["base_offset"]) == (NOT_LEADER, -1)
    assert not broker.log("a").batches


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_produce_that_is_durable_only_after_the_lease_gets_not_leader(
    broker: Broker, version: int
) -> None:
    log = broker.log("a")
    log.is_held = True

    async def scenario() -> Any:
        asked = broker.ask_soon(PRODUCE, version, **broker.produce_fields(LED))
        task = asyncio.ensure_future(asked)
        while not log.callback_count:
            await asyncio.sleep(0)
        log.is_led = False
        log.sync()
        return await task

    answer = produced(asyncio.run(scenario()))
    assert (answer["error_code"], answer["base_offset"]) == (NOT_LEADER, -1)
    assert log.high_watermark == 1


def test_records_of_the_dialects_get_not_leader_after_the_lease(broker: Broker) -> None:
    broker.log("a").is_led = False

    with pytest.raises(RequestError) as caught:
        asyncio.run(write(broker.broker, broker.topic, LED, [(None, b"value", None)]))

    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not broker.log("a").batches


def test_a_delete_records_after_the_lease_gets_not_leader(broker: Broker) -> None:
    broker.produce(9, LED)
    broker.log("a").is_led = False

    assert broker.delete_records(LED) == NOT_LEADER
    assert broker.log("a").log_start_offset == 0


def test_a_delete_records_whose_lease_ends_meanwhile_gets_not_leader(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = broker.log("a")

    def move_log_start(_offset: int) -> None:
        log.is_led = False

    monkeypatch.setattr(log, "move_log_start", move_log_start)

    assert broker.delete_records(LED) == NOT_LEADER


def test_a_marker_that_is_durable_only_after_the_lease_gets_not_leader(broker: Broker) -> None:
    log = broker.log("a")
    log.admit_transaction(5, 0)
    log.is_held = True
    when_synced = log.when_synced

    def lose_and_sync(offset: int, callback: Any) -> None:
        when_synced(offset, callback)
        log.is_led = False
        log.sync()

    log.when_synced = lose_and_sync  # type: ignore[method-assign]

    assert broker.write_marker(LED) == NOT_LEADER


def test_committed_records_offsets_and_metadata_are_read_after_the_lease(broker: Broker) -> None:
    broker.produce(9, LED)
    broker.log("a").is_led = False

    assert fetched(broker.fetch(16, LED))["records"]
    assert broker.list_offsets(LED) == 0
    assert broker.offset_for_leader_epoch(LED) == 0
    described = only(broker.ask(METADATA, 9, topics=[{"name": "a"}])["topics"])
    assert [each["leader_id"] for each in described["partitions"]] == [1, 2]
