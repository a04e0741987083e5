"""kafka-acls.sh of Apache Kafka (newest release) against a broker with an authorizer."""

from collections.abc import Iterator

import pytest

from tests.compatibility.java.tools import JavaTools
from tests.support.acl_broker import AclBroker
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

ACLS = "org.apache.kafka.tools.AclCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AclBroker]:
    """A running broker with a topic."""
    broker = AclBroker(tmp_path_factory.mktemp("acls"))
    broker.start()
    with broker.client("admin") as admin:
        create_topic(admin, "orders")
    yield broker
    broker.stop()
    broker.check()


def at(broker: AclBroker, name: str = "admin") -> tuple[str, str]:
    return "--bootstrap-server", broker.addresses[name]


def code_of(client: WireClient) -> int:
    [found] = client.request("Metadata", 9, {"topics": [{"name": "orders"}]})["topics"]
    return int(found["error_code"])


def test_acls_are_added_listed_and_removed(java: JavaTools, secured: AclBroker) -> None:
    entry = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")

    added = java.run(ACLS, *at(secured), "--add", *entry)
    listed = java.run(ACLS, *at(secured), "--list", "--topic", "orders")
    with secured.client() as alice:
        allowed = code_of(alice)
        java.run(ACLS, *at(secured), "--remove", "--force", *entry)
        refused = code_of(alice)
    left = java.run(ACLS, *at(secured), "--list", "--topic", "orders")

    shown = "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
    assert shown in added
    assert shown in listed
    assert (allowed, refused) == (0, 29)
    assert shown not in left


def test_bundles_for_producers_and_consumers_are_added(java: JavaTools, secured: AclBroker) -> None:
    who = ("--allow-principal", "User:bob", "--topic", "orders")
    consumer = ("--consumer", "--group", "billing", "--resource-pattern-type", "prefixed")

    java.run(ACLS, *at(secured), "--add", *who, "--producer", "--transactional-id", "pay")
    java.run(ACLS, *at(secured), "--add", *who, *consumer)
    listed = java.run(ACLS, *at(secured), "--list", "--principal", "User:bob")
    java.run(ACLS, *at(secured), "--remove", "--force", *who, "--producer")

    for place in (
        "ResourcePattern(resourceType=TRANSACTIONAL_ID, name=pay, patternType=LITERAL)",
        "ResourcePattern(resourceType=GROUP, name=billing, patternType=PREFIXED)",
        "ResourcePattern(resourceType=TOPIC, name=orders, patternType=PREFIXED)",
        "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)",
        "operation=CREATE, permissionType=ALLOW",
    ):
        assert place in listed


def test_the_patterns_that_match_a_topic_are_listed(java: JavaTools, secured: AclBroker) -> None:
    who = ("--deny-principal", "User:*", "--deny-host", "192.0.2.7", "--operation", "All")
    java.run(
        ACLS, *at(secured), "--add", *who, "--topic", "ord", "--resource-pattern-type=prefixed"
    )

    listed = java.run(
        ACLS, *at(secured), "--list", "--topic", "orders", "--resource-pattern-type", "match"
    )

    assert "(principal=User:*, host=192.0.2.7, operation=ALL, permissionType=DENY)" in listed


def test_acls_are_not_for_those_who_may_not_see_them(java: JavaTools, secured: AclBroker) -> None:
    with pytest.raises(AssertionError, match="ClusterAuthorizationException"):
        java.run(ACLS, *at(secured, "alice"), "--list")
    with pytest.raises(AssertionError, match="ClusterAuthorizationException"):
        java.run(
            *(ACLS, *at(secured, "alice"), "--add", "--allow-principal", "User:alice"),
            *("--operation", "Read", "--topic", "orders"),
        )


def test_other_tools_say_what_is_not_authorized(java: JavaTools, secured: AclBroker) -> None:
    topics = java.run(TOPICS, *at(secured, "alice"), "--list")
    groups = java.run(GROUPS, *at(secured, "alice"), "--describe", "--group", "billing")
    with pytest.raises(AssertionError, match="TopicAuthorizationException"):
        java.run(TOPICS, *at(secured, "alice"), "--create", "--topic", "mine", "--partitions", "1")

    assert "GroupAuthorizationException" in groups
    assert "orders" not in topics
