"""A member of a classic group that does nothing by itself."""

from typing import Any

from tests.support.wire_client import WireClient

SESSION_MS = 30_000
SUBSCRIPTION = b"\0\0\0\0\0\1"  # version 0, one topic; its name follows


class Member:
    """A member of a classic group that joins, and takes part in the assignment when it is told."""

    def __init__(self, client: WireClient, group: str, topic: str) -> None:
        """Join as the only member, which leads the group."""
        self._client, self._group = client, group
        name = topic.encode()
        self._topic = len(name).to_bytes(2, "big") + name
        metadata = SUBSCRIPTION + self._topic + b"\xff\xff\xff\xff"
        client.request("FindCoordinator", 3, {"key": group, "key_type": 0})
        self.answer: dict[str, Any] = {"member_id": ""}
        for _ in range(2):  # the first answer is only the member's id (KIP-394)
            body = {
                "group_id": group,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": SESSION_MS,
                "member_id": self.answer["member_id"],
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": metadata}],
            }
            self.answer = client.request("JoinGroup", 5, body)

    def assign(self, partition: int) -> None:
        """Assign one partition to itself."""
        number = partition.to_bytes(4, "big")
        assigned = b"\0\0\0\0\0\1" + self._topic + b"\0\0\0\1" + number + b"\xff\xff\xff\xff"
        member_id = self.answer["member_id"]
        body = {
            "group_id": self._group,
            "generation_id": self.answer["generation_id"],
            "member_id": member_id,
            "group_instance_id": None,
            "assignments": [{"member_id": member_id, "assignment": assigned}],
        }
        assert self._client.request("SyncGroup", 3, body)["error_code"] == 0

    def leave(self) -> None:
        """Leave the group."""
        members = [{"member_id": self.answer["member_id"], "group_instance_id": None}]
        self._client.request("LeaveGroup", 3, {"group_id": self._group, "members": members})
