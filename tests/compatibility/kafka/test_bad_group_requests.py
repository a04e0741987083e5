"""A live group refuses bad requests with Kafka's error codes, and does not change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from broker.codec import schema
from broker.model.limits import GROUP_ID_BYTES_MAX, OFFSET_METADATA_BYTES_MAX
from tests.support import wire_requests
from tests.support.wire_client import API_KEY_BY_NAME, WireClient

HUGE = "g" * (GROUP_ID_BYTES_MAX + 1)


@dataclass
class Live:
    """A group of one member, which has committed offset 5."""

    client: WireClient
    group: str
    topic: str
    member: str = ""
    generation: int = -1

    def ask(self, name: str, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request as the member unless another one is given."""
        mine = {
            "group_id": self.group,
            "member_id": self.member,
            "generation_id": self.generation,
            "generation_id_or_member_epoch": self.generation,
        }
        known = {field.name for field in schema.request(API_KEY_BY_NAME[name]).fields}
        about = {field: value for field, value in mine.items() if field in known}
        return self.client.request(name, version, {**about, **fields})

    def join(self, **fields: Any) -> dict[str, Any]:
        protocols = [{"name": "range", "metadata": b"\x00\x00" + bytes(8)}]
        asked = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
        kind = {"protocol_type": "consumer", "protocols": protocols}
        return self.ask("JoinGroup", 3, **{**asked, **kind, **fields})

    def commit(self, *, partition: int = 0, metadata: str = "", **fields: Any) -> int:
        offset = {"partition_index": partition, "committed_offset": 5}
        partitions = [{**offset, "committed_metadata": metadata}]
        topics = [{"name": self.topic, "partitions": partitions}]
        answer = self.ask("OffsetCommit", 7, **{"topics": topics, **fields})
        code: int = answer["topics"][0]["partitions"][0]["error_code"]
        return code

    def commit_for_nobody(self, group: str) -> int:
        return self.commit(group_id=group, member_id="", generation_id_or_member_epoch=-1)

    def code(self, name: str, version: int, **fields: Any) -> int:
        code: int = self.ask(name, version, **fields)["error_code"]
        return code


@pytest.fixture
def live(wire: WireClient, topic: str) -> Live:
    wire_requests.create_topic(wire, topic)
    group = Live(wire, f"group-of-{topic}", topic)
    assert wire_requests.find_coordinator(wire, group.group) == 0
    joined = group.join()
    assert joined["error_code"] == 0
    group.member, group.generation = joined["member_id"], joined["generation_id"]
    assert group.code("SyncGroup", 3, assignments=[]) == 0
    assert group.commit() == 0
    return group


REFUSED: dict[str, tuple[Callable[[Live], int], int]] = {
    "heartbeat of an unknown member": (
        lambda live: live.code("Heartbeat", 3, member_id="x"),
        25,
    ),
    "heartbeat of a generation of the past": (
        lambda live: live.code("Heartbeat", 3, generation_id=0),
        22,
    ),
    "heartbeat of a generation of the future": (
        lambda live: live.code("Heartbeat", 3, generation_id=2**31 - 1),
        22,
    ),
    "heartbeat in an unknown group": (
        lambda live: live.code("Heartbeat", 3, group_id="unknown"),
        25,
    ),
    "heartbeat in a group without a name": (
        lambda live: live.code("Heartbeat", 3, group_id=""),
        24,
    ),
    "heartbeat in a group without a name, which has offsets": (
        lambda live: live.commit_for_nobody("") or live.code("Heartbeat", 3, group_id=""),
        24,
    ),
    "sync of another generation": (lambda live: live.code("SyncGroup", 3, generation_id=7), 22),
    "sync of another protocol": (
        lambda live: live.code(
            "SyncGroup", 5, protocol_type="consumer", protocol_name="sticky", assignments=[]
        ),
        23,
    ),
    "leave of an unknown member": (lambda live: live.code("LeaveGroup", 2, member_id="x"), 25),
    "join of an unknown member": (lambda live: live.join(member_id="x")["error_code"], 25),
    "join of another kind of group": (
        lambda live: live.join(member_id="", protocol_type="connect")["error_code"],
        23,
    ),
    "join without protocols": (
        lambda live: live.join(member_id="", protocols=[])["error_code"],
        23,
    ),
    "join with a session that is too short": (
        lambda live: live.join(member_id="", session_timeout_ms=1)["error_code"],
        26,
    ),
    "join of a huge group": (
        lambda live: live.join(member_id="", group_id=HUGE)["error_code"],
        24,
    ),
    "join with a huge subscription": (
        lambda live: live.join(
            member_id="", protocols=[{"name": "range", "metadata": bytes(2 << 20)}]
        )["error_code"],
        81,
    ),
    "commit from outside": (
        lambda live: live.commit(member_id="", generation_id_or_member_epoch=-1),
        25,
    ),
    "commit of a generation of the past": (
        lambda live: live.commit(generation_id_or_member_epoch=0),
        22,
    ),
    "commit of a generation of the future": (
        lambda live: live.commit(generation_id_or_member_epoch=2**31 - 1),
        22,
    ),
    "commit of an unknown partition": (lambda live: live.commit(partition=7), 3),
    "commit of a negative partition": (lambda live: live.commit(partition=-1), 3),
    "commit with oversize metadata": (
        lambda live: live.commit(metadata="x" * (OFFSET_METADATA_BYTES_MAX + 1)),
        12,
    ),
    "commit in a huge group": (
        lambda live: live.commit_for_nobody(HUGE),
        24,
    ),
    "deletion of a live group": (
        lambda live: live.client.request("DeleteGroups", 2, {"groups_names": [live.group]})[
            "results"
        ][0]["error_code"],
        68,
    ),
    "deletion of an unknown group": (
        lambda live: live.client.request("DeleteGroups", 2, {"groups_names": [HUGE]})["results"][0][
            "error_code"
        ],
        69,
    ),
    "deletion of offsets of an unknown group": (
        lambda live: live.client.request("OffsetDelete", 0, {"group_id": "?", "topics": []})[
            "error_code"
        ],
        69,
    ),
}


@pytest.mark.usefixtures("still_well")
@pytest.mark.parametrize("refused", REFUSED)
def test_a_bad_group_request_is_refused_and_changes_nothing(live: Live, refused: str) -> None:
    ask, code = REFUSED[refused]

    answered = ask(live)

    assert answered == code
    assert live.code("Heartbeat", 3) == 0
    assert wire_requests.committed_offset(live.client, live.group, live.topic) == (0, 5)
    described = live.client.request("DescribeGroups", 4, {"groups": [live.group]})["groups"][0]
    assert (described["group_state"], len(described["members"])) == ("Stable", 1)
