"""Invariants of a group in random histories with reloads of the coordinator.

Clients join, sync, commit, leave, forget their member ids and respond late. After every step:

- a shard loaded from the log is in the same state as the one that wrote it;
- no partition has two owners in one generation;
- a commit of another generation than the current one changed nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.commands.classic import (
    GroupProtocol,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.commands.offsets import CommitRequest, CommitResponse, OffsetToCommit
from broker.core.groups.coordinator import RECORD_FORMAT
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records.classic import GroupImage
from broker.core.groups.records.offsets import CommittedOffset
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeTopics
from tests.support.logged_shard import LoggedShard

START_MS = 1_000_000
PARTITIONS = 6
SUBSCRIPTIONS = (
    (GroupProtocol("range", b"1"), GroupProtocol("sticky", b"1")),
    (GroupProtocol("sticky", b"2"), GroupProtocol("range", b"2")),
    (GroupProtocol("range", b"3"),),
)
DELAYS_MS = (1, 3_000, 6_000, 11_000)


@dataclass
class Client:
    """What a client believes."""

    name: str
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    leads: tuple[str, ...] = ()
    past_generations: list[int] = field(default_factory=list)


class Run(LoggedShard[GroupShard]):
    """One group, its log, and four clients, the last of them a static member."""

    def __init__(self, delay_ms: int) -> None:
        settings = GroupSettings(initial_rebalance_delay_ms=delay_ms)
        super().__init__(lambda: GroupShard(settings, topics=FakeTopics()), RECORD_FORMAT, START_MS)
        self.clients = [Client("a", None), Client("b", None), Client("c", None), Client("d", "D")]
        self.ids = 0
        self.owners: dict[tuple[int, int], str] = {}

    def apply(self, decision: GroupDecision) -> None:
        self.write(decision)
        for token, response in decision.replies:
            client = next(client for client in self.clients if client.name == token)
            if isinstance(response, JoinResponse):
                self.joined(client, response)
            elif isinstance(response, SyncResponse) and response.error is ErrorCode.NONE:
                self.owned(client, response.assignment)

    def joined(self, client: Client, response: JoinResponse) -> None:
        if response.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error is ErrorCode.NONE:
            client.past_generations.append(client.generation)
            client.member_id = response.member_id
            client.generation = response.generation
            is_leader = response.leader == response.member_id and not response.skip_assignment
            client.leads = tuple(each.member_id for each in response.members if is_leader)
        elif response.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            client.member_id = ""

    def owned(self, client: Client, assignment: bytes) -> None:
        for partition in assignment:
            owner = self.owners.setdefault((client.generation, partition), client.name)
            assert owner == client.name, f"two owners of {partition} in {client.generation}"

    # ---- what clients do -------------------------------------------------------------------------

    def join(self, client: Client, choice: int) -> None:
        self.ids += 1
        request = JoinRequest(
            "g",
            client.member_id,
            client.instance_id,
            client.name,
            "/host",
            10_000,
            5_000 + 10_000 * (choice % 2),
            "consumer",
            SUBSCRIPTIONS[choice % 3],
            requires_member_id=choice % 4 > 0,
            supports_skip_assignment=choice % 5 > 0,
            fresh_id=str(self.ids),
        )
        self.apply(self.shard.classic_group_join(request, client.name, self.now()))

    def sync(self, client: Client, choice: int) -> None:
        # A different assignment each time: only one of them may ever count in a generation.
        shares: dict[str, bytes] = dict.fromkeys(client.leads, b"")
        for partition in range(PARTITIONS if client.leads else 0):
            member_id = client.leads[(partition + choice) % len(client.leads)]
            shares[member_id] += bytes([partition])
        request = SyncRequest("g", client.member_id, client.instance_id, client.generation, shares)
        self.apply(self.shard.sync(request, client.name, self.now()))

    def heartbeat(self, client: Client, _choice: int) -> None:
        request = HeartbeatRequest("g", client.member_id, client.instance_id, client.generation)
        self.apply(self.shard.heartbeat(request, client.name, self.now()))

    def leave(self, client: Client, _choice: int) -> None:
        request = LeaveRequest("g", (LeavingMember(client.member_id, client.instance_id),))
        self.apply(self.shard.leave(request, client.name, self.now()))

    def forget(self, client: Client, _choice: int) -> None:
        client.member_id = ""

    def commit(self, client: Client, choice: int) -> None:
        generations = [client.generation, *client.past_generations]
        generation = generations[choice % len(generations)]
        request = CommitRequest(
            "g",
            client.member_id,
            client.instance_id,
            generation,
            (OffsetToCommit("t", choice % PARTITIONS, len(self.log)),),
        )
        decision = self.shard.commit(request, client.name, self.now())
        group = self.shard.groups.get("g")
        current = group.image.generation if isinstance(group, ClassicGroup) else 0
        (_, response), *_ = decision.replies
        assert isinstance(response, CommitResponse)
        if generation >= 0 and generation != current:
            assert response.errors != (ErrorCode.NONE,)
            assert not decision.records
        self.apply(decision)

    def pause(self, _client: Client, choice: int) -> None:
        self.now_ms += DELAYS_MS[choice % len(DELAYS_MS)]
        for decision in self.shard.tick(self.now()):
            self.apply(decision)
        deadline_ms = self.shard.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms

    def lose(self, _client: Client, _choice: int) -> None:
        for decision in self.reload():
            self.apply(decision)

    def agree(self, _client: Client, choice: int) -> None:
        """Let all clients act correctly, in some order: a stable group for what follows."""
        order = self.clients[choice % 4 :] + self.clients[: choice % 4]
        for client in order + order:
            self.join(client, choice)
        self.now_ms += 6_000
        for decision in self.shard.tick(self.now()):
            self.apply(decision)
        for client in order:
            self.sync(client, choice)


ACTIONS = (
    *("join", "join", "sync", "sync", "agree", "agree", "heartbeat", "commit", "commit"),
    *("leave", "forget", "pause", "pause", "lose"),
)


def state(
    shard: GroupShard,
) -> dict[str, tuple[GroupImage, list[str], dict[str, dict[int, CommittedOffset]]]]:
    """Return the state that a shard must have again after a load."""
    return {
        name: (
            group.image,
            list(group.image.members),
            {topic: dict(each) for topic, each in shard.offsets.of_group(name).items()},
        )
        for name, group in shard.groups.items()
        if isinstance(group, ClassicGroup)
        if group.image.generation or shard.offsets.of_group(name)
    }


def weight(shard: GroupShard) -> int:
    """Return the load that it reports for its groups."""
    committed = [
        offset
        for name in shard.offsets.groups()
        for partitions in shard.offsets.of_group(name).values()
        for offset in partitions.values()
    ]
    return sum(group.memory_bytes for group in shard.groups.values()) + sum(
        limits.OFFSET_BYTES + len(each.metadata) for each in committed
    )


def play(steps: Iterable[tuple[str, int, int]], delay_ms: int) -> None:
    run = Run(delay_ms)
    for action, who, choice in steps:
        getattr(run, action)(run.clients[who], choice)
        assert state(run.shard) == state(run.loaded())
        assert run.shard.memory_usage == (len(run.shard.groups), weight(run.shard))


STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.integers(0, 59)), max_size=50
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, delay_ms=st.sampled_from([0, 3_000]))
def test_any_history_loads_the_same_groups_and_no_partition_has_two_owners(
    steps: list[tuple[str, int, int]], delay_ms: int
) -> None:
    play(steps, delay_ms)
