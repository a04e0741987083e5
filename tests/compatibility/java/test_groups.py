"""Groups of Java consumers, of the newest release and of one before Kafka 4."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.compatibility.java.tools import NEWEST, OLDER, JavaTools, Release
from tests.support.broker_process import Broker, BrokerProcess

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

PROGRAM = "Groups.java"
QUICK = (
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=200",
    "group.consumer.heartbeat.interval.ms=200",
)
ASSIGNOR = "partition.assignment.strategy=org.apache.kafka.clients.consumer."


@dataclass(frozen=True)
class Kind:
    """A release, and the settings that make its consumers use one of the protocols."""

    release: Release
    options: tuple[str, ...]

    def __str__(self) -> str:
        """Return the test id."""
        return f"{self.release.version}-{self.options[0].rpartition('.')[2]}"


def classic(release: Release, assignor: str) -> Kind:
    """Return a kind of the classic protocol, whose assignor moves the partitions."""
    return Kind(release, (ASSIGNOR + assignor, "heartbeat.interval.ms=200"))


def server_side(release: Release) -> Kind:
    """Return a kind whose partitions the broker assigns (KIP-848)."""
    return Kind(release, ("group.protocol=consumer",))


EAGER = classic(OLDER, "RangeAssignor")
COOPERATIVE = classic(NEWEST, "CooperativeStickyAssignor")
SERVER_SIDE = server_side(NEWEST)
ALL = [
    EAGER,
    classic(NEWEST, "RangeAssignor"),
    classic(OLDER, "CooperativeStickyAssignor"),
    COOPERATIVE,
    server_side(OLDER),
    SERVER_SIDE,
]


@pytest.fixture(scope="module")
def broker(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose groups notice changes soon."""
    if not isinstance(shared_broker, BrokerProcess):
        yield shared_broker
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("quick"), settings=QUICK)
    broker.start()
    yield broker
    assert broker.stop() == 0
    broker.check()


@pytest.fixture
def java_of(request: pytest.FixtureRequest) -> JavaTools:
    """The jars of the kind under test."""
    java: JavaTools = request.getfixturevalue(
        "java" if request.getfixturevalue("kind").release is NEWEST else "older_java"
    )
    return java


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_members_share_the_partitions_and_the_next_member_resumes_at_their_commits(
    java_of: JavaTools, broker: Broker, topic: str, kind: Kind
) -> None:
    seen = java_of.facts(PROGRAM, broker.address, topic, "shares", *kind.options)

    assert seen == {
        "alone": f"[0, 1, 2, 3] reads {list(range(40))}",
        "shared": "[0, 1, 2, 3]",
        "together": f"40 reads {list(range(40, 80))}",
        "resumed": "[80, 81, 82, 83]",
    }


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE, SERVER_SIDE], ids=str)
def test_a_static_member_gets_its_partitions_back_without_a_rebalance(
    java_of: JavaTools, broker: Broker, topic: str, kind: Kind
) -> None:
    seen = java_of.facts(PROGRAM, broker.address, topic, "returns", *kind.options)

    assert seen == {"kept": "true", "noticed": "0"}


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE, SERVER_SIDE], ids=str)
def test_a_pattern_subscription_follows_new_topics(
    java_of: JavaTools, broker: Broker, topic: str, kind: Kind
) -> None:
    seen = java_of.facts(PROGRAM, broker.address, topic, "follows", *kind.options)

    assert seen == {"topics": f"[{topic}-a, {topic}-b]", "read": str(list(range(8)))}


@pytest.mark.slow("each member in turn leaves and comes back")
@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE], ids=str)
def test_members_migrate_to_the_new_protocol_and_back_and_no_partition_has_two_owners(
    java_of: JavaTools, broker: Broker, topic: str, kind: Kind
) -> None:
    seen = java_of.facts(PROGRAM, broker.address, topic, "rolls", *kind.options)

    assert seen == {
        "after start": "Classic",
        "after up": "Consumer",
        "after down": "Classic",
        "read": "36",
    }


def test_the_broker_resolves_a_pattern_and_refuses_an_invalid_one(
    java: JavaTools, broker: Broker, topic: str
) -> None:
    seen = java.facts("Patterns.java", broker.address, topic)

    assert seen == {
        "topics": f"[{topic}-a, {topic}-b]",
        "wrong": "InvalidRegularExpression",
    }
