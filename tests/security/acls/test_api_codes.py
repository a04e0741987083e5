"""The codes and rights of each API against a real process: what is refused, and what lifts it.

Rights are given one after the other. Before each one the answer has its code and no other one of
authorization; with all of them it has none.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.acl_broker import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    AclBroker,
    acl,
    create_acls,
)
from tests.support.broker_process import wait_until
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import Batch
from tests.support.wire_requests import create_topic

TOPIC_FAILED, GROUP_FAILED, CLUSTER_FAILED, TRANSACTION_FAILED = 29, 30, 31, 53
OF_AUTHORIZATION = {29, 30, 31, 53, 65}


class Row(NamedTuple):
    """A request, and the rights that it needs in the order in which they are checked."""

    name: str
    version: int
    body: dict[str, Any]
    needs: list[tuple[dict[str, Any], int]]
    label: str = ""


def topic(operation: str, name: str = "t") -> tuple[dict[str, Any], int]:
    return acl(operation, TOPIC, name), TOPIC_FAILED


def group(operation: str) -> tuple[dict[str, Any], int]:
    return acl(operation, GROUP, "g"), GROUP_FAILED


def cluster(operation: str) -> tuple[dict[str, Any], int]:
    return acl(operation, CLUSTER), CLUSTER_FAILED


def transaction(operation: str) -> tuple[dict[str, Any], int]:
    return acl(operation, TRANSACTIONAL_ID, "x"), TRANSACTION_FAILED


def produce(**fields: Any) -> dict[str, Any]:
    partition = {"index": 0, "records": Batch([b"value"]).encode()}
    return {
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [{"name": "t", "partition_data": [partition]}],
        **fields,
    }


def fetch(**fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": "t", "partitions": [partition]}],
        **fields,
    }


def resource(kind: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name}]}


def alteration(kind: int, name: str) -> dict[str, Any]:
    wanted = {"resource_type": kind, "resource_name": name, "configs": []}
    return {"resources": [wanted], "validate_only": True}


MEMBER = {"group_id": "g", "member_id": "m", "generation_id": 1}
PARTITIONS = [{"name": "t", "partitions": [{"partition_index": 0}]}]
COMMITTED = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
REPLICA = {"replica_id": 7, "replica_epoch": 1}
ROWS = [
    Row("Produce", 9, produce(), [topic("Write")]),
    Row("Produce", 3, produce(), [topic("Write")]),
    Row("Produce", 2, produce(), [topic("Write")]),
    Row("Produce", 9, produce(transactional_id="x"), [transaction("Write"), topic("Write")], "txn"),
    Row("Fetch", 12, fetch(), [topic("Read")]),
    Row("Fetch", 4, fetch(), [topic("Read")]),
    Row("Fetch", 2, fetch(), [topic("Read")]),
    Row("Fetch", 17, fetch(replica_state=REPLICA), [cluster("ClusterAction")], "replica"),
    Row(
        "ListOffsets",
        6,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        [topic("Describe")],
    ),
    Row(
        "ListOffsets",
        7,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        [(cluster("ClusterAction")[0], topic("Describe")[1])],
        "of a broker",
    ),
    Row(
        "ListOffsets",
        0,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        [topic("Describe")],
    ),
    Row(
        "OffsetForLeaderEpoch",
        4,
        {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        [topic("Describe")],
    ),
    Row("DescribeTopicPartitions", 0, {"topics": [{"name": "t"}]}, [topic("Describe")]),
    Row("Metadata", 9, {"topics": [{"name": "t"}]}, [topic("Describe")]),
    Row(
        "Metadata",
        9,
        {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
        [topic("Describe", "new"), topic("Create", "new")],
        "creates",
    ),
    Row(
        "CreateTopics",
        5,
        {
            "topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 1000,
            "validate_only": True,
        },
        [topic("Create", "made"), topic("DescribeConfigs", "made")],
    ),
    Row(
        "DeleteTopics",
        6,
        {"topics": [{"name": "none"}]},
        [topic("Delete", "none")],
    ),
    Row("DeleteTopics", 3, {"topic_names": ["none"]}, [topic("Delete", "none")]),
    Row(
        "CreatePartitions",
        3,
        {"topics": [{"name": "t", "count": 1}], "validate_only": True},
        [topic("Alter")],
    ),
    Row("DeleteRecords", 2, {"topics": PARTITIONS}, [topic("Delete")]),
    Row(
        "DescribeProducers",
        0,
        {"topics": [{"name": "t", "partition_indexes": [0]}]},
        [topic("Read")],
    ),
    Row("DescribeConfigs", 4, resource(2, "t"), [topic("DescribeConfigs")], "topic"),
    Row("DescribeConfigs", 4, resource(4, "1"), [cluster("DescribeConfigs")], "broker"),
    Row("DescribeConfigs", 4, resource(8, "1"), [cluster("DescribeConfigs")], "loggers"),
    Row("DescribeConfigs", 4, resource(32, "g"), [group("DescribeConfigs")], "group"),
    *(
        Row(name, 1, alteration(number, each), [need("AlterConfigs")], each)
        for name in ("AlterConfigs", "IncrementalAlterConfigs")
        for number, each, need in ((2, "t", topic), (4, "1", cluster), (32, "g", group))
    ),
    Row("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]}, [group("Describe")]),
    Row("FindCoordinator", 2, {"key_type": 0, "key": "g"}, [group("Describe")]),
    Row(
        "FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["x"]}, [transaction("Describe")]
    ),
    Row("JoinGroup", 5, {"group_id": "g", "session_timeout_ms": 10_000}, [group("Read")]),
    Row("SyncGroup", 3, MEMBER, [group("Read")]),
    Row("Heartbeat", 3, MEMBER, [group("Read")]),
    Row("LeaveGroup", 3, {"group_id": "g", "members": []}, [group("Read")]),
    Row("LeaveGroup", 0, {"group_id": "g", "member_id": "m"}, [group("Read")]),
    Row(
        "OffsetCommit",
        8,
        {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": COMMITTED},
        [group("Read"), topic("Read")],
    ),
    Row(
        "OffsetFetch",
        8,
        {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]},
        [group("Describe"), topic("Describe")],
    ),
    Row(
        "OffsetFetch",
        1,
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]},
        [group("Describe"), topic("Describe")],
    ),
    Row(
        "OffsetDelete", 0, {"group_id": "g", "topics": PARTITIONS}, [group("Delete"), topic("Read")]
    ),
    Row("DescribeGroups", 5, {"groups": ["g"]}, [group("Describe")]),
    Row("DeleteGroups", 2, {"groups_names": ["g"]}, [group("Delete")]),
    Row("ConsumerGroupDescribe", 0, {"group_ids": ["g"]}, [group("Describe")]),
    Row(
        "ConsumerGroupHeartbeat",
        0,
        {
            "group_id": "c",
            "member_epoch": 0,
            "rebalance_timeout_ms": 1000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        },
        [(acl("Read", GROUP, "c"), GROUP_FAILED), topic("Describe")],
    ),
    Row("InitProducerId", 4, {"transactional_id": None}, [cluster("IdempotentWrite")]),
    Row("InitProducerId", 4, {"transactional_id": None}, [(acl("Write", TOPIC, "any"), 31)], "any"),
    Row(
        "InitProducerId",
        4,
        {"transactional_id": "x", "transaction_timeout_ms": 1000},
        [transaction("Write")],
        "transactional",
    ),
    Row(
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        },
        [transaction("Write"), topic("Write")],
    ),
    Row("AddPartitionsToTxn", 4, {"transactions": []}, [cluster("ClusterAction")]),
    Row(
        "AddOffsetsToTxn",
        3,
        {"transactional_id": "x", "group_id": "g"},
        [transaction("Write"), group("Read")],
    ),
    Row(
        "TxnOffsetCommit",
        3,
        {"transactional_id": "x", "group_id": "g", "topics": COMMITTED},
        [transaction("Write"), group("Read"), topic("Read")],
    ),
    Row("EndTxn", 3, {"transactional_id": "x"}, [transaction("Write")]),
    Row("DescribeTransactions", 0, {"transactional_ids": ["x"]}, [transaction("Describe")]),
    *(
        Row(
            "WriteTxnMarkers",
            1,
            {"markers": [{"topics": [{"name": "none", "partition_indexes": [0]}]}]},
            [cluster(operation)],
            operation,
        )
        for operation in ("ClusterAction", "Alter")
    ),
    Row(
        "DescribeAcls",
        3,
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
        [cluster("Describe")],
    ),
    Row(
        "CreateAcls",
        3,
        {"creations": [acl("Read", TOPIC, "other", principal="User:bob")]},
        [cluster("Alter")],
    ),
    Row(
        "DeleteAcls",
        3,
        {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "nothing",
                    "pattern_type_filter": 3,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
        [cluster("Alter")],
    ),
    Row("DescribeClientQuotas", 1, {"components": []}, [cluster("DescribeConfigs")]),
    Row(
        "AlterClientQuotas",
        1,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}]},
        [cluster("AlterConfigs")],
    ),
    Row("DescribeUserScramCredentials", 0, {"users": []}, [cluster("Describe")]),
    Row(
        "AlterUserScramCredentials",
        0,
        {"deletions": [{"name": "n", "mechanism": 1}]},
        [cluster("Alter")],
    ),
    Row("DescribeLogDirs", 4, {"topics": None}, [cluster("Describe")]),
    Row("ListPartitionReassignments", 0, {"topics": None}, [cluster("Describe")]),
    Row("DescribeQuorum", 1, QUORUM, [cluster("Describe")]),
    Row("ElectLeaders", 2, {"topic_partitions": None}, [cluster("Alter")]),
    Row(
        "ElectLeaders",
        0,
        {"topic_partitions": [{"topic": "t", "partitions": [0]}]},
        [cluster("Alter")],
    ),
    Row("AlterPartitionReassignments", 0, {"topics": []}, [cluster("Alter")]),
    Row(
        "AlterReplicaLogDirs",
        2,
        {"dirs": [{"path": "/x", "topics": [{"name": "t", "partitions": [0]}]}]},
        [cluster("Alter")],
    ),
    Row("UpdateFeatures", 1, {"feature_updates": []}, [cluster("Alter")]),
    Row("UnregisterBroker", 0, {"broker_id": 9}, [cluster("Alter")]),
    Row("ListConfigResources", 1, {"resource_types": []}, [cluster("DescribeConfigs")]),
]


def codes_in(answer: Any) -> set[int]:
    """Return all error codes of an answer."""
    if isinstance(answer, dict):
        own = {value for name, value in answer.items() if name.endswith("error_code")}
        return own.union(*map(codes_in, answer.values()))
    return set().union(*map(codes_in, answer)) if isinstance(answer, list) else set()


@pytest.fixture(scope="module")
def admin(secured: AclBroker) -> Iterator[WireClient]:
    with secured.client("admin") as client:
        create_topic(client, "t")
        create_topic(client, "u")
        yield client


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{row.name}-v{row.version}-{row.label}".rstrip("-") for row in ROWS]
)
def test_a_request_is_refused_until_its_last_right_is_given(
    secured: AclBroker, admin: WireClient, row: Row
) -> None:
    given: list[dict[str, Any]] = []
    with secured.client() as alice:
        for entry, code in row.needs:
            with secured.acls(*given):
                answer = alice.request(row.name, row.version, row.body)
            assert codes_in(answer) & OF_AUTHORIZATION == {code}, (given, answer)
            given.append(entry)
        with secured.acls(*given):
            answer = alice.request(row.name, row.version, row.body)

    assert not codes_in(answer) & OF_AUTHORIZATION, answer


def test_produce_without_acks_that_is_refused_closes_the_connection(
    secured: AclBroker, admin: WireClient
) -> None:
    secured.expected_complaints.append("acks=0")
    with secured.client() as alice:
        alice.send("Produce", 9, produce(acks=0))

        with pytest.raises(ConnectionClosedError):
            alice.receive_frame()


def test_other_partitions_of_a_request_go_through(secured: AclBroker, admin: WireClient) -> None:
    topics = [
        {"name": name, "partition_data": [{"index": 0, "records": Batch([b"value"]).encode()}]}
        for name in ("t", "u")
    ]
    with secured.client() as alice, secured.acls(acl("Write", TOPIC, "u")):
        answer = alice.request("Produce", 9, produce(topic_data=topics))

    codes = {
        each["name"]: each["partition_responses"][0]["error_code"] for each in answer["responses"]
    }
    assert codes == {"t": TOPIC_FAILED, "u": 0}


def test_topics_by_id_are_refused_without_a_name(secured: AclBroker, admin: WireClient) -> None:
    [found] = admin.request("Metadata", 12, {"topics": [{"name": "t"}]})["topics"]
    by_id = {"topic_id": found["topic_id"]}
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    with secured.client() as alice:
        [described] = alice.request("Metadata", 12, {"topics": [{**by_id, "name": None}]})["topics"]
        [deleted] = alice.request("DeleteTopics", 6, {"topics": [by_id]})["responses"]
        wanted = fetch(topics=[{**by_id, "partitions": [partition]}])
        [fetched] = alice.request("Fetch", 13, wanted)["responses"]
        data = [{**by_id, "partition_data": [{"index": 0, "records": Batch([b"value"]).encode()}]}]
        [produced] = alice.request("Produce", 13, produce(topic_data=data))["responses"]

    assert (described["error_code"], described["name"]) == (TOPIC_FAILED, None)
    assert (deleted["error_code"], deleted["name"]) == (TOPIC_FAILED, None)
    assert fetched["partitions"][0]["error_code"] == TOPIC_FAILED
    assert fetched["partitions"][0]["high_watermark"] == -1
    assert produced["partition_responses"][0]["error_code"] == TOPIC_FAILED


def test_unknown_topics_are_refused_like_known_ones(secured: AclBroker, admin: WireClient) -> None:
    with secured.client() as alice:
        [described] = alice.request("Metadata", 9, {"topics": [{"name": "none"}]})["topics"]
        with secured.acls(acl("Describe", TOPIC, "none")):
            wanted = {"topics": [{"name": "none"}], "allow_auto_topic_creation": False}
            [known] = alice.request("Metadata", 9, wanted)["topics"]

    assert described["error_code"] == TOPIC_FAILED
    assert known["error_code"] == 3


def test_lists_leave_out_what_is_hidden(secured: AclBroker, admin: WireClient) -> None:
    admin.request(
        "OffsetCommit",
        8,
        {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": COMMITTED},
    )
    admin.request("InitProducerId", 4, {"transactional_id": "x", "transaction_timeout_ms": 1000})

    def seen(client: WireClient) -> tuple[set[str], set[str], set[str], set[str]]:
        topics = client.request("Metadata", 9, {"topics": None})["topics"]
        groups = client.request("ListGroups", 4, {})["groups"]
        transactions = client.request("ListTransactions", 0, {})["transaction_states"]
        pages = client.request("DescribeTopicPartitions", 0, {"topics": []})["topics"]
        return (
            {each["name"] for each in topics},
            {each["group_id"] for each in groups},
            {each["transactional_id"] for each in transactions},
            {each["name"] for each in pages},
        )

    with secured.client() as alice:
        assert seen(alice) == (set(), set(), set(), set())
        entries = [
            acl("Write", TOPIC, "t"),
            acl("Describe", GROUP, "g"),
            acl("Write", TRANSACTIONAL_ID, "x"),
        ]
        with secured.acls(*entries):
            assert seen(alice) == ({"t"}, {"g"}, {"x"}, {"t"})
        with secured.acls(acl("Describe", CLUSTER)):
            assert "g" in seen(alice)[1]

    assert {"t", "u"} <= seen(admin)[0]


def test_authorized_operations_are_those_of_the_client(
    secured: AclBroker, admin: WireClient
) -> None:
    entries = [
        acl("Write", TOPIC, "t"),
        acl("Read", GROUP, "g"),
        acl("Write", CLUSTER),
        acl("AlterConfigs", CLUSTER),
    ]
    asked = {
        "topics": [{"name": "t"}, {"name": "u"}],
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }

    def bits(*operations: int) -> int:
        return sum(1 << each for each in operations)

    with secured.client() as alice, secured.acls(*entries):
        metadata = alice.request("Metadata", 9, asked)
        groups = {"groups": ["g"], "include_authorized_operations": True}
        [described] = alice.request("DescribeGroups", 5, groups)["groups"]
        whole = {"include_cluster_authorized_operations": True}
        about = alice.request("DescribeCluster", 0, whole)
        unasked = alice.request("Metadata", 9, {"topics": [{"name": "t"}]})

    shown, hidden = metadata["topics"]
    assert shown["topic_authorized_operations"] == bits(4, 8)
    assert hidden["topic_authorized_operations"] == -(1 << 31)
    assert metadata["cluster_authorized_operations"] == bits(8, 10, 11)
    assert about["cluster_authorized_operations"] == bits(8, 10, 11)
    assert described["authorized_operations"] == bits(3, 8)
    assert unasked["topics"][0]["topic_authorized_operations"] == -(1 << 31)
    with secured.client() as alice:
        assert alice.request("DescribeCluster", 0, whole)["cluster_authorized_operations"] == 0


def test_a_topic_is_created_without_its_configuration_in_the_answer(
    secured: AclBroker, admin: WireClient
) -> None:
    wanted = {
        "topics": [{"name": "private", "num_partitions": 1, "replication_factor": 1}],
        "timeout_ms": 1000,
    }
    with secured.client() as alice, secured.acls(acl("Create", CLUSTER)):
        [created] = alice.request("CreateTopics", 5, wanted)["topics"]

    assert (created["error_code"], created["topic_config_error_code"]) == (0, TOPIC_FAILED)
    assert created["configs"] is None
    [found] = admin.request("Metadata", 9, {"topics": [{"name": "private"}]})["topics"]
    assert found["error_code"] == 0


def test_sync_without_a_protocol_name_is_inconsistent_before_it_is_refused(
    secured: AclBroker, admin: WireClient
) -> None:
    with secured.client() as alice:
        answer = alice.request("SyncGroup", 5, {**MEMBER, "protocol_name": None})

    assert answer["error_code"] == 23


def test_a_pattern_does_not_match_topics_that_are_hidden(
    secured: AclBroker, admin: WireClient
) -> None:
    [found] = admin.request("Metadata", 12, {"topics": [{"name": "t"}]})["topics"]
    body = {
        "group_id": "pattern",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_regex": "[tu]",
        "topic_partitions": [],
    }
    rights = (acl("Read", GROUP, "pattern"), acl("Describe", TOPIC, "t"))
    with secured.client() as alice, secured.acls(*rights):
        assigned: list[bytes] = []

        def is_assigned() -> bool:
            answer = alice.request("ConsumerGroupHeartbeat", 1, body)
            assert answer["error_code"] == 0, answer
            parts = (answer["assignment"] or {"topic_partitions": []})["topic_partitions"]
            assigned[:] = [each["topic_id"] for each in parts]
            return bool(assigned)

        wait_until(is_assigned, "the pattern is looked up")

    assert assigned == [found["topic_id"]]


def test_an_open_connection_sees_a_change_with_its_next_request(
    secured: AclBroker, admin: WireClient
) -> None:
    def code(client: WireClient) -> int:
        answer = client.request("Produce", 9, produce())
        return int(answer["responses"][0]["partition_responses"][0]["error_code"])

    with secured.client() as alice:
        for _ in range(3):
            assert code(alice) == TOPIC_FAILED
            with secured.acls(acl("Write", TOPIC, "t")):
                assert [code(alice) for _ in range(3)] == [0, 0, 0]
                denial = acl("Write", TOPIC, "*", principal="User:*", is_denial=True)
                with secured.acls(denial):
                    assert code(alice) == TOPIC_FAILED
                    assert code(admin) == 0


def test_acls_are_there_after_a_kill(secured: AclBroker, admin: WireClient) -> None:
    assert create_acls(admin, acl("Describe", TOPIC, "t", principal="User:bob")) == [0]
    secured.kill()
    secured.start()

    with secured.client("bob") as bob:
        [found] = bob.request("Metadata", 9, {"topics": [{"name": "t"}]})["topics"]

    assert found["error_code"] == 0
