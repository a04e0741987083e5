"""Members that join a group at the same time, each on its own connection."""

import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.end_to_end.blocking_client import Client, check
from benchmarks.end_to_end.targets import BenchmarkError
from broker import codec

REBALANCE_IN_PROGRESS = 27
LOADING = (14, 15, 16)  # while a coordinator is loading
HEARTBEAT_SECONDS = 0.2  # without a response
WAIT_SECONDS = 60.0
VERSION = 3


@dataclass
class Traffic:
    """The requests and bytes of all members."""

    requests: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


def join_body(group: str, member_id: str = "") -> codec.Fields:
    """Return the body of a JoinGroup."""
    return {
        "group_id": group,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0" + b"\0" * 8}],
    }


class Members:
    """Members that join a group until all have an assignment."""

    def __init__(self, group: str, clients: Sequence[Client]) -> None:
        """Create a member for each connection."""
        self.traffic = Traffic()
        self._group = group
        self._clients = clients
        self._membership: dict[Client, codec.Fields] = {}
        self._waits_for = dict.fromkeys(clients, "JoinGroup")
        self._assigned: set[Client] = set()

    def join(self) -> None:
        """Join the group."""
        with selectors.DefaultSelector() as ready:
            for client in self._clients:
                ready.register(client.socket, selectors.EVENT_READ, client)
                self._ask(client, "JoinGroup", join_body(self._group))
            deadline = time.monotonic() + WAIT_SECONDS
            while len(self._assigned) < len(self._clients):
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"{self._group} has no assignment in {WAIT_SECONDS:.0f} s")
                answered = ready.select(HEARTBEAT_SECONDS)
                for key, _ in answered:
                    self._answered(key.data)
                if not answered:
                    self._ask_for_rebalances()

    def _answered(self, client: Client) -> None:
        frame = client.receive()
        self.traffic.bytes_received += len(frame) + 4
        api = self._waits_for[client]
        answer = codec.read_response(api, VERSION, frame).body
        if answer["error_code"] in LOADING:
            time.sleep(0.01)
        if answer["error_code"] in (REBALANCE_IN_PROGRESS, *LOADING):
            member_id = self._membership.get(client, {}).get("member_id", "")
            self._ask(client, "JoinGroup", join_body(self._group, member_id))
            return
        check([answer["error_code"]])
        if api == "JoinGroup":
            self._membership[client] = {
                "group_id": self._group,
                "generation_id": answer["generation_id"],
                "member_id": answer["member_id"],
            }
            self._sync(client, answer)
        else:
            self._assigned.add(client)

    def _sync(self, client: Client, answer: codec.Fields) -> None:
        assignments = [
            {"member_id": each["member_id"], "assignment": b"x" * 50} for each in answer["members"]
        ]
        self._ask(client, "SyncGroup", {**self._membership[client], "assignments": assignments})

    def _ask_for_rebalances(self) -> None:
        """Send heartbeats of members with an assignment, which report a rebalance."""
        for client in self._assigned.copy():
            self._ask(client, "Heartbeat", self._membership[client])

    def _ask(self, client: Client, api: str, body: codec.Fields) -> None:
        frame = codec.request_frame(api, VERSION, body, correlation_id=1)
        client.send(frame)
        self._waits_for[client] = api
        self._assigned.discard(client)
        self.traffic.requests += 1
        self.traffic.bytes_sent += len(frame)
