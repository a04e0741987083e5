"""CreateAcls, DescribeAcls and DeleteAcls against a real process, as Apache Kafka answers them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.acl_broker import (
    ANY_ACL,
    CLUSTER,
    GROUP,
    OPERATIONS,
    PREFIXED,
    TOPIC,
    AclBroker,
    acl,
    create_acls,
    delete_acls,
    exact_filter,
)
from tests.support.broker_process import Broker
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic

SECURITY_DISABLED, INVALID, UNKNOWN, POLICY = 54, 42, -1, 44
ANY, MATCH = 1, 2
ROWS = 10_000


@pytest.fixture
def admin(secured: AclBroker) -> Iterator[WireClient]:
    with secured.client("admin") as client:
        yield client
        delete_acls(client, ANY_ACL)


def described(client: WireClient, **fields: Any) -> set[tuple[Any, ...]]:
    """Return the ACLs that a filter finds."""
    answer = client.request("DescribeAcls", 3, ANY_ACL | fields)
    assert answer["error_code"] == 0, answer
    return {
        (
            *(resource["resource_type"], resource["resource_name"], resource["pattern_type"]),
            *(each["principal"], each["host"], each["operation"], each["permission_type"]),
        )
        for resource in answer["resources"]
        for each in resource["acls"]
    }


def test_an_acl_that_is_created_twice_is_once_there(admin: WireClient) -> None:
    entry = acl("Read", TOPIC, "t")

    assert create_acls(admin, entry, entry) == [0, 0]
    assert create_acls(admin, entry) == [0]

    assert described(admin) == {(2, "t", 3, "User:alice", "*", 3, 3)}
    assert delete_acls(admin, exact_filter(entry)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"principal": "alice"},
        {"principal": ""},
        {"resource_name": ""},
        {"resource_type": CLUSTER, "resource_name": "cluster"},
    ],
)
def test_an_invalid_acl_is_refused_and_the_others_are_made(
    admin: WireClient, fields: dict[str, Any]
) -> None:
    good = acl("Read", TOPIC, "t")
    answer = admin.request("CreateAcls", 3, {"creations": [good | fields, good]})

    assert [each["error_code"] for each in answer["results"]] == [INVALID, 0]
    assert answer["results"][0]["error_message"]
    assert len(described(admin)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": ANY},
        {"operation": ANY},
        {"permission_type": ANY},
        {"resource_pattern_type": ANY},
        {"resource_pattern_type": MATCH},
    ],
)
def test_words_of_filters_are_no_acl_and_nothing_is_made(
    admin: WireClient, fields: dict[str, Any]
) -> None:
    good = acl("Read", TOPIC, "t")

    assert create_acls(admin, good | fields, good) == [UNKNOWN, UNKNOWN]
    assert described(admin) == set()


@pytest.mark.parametrize("number", [0, 99, -1])
@pytest.mark.parametrize(
    "field", ["resource_type", "operation", "permission_type", "resource_pattern_type"]
)
def test_unknown_numbers_close_the_connection(
    secured: AclBroker, admin: WireClient, field: str, number: int
) -> None:
    secured.expected_complaints.append("of access control entries")
    with secured.client("admin") as client:
        client.send("CreateAcls", 3, {"creations": [acl("Read", TOPIC, "t") | {field: number}]})
        client.expect_closed()
    filters = {
        "resource_type": "resource_type_filter",
        "resource_pattern_type": "pattern_type_filter",
    }
    with secured.client("admin") as client:
        client.send("DescribeAcls", 3, ANY_ACL | {filters.get(field, field): number})
        client.expect_closed()


def test_neither_hosts_nor_operations_nor_names_of_topics_are_checked(admin: WireClient) -> None:
    entries = [
        acl("Read", TOPIC, "t", host="localhost"),
        acl("IdempotentWrite", TOPIC, "a/b c"),
        acl("Read", TOPIC, "t", principal="User:"),
        acl("Read", TOPIC, "t", principal="Group:x"),
    ]

    assert create_acls(admin, *entries) == [0] * len(entries)
    assert len(described(admin)) == len(entries)


FILTERED = {
    "literal": acl("Read", TOPIC, "topic"),
    "prefix": acl("Read", TOPIC, "to", is_prefixed=True),
    "same prefix": acl("Read", TOPIC, "topic", is_prefixed=True),
    "star": acl("All", TOPIC, "*", is_denial=True),
    "group": acl("Read", GROUP, "topic"),
    "bob": acl("Write", TOPIC, "topic", principal="User:bob", host="192.0.2.7"),
}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, set(FILTERED)),
        ({"resource_type_filter": TOPIC, "resource_name_filter": "topic"},
         {"literal", "same prefix", "bob"}),
        ({"resource_type_filter": TOPIC, "resource_name_filter": "topic",
          "pattern_type_filter": MATCH}, {"literal", "prefix", "same prefix", "star", "bob"}),
        ({"resource_type_filter": TOPIC, "resource_name_filter": "*", "pattern_type_filter": 3},
         {"star"}),
        ({"resource_name_filter": "to", "pattern_type_filter": PREFIXED}, {"prefix"}),
        ({"principal_filter": "User:bob"}, {"bob"}),
        ({"host_filter": "192.0.2.7"}, {"bob"}),
        ({"operation": OPERATIONS["All"]}, {"star"}),
        ({"permission_type": 2}, {"star"}),
    ],
)  # fmt: skip
def test_filters_find_and_delete_what_they_do_in_kafka(
    admin: WireClient, fields: dict[str, Any], found: set[str]
) -> None:
    assert create_acls(admin, *FILTERED.values()) == [0] * len(FILTERED)

    assert len(described(admin, **fields)) == len(found)
    assert delete_acls(admin, ANY_ACL | fields) == len(found)

    left = [entry for name, entry in FILTERED.items() if name not in found]
    assert delete_acls(admin, *map(exact_filter, left)) == len(left)
    assert described(admin) == set()


def test_filters_of_one_request_are_applied_to_the_entries_before_it(admin: WireClient) -> None:
    entry = acl("Read", TOPIC, "t")
    create_acls(admin, entry)

    assert delete_acls(admin, exact_filter(entry), ANY_ACL) == 2
    assert delete_acls(admin, ANY_ACL) == 0


@pytest.mark.parametrize("version", range(4))
def test_every_version_creates_describes_and_deletes(admin: WireClient, version: int) -> None:
    entry = acl("Read", TOPIC, "t")
    wanted = exact_filter(entry)
    if version == 0:
        del entry["resource_pattern_type"], wanted["pattern_type_filter"]

    [created] = admin.request("CreateAcls", version, {"creations": [entry]})["results"]
    [found] = admin.request("DescribeAcls", version, wanted)["resources"]
    [deleted] = admin.request("DeleteAcls", version, {"filters": [wanted]})["filter_results"]

    assert created["error_code"] == 0
    assert found["resource_name"] == "t"
    assert len(deleted["matching_acls"]) == 1


@pytest.mark.parametrize(
    "principal",
    ["User:CN=a,OU=b\\,c", "User:ü名", "User:a b", "User:'\"; --", "User:a:b", "User:\x00"],
)
def test_principals_with_odd_characters_are_kept_as_they_are(
    secured: AclBroker, admin: WireClient, principal: str
) -> None:
    assert create_acls(admin, acl("Read", TOPIC, "t", principal=principal)) == [0]

    [(*_, found, _, _, _)] = described(admin, principal_filter=principal)
    assert found == principal


def test_an_acl_that_is_too_large_is_refused(admin: WireClient) -> None:
    entry = acl("Read", TOPIC, "t", principal="User:" + "x" * 20_000)

    assert create_acls(admin, entry) == [INVALID]
    assert described(admin) == set()


def test_a_store_of_ten_thousand_acls_is_served_and_read_again(
    secured: AclBroker, admin: WireClient
) -> None:
    create_topic(admin, "t9999")
    for first in range(0, ROWS, 1_000):
        entries = [
            acl("Read", TOPIC, f"t{number}", principal=f"User:{number % 500}")
            for number in range(first, first + 1_000)
        ]
        assert create_acls(admin, *entries) == [0] * len(entries)
    create_acls(admin, acl("Read", TOPIC, "t9999"))

    def code() -> int:
        with secured.client() as alice:
            [found] = alice.request("Metadata", 9, {"topics": [{"name": "t9999"}]})["topics"]
            return int(found["error_code"])

    assert code() == 0
    assert len(described(admin)) == ROWS + 1
    secured.kill()
    secured.start()
    admin.reconnect()
    assert code() == 0
    assert delete_acls(admin, ANY_ACL | {"principal_filter": "User:7"}) == ROWS // 500
    assert len(described(admin)) == ROWS + 1 - ROWS // 500


def test_acls_have_a_limit(secured: AclBroker, admin: WireClient) -> None:
    entries = [acl("Read", TOPIC, f"t{number}") for number in range(10_000)]
    assert set(create_acls(admin, *entries)) == {0}
    assert set(create_acls(admin, *(each | {"principal": "User:bob"} for each in entries))) == {0}

    assert create_acls(admin, acl("Read", TOPIC, "more")) == [POLICY]
    assert create_acls(admin, entries[0]) == [0], "it is there already"


def test_without_an_authorizer_there_are_no_acls(broker: Broker) -> None:
    with WireClient(broker.address) as client:
        answer = client.request("DescribeAcls", 3, ANY_ACL)

        assert answer["error_code"] == SECURITY_DISABLED
        assert create_acls(client, acl("Read", TOPIC, "t")) == [SECURITY_DISABLED]
