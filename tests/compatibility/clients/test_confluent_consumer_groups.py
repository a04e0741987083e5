"""librdkafka in groups of the consumer protocol (KIP-848): group.protocol=consumer."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.clients.confluent_client import read_record
from tests.support.broker_process import BrokerProcess, wait_until

StartBroker = Callable[..., BrokerProcess]
GROUP = "assigned-by-the-broker"
TOPIC = "orders"
PARTITIONS = 6
STICKY = "cooperative-sticky"
# Shortened for the tests; Kafka's defaults are 5 s and 45 s.
QUICK = (
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
    "group.consumer.min.session.timeout.ms=1000",
)


class Fleet:
    """Consumers that are polled in turn, and what each has read."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.members: list[Consumer] = []
        self.read: list[bytes] = []
        self.admin = AdminClient({"bootstrap.servers": address})
        self.create_topics(**{TOPIC: PARTITIONS})

    def create_topics(self, **partitions: int) -> None:
        topics = [NewTopic(name, count, 1) for name, count in partitions.items()]
        for created in self.admin.create_topics(topics).values():
            created.result()

    def write(self, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.address})
        for place, value in enumerate(values):
            producer.produce(TOPIC, value, partition=place % PARTITIONS)
        assert producer.flush(60) == 0

    def join(self, topic: str = TOPIC, **more: object) -> Consumer:
        config = {
            "bootstrap.servers": self.address,
            "group.id": GROUP,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
        }
        config |= {name.replace("_", "."): value for name, value in more.items()}
        member = Consumer(config)
        member.subscribe([topic])
        self.members.append(member)
        return member

    def poll(self) -> None:
        for member in self.members:
            self.read += [
                record.value
                for record in map(read_record, member.consume(100, 0.02))
                if record.value is not None
            ]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            self.poll()
            self.check()
            return condition()

        wait_until(holds, what)

    def partitions(self, member: Consumer) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in member.assignment()}

    def check(self) -> None:
        """Check that no partition has two owners."""
        owned = [place for member in self.members for place in self.partitions(member)]
        assert len(owned) == len(set(owned))

    def is_shared(self, *counts: int) -> Callable[[], bool]:
        """Return whether the members have these numbers of partitions, in any order."""
        return lambda: sorted(len(self.partitions(each)) for each in self.members) == sorted(counts)

    def close(self) -> None:
        while self.members:
            self.members.pop().close()


@pytest.fixture
def session_ms() -> int:
    """Return the session timeout: long enough that a busy machine does not expire live members."""
    return 10_000


@pytest.fixture
def fleet(start_broker: StartBroker, session_ms: int) -> Iterator[Fleet]:
    session = f"group.consumer.session.timeout.ms={session_ms}"
    fleet = Fleet(start_broker(*QUICK, session).address)
    yield fleet
    fleet.close()


def test_members_share_the_partitions_as_they_come_and_go(fleet: Fleet) -> None:
    for counts in ((6,), (3, 3), (2, 2, 2)):
        fleet.join()
        fleet.until(fleet.is_shared(*counts), f"{len(counts)} members share")

    fleet.members.pop(0).close()

    fleet.until(fleet.is_shared(3, 3), "the others take what the first one had")


def test_the_group_resumes_where_it_has_committed(fleet: Fleet) -> None:
    values = [b"%d" % each for each in range(60)]
    fleet.write(*values[:30])
    member = fleet.join()
    fleet.until(lambda: len(fleet.read) == 30, "the first half is read")
    member.commit(asynchronous=False)
    fleet.close()

    fleet.write(*values[30:])
    fleet.join()

    fleet.until(lambda: len(fleet.read) == 60, "the other half is read, and nothing twice")
    assert sorted(fleet.read) == sorted(values)


@pytest.mark.parametrize("session_ms", [3_000])
def test_a_static_member_that_does_not_come_back_is_replaced_when_its_session_ends(
    fleet: Fleet,
) -> None:
    fleet.join()
    fleet.until(fleet.is_shared(6), "one has them all")
    lost = fleet.join(group_instance_id="comes-back")
    fleet.until(fleet.is_shared(3, 3), "two share")

    fleet.members.remove(lost)
    lost.close()  # It announces its return and does not return.

    fleet.until(fleet.is_shared(6), "the other has them all again")


def test_a_pattern_subscription_follows_new_topics(fleet: Fleet) -> None:
    member = fleet.join("^or.*")
    fleet.until(fleet.is_shared(6), "the topic is matched")

    fleet.create_topics(oranges=2, pears=2)

    fleet.until(fleet.is_shared(8), "the new topic is matched")
    assert {topic for topic, _ in fleet.partitions(member)} == {TOPIC, "oranges"}


def test_members_migrate_from_the_classic_protocol_and_back(fleet: Fleet) -> None:
    for protocol in ("classic", "consumer", "classic"):
        for place in range(2):
            if len(fleet.members) == 2:
                fleet.members.pop(0).close()
            fleet.join(
                group_protocol=protocol,
                **{} if protocol == "consumer" else {"partition_assignment_strategy": STICKY},
            )
            counts = (6,) if len(fleet.members) == 1 else (3, 3)
            fleet.until(fleet.is_shared(*counts), f"{protocol} {place} has its share")


def test_admin_tools_see_a_consumer_group(fleet: Fleet) -> None:
    fleet.join(client_id="reader")
    fleet.until(fleet.is_shared(6), "one has them all")

    described = fleet.admin.describe_consumer_groups([GROUP])[GROUP].result()
    listed = fleet.admin.list_consumer_groups().result().valid

    assert (described.state, described.type) == (
        ConsumerGroupState.STABLE,
        ConsumerGroupType.CONSUMER,
    )
    [member] = described.members
    assert member.client_id == "reader"
    assert len(member.assignment.topic_partitions) == PARTITIONS
    assert [(each.group_id, each.type) for each in listed] == [(GROUP, ConsumerGroupType.CONSUMER)]
