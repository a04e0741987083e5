"""V1's groups.json and offsets.json in the data directory of the real process."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient

# Bytes of the original server.
GROUPS = (
    '{"g1":{"topic":"orders","generation":2,"assignor":"round_robin","member_order":["c1"],'
    '"assignments":{"c1":[0,1,2]},'
    '"members":[{"consumer_id":"c1","last_heartbeat_unix_ms":1700000000000}]},'
    '"rest":{"topic":"orders","generation":4,"assignor":"range","member_order":null,'
    '"assignments":null,"members":[]}}'
)
OFFSETS = '{"g1":{"orders":{"0":5,"2":7}},"rest":{"orders":{"1":3}}}\n'
NONE, COORDINATOR_LOADING, UNKNOWN_MEMBER_ID, NON_EMPTY_GROUP = 0, 14, 25, 68


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    broker.data_dir.mkdir()
    (broker.data_dir / "groups.json").write_text(GROUPS)
    (broker.data_dir / "offsets.json").write_text(OFFSETS)
    broker.start()
    yield broker
    if broker.is_running:
        broker.kill()
    broker.check()


def described(client: WireClient) -> dict[str, Any]:
    body = {"groups": ["g1"], "include_authorized_operations": False}
    found: dict[str, Any] = client.request("DescribeGroups", 5, body)["groups"][0]
    return found


def offsets(client: WireClient, group_id: str = "g1") -> dict[int, int]:
    body = {"group_id": group_id, "topics": None, "require_stable": False}
    topics = client.request("OffsetFetch", 7, body)["topics"]
    return {
        each["partition_index"]: each["committed_offset"]
        for topic in topics
        for each in topic["partitions"]
    }


def test_groups_of_the_original_server_are_visible_to_kafka_clients(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.address) as client:
        group = described(client)
        assert (group["group_state"], group["protocol_type"]) == ("Stable", "polylog-v1")
        assert [each["member_id"] for each in group["members"]] == ["c1"]
        assert offsets(client) == {0: 5, 2: 7}


def commit(client: WireClient, group_id: str, offset: int) -> int:
    """Commit without membership, as tools do; return the error code."""
    partition = {"partition_index": 1, "committed_offset": offset, "committed_metadata": ""}
    topic = {"name": "orders", "partitions": [partition]}
    body = {"group_id": group_id, "member_id": "", "topics": [topic]}
    answer = client.request("OffsetCommit", 8, body)
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def delete(client: WireClient, group_id: str) -> int:
    answer = client.request("DeleteGroups", 2, {"groups_names": [group_id]})
    code: int = answer["results"][0]["error_code"]
    return code


def test_kafka_tools_list_v1_groups_with_their_protocol_type(broker: BrokerProcess) -> None:
    with WireClient(broker.address) as client:
        listed = client.request("ListGroups", 5, {"states_filter": [], "types_filter": []})[
            "groups"
        ]

    assert sorted((each["group_id"], each["protocol_type"]) for each in listed) == [
        ("g1", "polylog-v1"),
        ("rest", "polylog-v1"),
    ]


def test_administrators_move_and_delete_an_empty_group_but_not_one_with_members(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "orders", 3)

        assert commit(client, "g1", 9) == UNKNOWN_MEMBER_ID
        assert delete(client, "g1") == NON_EMPTY_GROUP
        assert commit(client, "rest", 9) == NONE
        assert offsets(client, "rest") == {1: 9}
        assert delete(client, "rest") == NONE
        assert offsets(client, "rest") == {}


def test_imported_groups_survive_kill_9_and_are_not_imported_again(
    broker: BrokerProcess,
) -> None:
    (broker.data_dir / "offsets.json").write_text('{"g1":{"orders":{"0":1}}}\n')
    with LineClient(broker.address) as lines:
        assert lines.command("COMMIT g1 orders c1 2 1 9") == "OK|committed=true"
    broker.kill()
    broker.start()

    with WireClient(broker.address) as client:
        wait_until(
            lambda: described(client)["error_code"] != COORDINATOR_LOADING, "groups are loaded"
        )
        assert offsets(client) == {0: 5, 1: 9, 2: 7}


def test_group_files_are_written_within_seconds_and_at_a_stop(broker: BrokerProcess) -> None:
    file = broker.data_dir / "groups.json"
    wait_until(file.exists, "groups.json is a copy of what is in the log")
    file.unlink()

    with LineClient(broker.address) as client:
        assert client.command("LEAVE g1 orders c1 2") == "OK|left=true"
    wait_until(file.exists, "groups.json is written again")

    assert broker.stop() == 0
    group = json.loads(file.read_text())["g1"]
    assert (group["generation"], group["members"], group["member_order"]) == (3, [], None)
    assert json.loads((broker.data_dir / "offsets.json").read_text()) == json.loads(OFFSETS)


def test_the_files_of_the_original_server_are_kept(broker: BrokerProcess) -> None:
    kept = {each.name: each.read_text() for each in broker.data_dir.glob("*.imported")}

    assert kept == {"groups.json.imported": GROUPS, "offsets.json.imported": OFFSETS}


def test_a_broker_that_lost_its_groups_imports_them_from_its_own_files(
    broker: BrokerProcess,
) -> None:
    file = broker.data_dir / "groups.json"
    wait_until(file.exists, "groups.json is a copy of what is in the log")
    broker.stop()
    kept = {each.name: each.read_bytes() for each in broker.data_dir.glob("*.json")}
    shutil.rmtree(broker.data_dir)
    broker.data_dir.mkdir()
    for name, content in kept.items():
        (broker.data_dir / name).write_bytes(content)

    broker.start()

    with WireClient(broker.address) as client:
        assert described(client)["group_state"] == "Stable"
        assert offsets(client) == {0: 5, 2: 7}
