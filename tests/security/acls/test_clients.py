"""The smallest sets of rights with which librdkafka's clients work, and what they say without."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.acl_broker import GROUP, TOPIC, TRANSACTIONAL_ID, AclBroker, acl
from tests.support.application_acls import application_acls, without
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic

TIMEOUT_S = 30
WRITE, READ = acl("Write", TOPIC, "t"), acl("Read", TOPIC, "t")


@pytest.fixture(scope="module")
def admin(secured: AclBroker) -> Iterator[WireClient]:
    with secured.client("admin") as client:
        create_topic(client, "t")
        yield client


def produced(secured: AclBroker, **config: object) -> KafkaError | None:
    """Produce a message; return its error."""
    errors: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": secured.addresses["alice"], "message.timeout.ms": 20_000, **config}
    )
    producer.produce("t", b"value", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return errors[0]


def consumed(secured: AclBroker, **config: object) -> KafkaError | None:
    """Consume a message as a member of a group; return the error instead."""
    consumer = Consumer(
        {
            "bootstrap.servers": secured.addresses["alice"],
            "group.id": "g",
            "auto.offset.reset": "earliest",
            **config,
        }
    )
    consumer.subscribe(["t"])
    try:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        if message.error() is None:
            consumer.commit(message=message, asynchronous=False)
        return message.error()
    finally:
        consumer.close()


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_producer_needs_write_on_its_topic(
    secured: AclBroker, admin: WireClient, is_idempotent: bool
) -> None:
    config = {"enable.idempotence": is_idempotent}
    if not is_idempotent:
        error = produced(secured, **config)
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with secured.acls(WRITE):
        assert produced(secured, **config) is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_needs_read_on_its_topic_and_group(
    secured: AclBroker, admin: WireClient, protocol: str
) -> None:
    config = {"group.protocol": protocol}
    with secured.acls(WRITE):
        assert produced(secured) is None
    with secured.acls(READ):
        error = consumed(secured, **config)
        assert error is not None
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    with secured.acls(READ, acl("Read", GROUP, "g")):
        # A group of another protocol is one of another name.
        own = {"group.id": f"g-{protocol}"}
        with secured.acls(acl("Read", GROUP, "g-", is_prefixed=True)):
            assert consumed(secured, **config, **own) is None


def test_a_transactional_producer_needs_write_on_its_id_too(
    secured: AclBroker, admin: WireClient
) -> None:
    config = {"bootstrap.servers": secured.addresses["alice"], "transactional.id": "x"}
    with secured.acls(WRITE), pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZ"):
        Producer(config).init_transactions(TIMEOUT_S)
    rights = (WRITE, acl("Write", TRANSACTIONAL_ID, "x"), READ, acl("Read", GROUP, "g"))
    with secured.acls(*rights):
        producer = Producer(config)
        producer.init_transactions(TIMEOUT_S)
        for _ in range(3):
            producer.begin_transaction()
            producer.produce("t", b"value")
            offsets = [TopicPartition("t", 0, 1)]
            reader = Consumer({"bootstrap.servers": secured.addresses["alice"], "group.id": "g"})
            producer.send_offsets_to_transaction(
                offsets, reader.consumer_group_metadata(), TIMEOUT_S
            )
            reader.close()
            producer.commit_transaction(TIMEOUT_S)


@pytest.mark.parametrize("place", [0, 1])
def test_a_transactional_producer_stops_without_any_of_the_least_rights(
    secured: AclBroker, admin: WireClient, place: int
) -> None:
    name = f"without-{place}"
    rights = application_acls(
        "producer, transactional", "User:alice", topic="t", transactional_id=name
    )
    assert len(rights) == 2
    config = {"bootstrap.servers": secured.addresses["alice"], "transactional.id": name}
    with secured.acls(*without(rights, place).left):
        producer = Producer(config)
        with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
            transact(producer)
    with secured.acls(*rights):
        transact(Producer(config))


def transact(producer: Producer) -> None:
    """Commit a transaction of one record."""
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    failures: list[KafkaError] = []
    producer.produce(
        "t", b"value", on_delivery=lambda error, _: failures.extend([error] if error else [])
    )
    assert producer.flush(TIMEOUT_S) == 0
    if failures:
        raise KafkaException(failures[0])
    producer.commit_transaction(TIMEOUT_S)


def test_a_pattern_matches_only_topics_that_the_member_may_describe(
    secured: AclBroker, admin: WireClient
) -> None:
    names = [f"seen-{number}" for number in range(3)]
    for name in names:
        create_topic(admin, name)
    rights = [acl("Describe", TOPIC, name) for name in names[:2]]
    heartbeat = {
        "group_id": "patterns",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": [],
        "subscribed_topic_regex": "seen-.*",
        "topic_partitions": [],
    }
    with (
        secured.acls(*rights, acl("Read", GROUP, "patterns")),
        secured.client() as alice,
    ):
        joined = alice.request("ConsumerGroupHeartbeat", 1, heartbeat)
        described = {"group_ids": ["patterns"], "include_authorized_operations": False}
        [group] = admin.request("ConsumerGroupDescribe", 1, described)["groups"]

    assert joined["error_code"] == 0, joined
    assert len(joined["assignment"]["topic_partitions"]) == 2
    [member] = group["members"]
    for assigned in (member["assignment"], member["target_assignment"]):
        assert sorted(each["topic_name"] for each in assigned["topic_partitions"]) == names[:2]
