"""Invariants of an assigned group in random histories with reloads of the coordinator.

A model with the rules of V1's original server over plain dictionaries runs beside the shard. After
every step their answers are the same, and a shard loaded from the log has the same group.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.coordination.machine import Moment
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    Assignor,
)
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records import encoding
from broker.core.groups.settings import GroupSettings
from tests.support.fakes import FakeTopics

SESSION_MS = 10_000
ASSIGNORS = (None, Assignor.ROUND_ROBIN, Assignor.RANGE)
DELAYS_MS = (0, 3_000, 6_000, 10_001)


class Model:
    """One group, as in V1's original server."""

    def __init__(self) -> None:
        self.exists = False
        self.topic = ""
        self.assignor = Assignor.ROUND_ROBIN
        self.generation = 1
        self.heard: dict[str, int] = {}
        self.parts: dict[str, list[int]] = {}
        self.count = 0

    def rebalance(self, count: int) -> None:
        self.generation += 1
        self.count = count
        members = sorted(self.heard)
        self.parts = {each: [] for each in members}
        share, extra = divmod(count, max(len(members), 1))
        for number in range(count if members else 0):
            if self.assignor is Assignor.ROUND_ROBIN:
                place = number % len(members)
            else:
                larger = extra * (share + 1)
                in_larger = number < larger
                place = number // (share + 1) if in_larger else extra + (number - larger) // share
            self.parts[members[place]].append(number)

    def expire(self, count: int, now_ms: int) -> None:
        alive = {each: at for each, at in self.heard.items() if now_ms - at <= SESSION_MS}
        if alive != self.heard:
            self.heard = alive
            self.rebalance(count)
        if self.heard and count != self.count:
            self.rebalance(count)

    def join(
        self, topic: str, member: str, assignor: Assignor | None, count: int, now_ms: int
    ) -> tuple[AssignedError, int, list[int]]:
        if not self.exists:
            self.exists, self.topic = True, topic
            self.assignor = assignor or self.assignor
        if topic != self.topic:
            self.topic, self.heard = topic, {}
            self.rebalance(count)
        if assignor is not None and assignor is not self.assignor:
            self.assignor = assignor
            self.rebalance(count)
        self.expire(count, now_ms)
        is_new = member not in self.heard
        self.heard[member] = now_ms
        if is_new:
            self.rebalance(count)
        return AssignedError.NONE, self.generation, self.parts[member]

    def call(
        self, verb: str, topic: str, member: str, generation: int, count: int, now_ms: int
    ) -> tuple[AssignedError, int, list[int]]:
        if not self.exists or topic != self.topic:
            return AssignedError.GROUP_NOT_FOUND, 0, []
        self.expire(count, now_ms)
        if generation != self.generation:
            return AssignedError.STALE_GENERATION, self.generation, []
        if member not in self.heard:
            return AssignedError.UNKNOWN_MEMBER, self.generation, []
        if verb == "leave":
            del self.heard[member]
            self.rebalance(count)
            return AssignedError.NONE, self.generation, []
        self.heard[member] = now_ms
        return AssignedError.NONE, self.generation, self.parts[member]


class Run:
    """The shard, its log, the model, and what members believe."""

    def __init__(self) -> None:
        self.shard = GroupShard(GroupSettings(), topics=FakeTopics())
        self.log: list[tuple[bytes, bytes | None]] = []
        self.model = Model()
        self.now_ms = 1_000_000
        self.count = 3
        self.generations: dict[str, int] = {}

    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms)

    def apply(self, decision: GroupDecision) -> AssignedResponse:
        for record in decision.records:
            self.log.append(encoding.encode(record))
            self.shard.replay(record)
        [(_, response)] = decision.replies
        assert isinstance(response, AssignedResponse)
        return response

    def step(self, verb: str, member: str, topic: str, choice: int) -> None:
        if verb == "advance":
            self.now_ms += DELAYS_MS[choice % len(DELAYS_MS)]
            return
        if verb == "grow":
            self.count += 1 + choice % 2
            return
        if verb == "join":
            assignor = ASSIGNORS[choice % len(ASSIGNORS)]
            request = AssignedJoin(AssignedProtocol.V1, "g", topic, member, self.count, assignor)
            response = self.apply(
                self.shard.assigned.assigned_group_join(request, member, self.now())
            )
            expected = self.model.join(topic, member, assignor, self.count, self.now_ms)
            self.generations[member] = response.generation
        else:
            generation = self.generations.get(member, 0) + (choice == 0)
            call = AssignedCall(AssignedProtocol.V1, "g", topic, member, generation, self.count)
            serve = self.shard.assigned.leave if verb == "leave" else self.shard.assigned.sync
            response = self.apply(serve(call, member, self.now()))
            expected = self.model.call(verb, topic, member, generation, self.count, self.now_ms)
        assert (response.error, response.generation, list(response.partitions)) == expected

    def check_load(self) -> None:
        loaded = GroupShard(GroupSettings(), topics=FakeTopics())
        for key, value in self.log:
            record = encoding.decode(key, value)
            assert record is not None
            loaded.replay(record)
        assert loaded.groups.keys() == self.shard.groups.keys()
        for group_id, group in self.shard.groups.items():
            other = loaded.groups[group_id]
            assert isinstance(group, AssignedGroup)
            assert isinstance(other, AssignedGroup)
            assert (other.image, other.describe()) == (group.image, group.describe())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "join", "sync", "leave", "advance", "grow"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["t", "t", "t", "u"]),
        st.integers(0, 11),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(STEPS)
def test_a_random_history_follows_the_model_and_loads_the_same_group(
    steps: list[tuple[str, str, str, int]],
) -> None:
    run = Run()

    for step in steps:
        run.step(*step)
        run.check_load()
