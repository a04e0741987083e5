"""V1's commands on a real process, with the responses of the original server (golden)."""

import uuid
from collections.abc import Callable

import pytest

from tests.support.broker_process import Broker, BrokerProcess
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient

BAD = "ERR|BAD_REQUEST|"
MISMATCH = "ERR|GENERATION_MISMATCH|"
ALONE = f"{BAD}not possible on a single broker: "
USAGES = {
    "PRODUCE": "requires: <topic> <key>:<value> [acks=0|1|all]",
    "CONSUME": "requires: <topic> <partition> <offset>",
    "JOIN": "requires: <group> <topic> <consumer_id> [assignor=round_robin|range]",
    "SYNC": "requires: <group> <topic> <consumer_id> <generation>",
    "HEARTBEAT": "requires: <group> <topic> <consumer_id> <generation>",
    "LEAVE": "requires: <group> <topic> <consumer_id> <generation>",
    "COMMIT": "requires: <group> <topic> <consumer_id> <generation> <partition> <offset>",
    "OFFSET": "requires: <group> <topic> <partition>",
    "REPLICA_FETCH": "requires: <topic> <partition> <replica_id> <offset>",
    "SET_PARTITION_ROLE": "requires: <topic> <partition> <leader|follower>",
    "BROKER_FETCH": "requires: <topic> <partition> <follower_id> <offset> [max_messages]",
    "BROKER_REPLICA_ACK": "requires: <topic> <partition> <follower_id> <acked_offset>",
    "ADMIN_CREATE_TOPIC": "requires: <topic> <partitions> <replication_factor>",
    "ADMIN_REGISTER_BROKER": "requires: <broker_id> <host> <port> [epoch]",
    "ADMIN_BROKER_HEARTBEAT": "requires: <broker_id>",
    "ADMIN_RECONCILE_BROKER_HEALTH": "requires: <timeout_ms>",
    "ADMIN_FENCE_BROKER": "requires: <broker_id>",
    "ADMIN_UNFENCE_BROKER": "requires: <broker_id>",
    "ADMIN_SET_PARTITION_LEADER": "requires: <topic> <partition> <leader_id> <isr_csv>",
    "ADMIN_ELECT_TOPIC_LEADERS": "requires: <topic>",
    "ADMIN_GET_METADATA": "requires no args",
}


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("command", USAGES)
def test_too_many_arguments_are_answered_with_the_usage(lines: LineClient, command: str) -> None:
    assert lines.command(f"{command} 1 2 3 4 5 6 7") == f"{BAD}{command} {USAGES[command]}"


@pytest.mark.parametrize("command", [each for each in USAGES if each != "ADMIN_GET_METADATA"])
def test_too_few_arguments_are_answered_with_the_usage(lines: LineClient, command: str) -> None:
    assert lines.command(command) == f"{BAD}{command} {USAGES[command]}"


# ---- PRODUCE and CONSUME ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "partition"),
    [("user1", 2), ("user2", 2), ("user9", 0), ("u1", 0), ("a", 1), ("order-1", 1), ("", 1)],
)
def test_a_key_is_assigned_the_partition_that_clients_expect(
    lines: LineClient, topic: str, key: str, partition: int
) -> None:
    assert lines.command(f"PRODUCE {topic} {key}:v") == f"OK|partition={partition} offset=0 hw=0"


@pytest.mark.parametrize("acks", ["", " acks=0", " acks=1", " acks=all", " ACKS=All"])
def test_produced_records_are_consumed(lines: LineClient, topic: str, acks: str) -> None:
    assert lines.command(f"PRODUCE {topic} user1:a{acks}") == "OK|partition=2 offset=0 hw=0"
    assert lines.command(f"PRODUCE {topic} user1:b{acks}") == "OK|partition=2 offset=1 hw=1"

    assert lines.command(f"CONSUME {topic} 2 0") == "OK|messages=0:a,1:b hw=1"
    assert lines.command(f"CONSUME {topic} 2 1") == "OK|messages=1:b hw=1"
    assert lines.command(f"CONSUME {topic} 2 2") == "OK|messages= hw=1"
    assert lines.command(f"CONSUME {topic} 2 9223372036854775807") == "OK|messages= hw=1"
    assert lines.command(f"CONSUME {topic} 2 -5") == "OK|messages=0:a,1:b hw=1"
    assert lines.command(f"CONSUME {topic} 0 0") == "OK|messages= hw=-1"


def test_values_may_be_empty_and_contain_bars_and_colons(lines: LineClient, topic: str) -> None:
    for value in ("", "a:b", "x|y=z", ":"):
        lines.command(f"PRODUCE {topic} user1:{value}")

    assert lines.command(f"CONSUME {topic} 2 0") == "OK|messages=0:,1:a:b,2:x|y=z,3:: hw=3"


def test_a_value_with_a_comma_is_encoded_and_its_offset_listed(
    lines: LineClient, topic: str
) -> None:
    for value in ("plain", "x,7:y", "100%,", "100%"):
        lines.command(f"PRODUCE {topic} user1:{value}")

    assert lines.command(f"CONSUME {topic} 2 0") == (
        "OK|messages=0:plain,1:x%2C7:y,2:100%25%2C,3:100% hw=3 escaped=[1 2]"
    )


def test_values_that_look_like_response_fields_stay_values(lines: LineClient, topic: str) -> None:
    lines.command(f"PRODUCE {topic} hw=9:hw=7|offset=3")

    assert "messages=0:hw%3D7|offset%3D3 hw=0 escaped=[0]" in [
        lines.command(f"CONSUME {topic} {partition} 0").removeprefix("OK|")
        for partition in range(3)
    ]


def test_values_that_are_not_utf_8_are_kept(lines: LineClient, topic: str) -> None:
    lines.ask(f"V1|1|PRODUCE|{topic} user1:".encode() + b"\xff\x00\x80")

    assert lines.ask(f"V1|1|CONSUME|{topic} 2 0".encode()) == (
        b"V1|1|OK|messages=0:%FF%00%80 hw=0 escaped=[0]"
    )


def test_a_response_is_limited_and_reading_continues_after_it(
    lines: LineClient, topic: str
) -> None:
    value = "x" * 60_000
    for _ in range(20):
        lines.command(f"PRODUCE {topic} user1:{value}")

    first = lines.command(f"CONSUME {topic} 2 0")
    rest = lines.command(f"CONSUME {topic} 2 17")

    offsets = [each.partition(":")[0] for each in first.removeprefix("OK|messages=").split(",")]
    assert offsets == [str(offset) for offset in range(17)]
    assert first.endswith(" hw=19")
    assert rest.count("x" * 60_000) == 3


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("{topic} novalue", "message must be key:value"),
        ("{topic} novalue acks=2", "message must be key:value"),
        ("{topic} k:v acks=2", "invalid ack mode; expected acks=0|1|all"),
        ("{topic} k:v all", "invalid ack mode; expected acks=0|1|all"),
        ("{topic} k:v acks=", "invalid ack mode; expected acks=0|1|all"),
    ],
)
def test_an_invalid_produce_is_refused_and_creates_nothing(
    lines: LineClient, topic: str, args: str, text: str
) -> None:
    assert lines.command(f"PRODUCE {args.format(topic=topic)}") == BAD + text
    assert topic not in lines.command("ADMIN_GET_METADATA")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("{topic} x 0", "invalid partition"),
        ("{topic} x x", "invalid partition"),
        ("{topic} 0 1.5", "invalid offset"),
        ("{topic} 3 0", "invalid partition"),
        ("{topic} -1 0", "invalid partition"),
        ("{topic} 9223372036854775807 0", "invalid partition"),
    ],
)
def test_an_invalid_consume_is_refused(lines: LineClient, topic: str, args: str, text: str) -> None:
    assert lines.command(f"CONSUME {args.format(topic=topic)}") == BAD + text


NAMES = ["a/b", "..", ".", "../x", "x" * 250, "a:b", "a=b", "ä", "a\x00b", "\udcff"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.parametrize(
    "line",
    [
        "PRODUCE|{} k:v",
        "CONSUME|{} 0 0",
        "SET_PARTITION_ROLE|{} 0 leader",
        "JOIN|g {} c",
        "ADMIN_CREATE_TOPIC|{} 1 1",
        "ADMIN_ELECT_TOPIC_LEADERS|{}",
    ],
)
def test_an_invalid_topic_name_is_refused(lines: LineClient, line: str, name: str) -> None:
    answer = lines.ask(f"V1|1|{line.format(name)}".encode("utf-8", "surrogateescape"))

    assert answer == (
        b"V1|1|ERR|BAD_REQUEST|invalid topic: a topic name has 1 to 249 of the characters"
        b" a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' or '..'"
    )


def test_internal_topics_cannot_be_written(lines: LineClient) -> None:
    lines.command("OFFSET g t 0")

    assert lines.command("PRODUCE __consumer_offsets k:v") == (
        f"{BAD}invalid topic: '__consumer_offsets' belongs to the broker"
    )
    assert "__consumer_offsets" not in lines.command("ADMIN_GET_METADATA")


def test_topics_are_not_created_where_auto_creation_is_off(
    start_broker: Callable[..., Broker],
) -> None:
    broker = start_broker("auto.create.topics.enable=false")

    with LineClient(broker.address) as lines:
        for command in ("PRODUCE t k:v", "CONSUME t 0 0", "SET_PARTITION_ROLE t 0 leader"):
            assert lines.command(command) == f"{BAD}topic not found: t"


def test_a_record_that_the_topic_configuration_refuses_is_a_bad_request(
    start_broker: Callable[..., Broker],
) -> None:
    broker = start_broker("message.max.bytes=1000")

    with LineClient(broker.address) as lines:
        answer = lines.command(f"PRODUCE t k:{'x' * 2_000}")
        assert answer.startswith(f"{BAD}message too large: ")
        assert lines.command("CONSUME t 0 0") == "OK|messages= hw=-1"


# ---- groups ----------------------------------------------------------------------------------


def test_a_group_assigns_partitions_and_releases_those_of_leaving_members(
    lines: LineClient, topic: str, group: str
) -> None:
    where = f"{group} {topic}"
    assert lines.command(f"JOIN {where} c1") == "OK|generation=2 assigned=[0 1 2]"
    assert lines.command(f"SYNC {where} c1 2") == "OK|generation=2 assigned=[0 1 2]"
    assert lines.command(f"JOIN {where} c2") == "OK|generation=3 assigned=[1]"
    assert lines.command(f"HEARTBEAT {where} c1 2") == f"{MISMATCH}stale generation"
    assert lines.command(f"JOIN {where} c1") == "OK|generation=3 assigned=[0 2]"
    assert lines.command(f"HEARTBEAT {where} c1 3") == "OK|heartbeat=ok"
    assert lines.command(f"COMMIT {where} c1 3 0 7") == "OK|committed=true"
    assert lines.command(f"OFFSET {where} 0") == "OK|offset=7"
    assert (
        lines.command(f"COMMIT {where} c1 3 1 7") == f"{MISMATCH}partition not assigned to member"
    )
    assert lines.command(f"LEAVE {where} c1 3") == "OK|left=true"
    assert lines.command(f"SYNC {where} c2 4") == "OK|generation=4 assigned=[0 1 2]"
    assert lines.command(f"SYNC {where} c1 4") == f"{MISMATCH}unknown member"
    assert lines.command(f"LEAVE {where} c2 4") == "OK|left=true"
    assert lines.command(f"JOIN {where} c3") == "OK|generation=6 assigned=[0 1 2]"


@pytest.mark.parametrize("assignor", ["assignor=range", "ASSIGNOR=Range"])
def test_the_range_strategy_assigns_consecutive_partitions(
    lines: LineClient, topic: str, group: str, assignor: str
) -> None:
    lines.command(f"ADMIN_CREATE_TOPIC {topic} 5 1")
    where = f"{group} {topic}"
    assert lines.command(f"JOIN {where} c1 {assignor}") == "OK|generation=2 assigned=[0 1 2 3 4]"

    assert lines.command(f"JOIN {where} c2") == "OK|generation=3 assigned=[3 4]"
    assert lines.command(f"JOIN {where} c1") == "OK|generation=3 assigned=[0 1 2]"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("JOIN g t c sticky", f"{BAD}invalid assignor; expected assignor=round_robin|range"),
        ("JOIN g t c assignor=x", f"{BAD}invalid assignor; expected assignor=round_robin|range"),
        ("SYNC nobody t c x", f"{BAD}invalid generation"),
        ("HEARTBEAT nobody t c x", f"{BAD}invalid generation"),
        ("LEAVE nobody t c x", f"{BAD}invalid generation"),
        ("COMMIT nobody t c x x x", f"{BAD}invalid generation"),
        ("COMMIT nobody t c 1 x x", f"{BAD}invalid partition"),
        ("COMMIT nobody t c 1 0 x", f"{BAD}invalid offset"),
        ("COMMIT nobody t c 1 0 -1", f"{BAD}invalid offset"),
        ("SYNC nobody t c 1", f"{MISMATCH}group not found"),
        ("HEARTBEAT nobody t c 1", f"{MISMATCH}group not found"),
        ("LEAVE nobody t c 1", f"{MISMATCH}group not found"),
        ("COMMIT nobody t c 1 0 0", f"{MISMATCH}group not found"),
        ("OFFSET nobody t x", f"{BAD}invalid partition"),
        ("OFFSET nobody t 0", "OK|offset=0"),
        ("OFFSET nobody ../t -7", "OK|offset=0"),
    ],
)
def test_an_invalid_group_command_is_refused(lines: LineClient, command: str, text: str) -> None:
    assert lines.command(command) == text


def test_a_group_reads_one_topic(lines: LineClient, topic: str, group: str) -> None:
    lines.command(f"JOIN {group} {topic} c1")

    assert lines.command(f"SYNC {group} other c1 2") == f"{MISMATCH}group not found"


def test_a_group_name_must_be_utf_8(lines: LineClient) -> None:
    assert (
        lines.ask(b"V1|1|JOIN|\xff t c") == b"V1|1|ERR|BAD_REQUEST|invalid group: it is not UTF-8"
    )


# ---- replicas --------------------------------------------------------------------------------


def test_the_isr_is_that_of_kafkas_metadata_whatever_clients_report(
    broker: Broker, lines: LineClient, topic: str
) -> None:
    lines.command(f"PRODUCE {topic} user1:a")
    with WireClient(broker.address) as kafka:
        asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        [described] = kafka.request("Metadata", 8, asked)["topics"]
    [found] = [each for each in described["partitions"] if each["partition_index"] == 2]
    in_sync = f"isr=[{' '.join(map(str, found['isr_nodes']))}]"

    for replica, offset in ((2, 0), (1, 5), (1, -9)):
        assert lines.command(f"REPLICA_FETCH {topic} 2 {replica} {offset}") == (
            f"OK|replica={replica} acked_offset={offset} hw=0 {in_sync} under_replicated=false"
        )
    factor = len(found["replica_nodes"])
    assert f" replication_factor={factor} " in lines.command(f"ADMIN_CREATE_TOPIC {topic} 3 3")
    moved = lines.command(f"ADMIN_SET_PARTITION_LEADER {topic} 2 {found['leader_id']} 1,0")
    assert moved.startswith(f"OK|topic={topic} partition=2 leader={found['leader_id']} {in_sync} ")


def test_a_topic_that_does_not_exist_is_an_empty_one(lines: LineClient, topic: str) -> None:
    assert lines.command(f"REPLICA_FETCH {topic} 7 1 3") == (
        "OK|replica=1 acked_offset=3 hw=-1 isr=[1] under_replicated=false"
    )
    assert topic not in lines.command("ADMIN_GET_METADATA")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("x 1 0", "invalid partition"),
        ("0 x 0", "invalid replica_id"),
        ("0 1 x", "invalid offset"),
        ("0 0 0", "invalid replica id"),
        ("0 3 0", "invalid replica id"),
        ("0 -1 0", "invalid replica id"),
    ],
)
def test_an_invalid_follower_is_refused(
    lines: LineClient, topic: str, args: str, text: str
) -> None:
    assert lines.command(f"REPLICA_FETCH {topic} {args}") == BAD + text


def test_a_partition_in_the_follower_role_refuses_records_until_it_leads_again(
    lines: LineClient, topic: str
) -> None:
    lines.command(f"PRODUCE {topic} user1:a")
    role = f"SET_PARTITION_ROLE {topic} 2"

    answer = f"OK|topic={topic} partition=2 role="
    assert lines.command(f"{role} follower") == f"{answer}follower hw=0"
    refused = "ERR|NOT_LEADER|partition leader unavailable on this broker"
    assert lines.command(f"PRODUCE {topic} user1:b") == refused
    assert lines.command(f"PRODUCE {topic} user9:b") == "OK|partition=0 offset=0 hw=0"
    assert lines.command(f"REPLICA_FETCH {topic} 2 1 0") == f"{BAD}partition is not leader"
    assert lines.command(f"CONSUME {topic} 2 0") == "OK|messages=0:a hw=0"
    assert lines.command(f"{role} leader") == f"{answer}leader hw=0"
    assert lines.command(f"PRODUCE {topic} user1:b") == "OK|partition=2 offset=1 hw=1"


def test_a_partition_role_is_deleted_with_its_topic(
    broker: Broker, lines: LineClient, topic: str
) -> None:
    lines.command(f"SET_PARTITION_ROLE {topic} 2 follower")
    with WireClient(broker.address) as kafka:
        body = {"topics": [{"name": topic}], "topic_names": [topic], "timeout_ms": 10_000}
        kafka.request("DeleteTopics", 5, body)

    assert lines.command(f"PRODUCE {topic} user1:a") == "OK|partition=2 offset=0 hw=0"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("{topic} x leader", "invalid partition"),
        ("{topic} 0 Leader", "invalid role"),
        ("{topic} -1 leader", "partition must be >= 0"),
        ("{topic} 3 leader", "partition not found: topic={topic} partition=3"),
    ],
)
def test_an_invalid_role_is_refused(lines: LineClient, topic: str, args: str, text: str) -> None:
    refused = BAD + text.format(topic=topic)

    assert lines.command(f"SET_PARTITION_ROLE {args.format(topic=topic)}") == refused


def test_acks_all_requires_no_more_copies_than_there_are(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """As in Kafka (KIP-966), min.insync.replicas is limited to the number of copies."""
    broker = start_broker("min.insync.replicas=2")
    with LineClient(broker.address) as lines:
        assert lines.command("PRODUCE t user1:a acks=all") == "OK|partition=2 offset=0 hw=0"
        assert lines.command("CONSUME t 2 0") == "OK|messages=0:a hw=0"
        assert lines.command("REPLICA_FETCH t 2 1 0").endswith("under_replicated=false")


# ---- the second generation -------------------------------------------------------------------


def test_administration_commands_describe_a_cluster_of_one(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    with LineClient(start_broker().address) as lines:
        for command, answer in [
            ("ADMIN_GET_METADATA", "topics=[] brokers=[1] fenced=[]"),
            (
                "ADMIN_CREATE_TOPIC b 2 3",
                "topic=b partitions=2 replication_factor=1 term=1 index=1",
            ),
            (
                "ADMIN_CREATE_TOPIC a 1 1",
                "topic=a partitions=1 replication_factor=1 term=1 index=2",
            ),
            (
                "ADMIN_REGISTER_BROKER 0 h 9093 7",
                "broker_id=0 host=h port=9093 term=1 index=3",
            ),
            ("ADMIN_BROKER_HEARTBEAT 0", "broker_id=0 heartbeat=ok term=1 index=4"),
            ("ADMIN_BROKER_HEARTBEAT 1", "broker_id=1 heartbeat=ok term=1 index=5"),
            ("ADMIN_GET_METADATA", "topics=[a b] brokers=[0 1] fenced=[]"),
            ("PRODUCE a user1:v", "partition=0 offset=0 hw=0"),
            (
                "ADMIN_CREATE_TOPIC a 1 1",
                "topic=a partitions=1 replication_factor=1 term=1 index=6",
            ),
            ("CONSUME a 0 0", "messages=0:v hw=0"),
        ]:
            assert lines.command(command) == f"OK|{answer}"
        assert lines.command("ADMIN_CREATE_TOPIC a 2 1") == (
            f"{BAD}topic already exists with 1 partitions"
        )


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("ADMIN_CREATE_TOPIC t x 1", "invalid partitions"),
        ("ADMIN_CREATE_TOPIC t 1 x", "invalid replication_factor"),
        ("ADMIN_CREATE_TOPIC t 0 0", "partitions must be > 0"),
        ("ADMIN_CREATE_TOPIC t 1 0", "replication factor must be > 0"),
        ("ADMIN_CREATE_TOPIC t 10001 1", "a topic has 1 to 10000 partitions, not 10001"),
        ("ADMIN_REGISTER_BROKER x h 1", "invalid broker_id"),
        ("ADMIN_REGISTER_BROKER 1 h x", "invalid port"),
        ("ADMIN_REGISTER_BROKER 1 h 1 x", "invalid epoch"),
        ("ADMIN_REGISTER_BROKER -1 h 1", "broker id must be >= 0"),
        ("ADMIN_REGISTER_BROKER 1 h 0", "broker port must be > 0"),
        ("ADMIN_BROKER_HEARTBEAT x", "invalid broker_id"),
        ("ADMIN_BROKER_HEARTBEAT -1", "invalid broker heartbeat command"),
        ("ADMIN_BROKER_HEARTBEAT 99", "broker not found: 99"),
        ("ADMIN_RECONCILE_BROKER_HEALTH x", "invalid timeout_ms"),
        ("ADMIN_RECONCILE_BROKER_HEALTH 0", "timeout must be > 0"),
        ("ADMIN_FENCE_BROKER x", "invalid broker_id"),
        ("ADMIN_FENCE_BROKER -1", "broker id must be >= 0"),
        ("ADMIN_UNFENCE_BROKER 99", "broker not found: 99"),
        ("ADMIN_SET_PARTITION_LEADER t x 0 0", "invalid partition"),
        ("ADMIN_SET_PARTITION_LEADER t 0 x 0", "invalid leader_id"),
        ("ADMIN_SET_PARTITION_LEADER t 0 0 1,x", "invalid integer list"),
        ("ADMIN_SET_PARTITION_LEADER t 0 -2 0", "leader id must be >= -1"),
        ("ADMIN_SET_PARTITION_LEADER nowhere 0 0 0", "topic not found: nowhere"),
        ("ADMIN_ELECT_TOPIC_LEADERS nowhere", "topic not found: nowhere"),
        ("BROKER_FETCH t x 1 0", "invalid partition"),
        ("BROKER_FETCH t 0 x 0", "invalid follower_id"),
        ("BROKER_FETCH t 0 1 x", "invalid offset"),
        ("BROKER_FETCH t 0 1 0 x", "invalid max_messages"),
        ("BROKER_FETCH t 0 1 0 0", "max_messages must be > 0"),
        ("BROKER_FETCH t 0 0 0", "follower id must be > 0"),
        ("BROKER_REPLICA_ACK t x 1 0", "invalid partition"),
        ("BROKER_REPLICA_ACK t 0 x 0", "invalid follower_id"),
        ("BROKER_REPLICA_ACK t 0 1 x", "invalid acked_offset"),
        ("BROKER_REPLICA_ACK t 0 0 0", "follower id must be > 0"),
    ],
)
def test_an_administrators_mistake_is_reported(lines: LineClient, command: str, text: str) -> None:
    assert lines.command(command) == BAD + text


def test_commands_that_would_move_leadership_are_refused_with_a_reason(
    lines: LineClient, topic: str
) -> None:
    lines.command(f"ADMIN_CREATE_TOPIC {topic} 1 1")
    fences = f"{ALONE}no broker can take over from one that is fenced"
    followers = f"{ALONE}it has no followers"
    for other in (-1, 2):
        assert lines.command(f"ADMIN_SET_PARTITION_LEADER {topic} 0 {other} 1,0") == (
            f"{ALONE}this broker leads every partition"
        )
    assert lines.command(f"ADMIN_SET_PARTITION_LEADER {topic} 1 1 1") == (
        f"{BAD}partition not found: topic={topic} partition=1"
    )
    assert lines.command("ADMIN_FENCE_BROKER 1") == fences
    assert lines.command(f"BROKER_FETCH {topic} 0 1 0 100") == followers
    assert lines.command(f"BROKER_REPLICA_ACK {topic} 0 1 0") == followers


def test_commands_that_change_nothing_say_what_is_so(lines: LineClient, topic: str) -> None:
    lines.command(f"ADMIN_CREATE_TOPIC {topic} 1 2")

    for leader in (1, 0):  # 0 is the only broker that most of the originals have
        answer = lines.command(f"ADMIN_SET_PARTITION_LEADER {topic} 0 {leader} 1,0")
        assert answer.startswith(f"OK|topic={topic} partition=0 leader=1 isr=[1] term=1 index=")
    assert lines.command(f"ADMIN_ELECT_TOPIC_LEADERS {topic}") == (
        f"OK|topic={topic} elected_changes=0"
    )
    assert lines.command("ADMIN_UNFENCE_BROKER 1").startswith("OK|broker_id=1 fenced=false term=1 ")
    assert lines.command("ADMIN_RECONCILE_BROKER_HEALTH 1000") == "OK|reconciled=0"
