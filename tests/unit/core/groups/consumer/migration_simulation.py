"""Clients of both protocols, a shard that serves them, and who believes to own which partition.

The clients do what the Java client does: an eager one revokes everything before it joins, a
cooperative one only what it is no longer assigned, one of the consumer protocol what the broker
takes from it. The leader of a classic group assigns evenly, and withholds what has yet to move.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from broker.codec.coordinator_records import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
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
from broker.core.groups.commands.consumer import ConsumerHeartbeat, ConsumerHeartbeatResponse
from broker.core.groups.commands.decision import GroupDecision
from broker.core.groups.coordinator import RECORD_FORMAT
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records.consumer import in_order
from broker.core.groups.settings import ConsumerSettings, GroupSettings
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeTopics
from tests.support.logged_shard import LoggedShard
from tests.support.subscriptions import Place, by_topic, heard, said

GROUP = "g"
TOPICS = {"t": 5, "u": 2}
NO_ERROR = ErrorCode.NONE
REBALANCE_MS = 60_000
START_MS = 1_000
SESSION_MS = 45_000  # the broker's, of members of the consumer protocol


class LoggedGroups(LoggedShard[GroupShard]):
    """One shard, its log, its topics, and its clients."""

    def __init__(self, seed: int, settings: ConsumerSettings | None = None) -> None:
        self.random = Random(seed)
        self.topics = FakeTopics()
        for name, count in TOPICS.items():
            self.topics.put(name, count)
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=0, consumer=settings or ConsumerSettings()
        )
        super().__init__(
            lambda: GroupShard(self.settings, topics=self.topics), RECORD_FORMAT, START_MS
        )
        self.ids = 0
        self.clients: list[Client] = []
        self.refuses = False  # whether the group is classic, and stays so

    def apply(self, decision: GroupDecision) -> None:
        self.write(decision)
        for token, response in decision.replies:
            assert isinstance(token, Token)
            token.client.heard_ms = self.now_ms
            token.client.receive(token, response)
        self.check()

    def check(self) -> None:
        owners: dict[Place, Client] = {}
        for client in self.clients:
            # A client without a response for a session timeout, or that has not revoked or rejoined
            # for a rebalance timeout, has given up by itself.
            is_late = (
                client.notified_ms is not None and self.now_ms - client.notified_ms >= REBALANCE_MS
            )
            has_given_up = is_late or self.now_ms - client.heard_ms >= SESSION_MS
            for place in () if has_given_up else client.owned:
                assert place not in owners, f"{place} is owned by {client} and {owners[place]}"
                owners[place] = client

    def pass_by(self, ms: int) -> None:
        """Let time pass."""
        for decisions in self.advance(ms):
            for decision in decisions:
                self.apply(decision)

    def lose(self) -> None:
        """Lose everything but the log; waiters are notified."""
        waiting = self.shard.waiting()
        for decision in self.reload():
            self.apply(decision)
        for token in waiting:
            assert isinstance(token, Token)
            token.client.lost(token)

    def run(self, steps: int) -> None:
        """Let clients take steps in any order, and time pass between them."""
        for _ in range(steps):
            if self.clients:
                self.random.choice(self.clients).step()
                self.check()
            self.pass_by(self.random.choice((1, 10, 500)))

    def settle(self) -> None:
        """Let every client take steps in turn until nothing changes."""
        for _ in range(40):
            for client in self.clients:
                client.step()
                self.check()
            self.pass_by(200)
        owned = {place for client in self.clients for place in client.owned}
        topics = filter(None, map(self.topics.get, TOPICS))
        assert owned == {(each.name, n) for each in topics for n in range(each.partition_count)}
        counts = [len(client.owned) for client in self.clients]
        assert max(counts) - min(counts) <= 1

    def settle_after_sessions(self) -> None:
        """Let the sessions of dead clients end, and the others heartbeat, until nothing changes."""
        for _ in range(12):
            for client in self.clients:
                client.step()
                self.check()
            self.pass_by(5_000)
        self.settle()

    def places(self, partitions: Any) -> set[Place]:
        found = {}
        for topic_id, numbers in partitions.items():
            topic = self.topics.by_id(topic_id)
            if topic is not None:  # A deleted topic has no owner.
                found[topic.name] = numbers
        return {(name, number) for name, numbers in found.items() for number in numbers}


class Token:
    """A request and its sender."""

    def __init__(self, client: "Client") -> None:
        self.client = client


class Client:
    """A consumer."""

    def __init__(self, logged: LoggedGroups, name: str, instance_id: str | None) -> None:
        self.logged = logged
        self.name = name
        self.instance_id = instance_id
        self.owned: set[Place] = set()
        self.heard_ms = logged.now_ms  # when it was last answered
        self.notified_ms: int | None = None  # when it was asked for what it has not done yet

    def __repr__(self) -> str:
        return self.name

    def step(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    def receive(self, token: Token, response: Any) -> None:
        raise NotImplementedError

    def lost(self, token: Token) -> None:
        raise NotImplementedError


class ConsumerClient(Client):
    """A client of the consumer protocol."""

    def __init__(self, logged: LoggedGroups, name: str, *, instance_id: str | None = None) -> None:
        super().__init__(logged, name, instance_id)
        self.epoch = 0
        self.assigned: set[Place] | None = None
        self.is_deaf = False  # whether answers are lost
        self.must_say_all = False  # as clients do after a missing response

    def step(self) -> None:
        """Now and then it is slow to do what it was told."""
        if self.logged.now_ms - self.heard_ms >= SESSION_MS:
            self._abandon()
        if self.assigned is not None and self.logged.random.random() < 0.7:
            self.owned &= self.assigned
            self.owned |= self.assigned
            self.assigned = self.notified_ms = None
        self._beat(self.epoch)

    def leave(self) -> None:
        self.owned = set()
        if self.epoch > 0:
            self._beat(-1)

    def leave_for_a_while(self) -> None:
        """Stop a static member; its successor under the instance id is another client."""
        self.owned = set()
        self._beat(-2)

    def _abandon(self) -> None:
        self.owned, self.epoch, self.assigned, self.notified_ms = set(), 0, None, None

    def _beat(self, epoch: int) -> None:
        is_full = epoch == 0 or self.must_say_all
        request = ConsumerHeartbeat(
            GROUP,
            self.name,
            epoch,
            self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            topic_names=tuple(TOPICS) if is_full else None,
            owned=in_order(self._owned_ids()),
        )
        logged = self.logged
        logged.apply(logged.shard.consumer_heartbeat(request, Token(self), logged.now()))

    def _owned_ids(self) -> dict[bytes, list[int]]:
        found = {self.logged.topics.get(name): each for name, each in by_topic(self.owned).items()}
        return {topic.topic_id: numbers for topic, numbers in found.items() if topic is not None}

    def receive(self, _token: Token, response: Any) -> None:
        assert isinstance(response, ConsumerHeartbeatResponse)
        if response.error is not NO_ERROR:
            if self.logged.refuses:
                assert response.error is ErrorCode.GROUP_ID_NOT_FOUND
                return
            assert response.error in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
            self._abandon()
            return
        self.must_say_all = self.is_deaf
        if self.is_deaf:
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.notified_ms = self.logged.now_ms if self.notified_ms is None else self.notified_ms
            self.assigned = self.logged.places(response.assignment)


class ClassicClient(Client):
    """A client of the classic protocol."""

    def __init__(
        self,
        logged: LoggedGroups,
        name: str,
        *,
        is_cooperative: bool,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(logged, name, instance_id)
        self.is_cooperative = is_cooperative
        self.member_id = ""
        self.generation = -1
        self.must_join = True
        self.waiting: Token | None = None

    @property
    def protocol(self) -> str:
        return "cooperative" if self.is_cooperative else "eager"

    def step(self) -> None:
        if self.waiting is not None:
            return
        if self.must_join:
            self._join()
        else:
            request = HeartbeatRequest(GROUP, self.member_id, self.instance_id, self.generation)
            logged = self.logged
            logged.apply(logged.shard.heartbeat(request, Token(self), logged.now()))

    def leave(self) -> None:
        self.owned = set()
        request = LeaveRequest(GROUP, (LeavingMember(self.member_id),))
        self.waiting = None
        self.logged.apply(self.logged.shard.leave(request, Token(self), self.logged.now()))

    def lost(self, _token: Token) -> None:
        self.waiting, self.must_join = None, True

    def _join(self) -> None:
        if not self.is_cooperative:
            self.owned = set()
        body = {
            "topics": sorted(TOPICS),
            "user_data": None,
            "owned_partitions": said(sorted(self.owned)),
            "generation_id": self.generation,
        }
        self.logged.ids += 1
        request = JoinRequest(
            GROUP,
            self.member_id,
            self.instance_id,
            self.name,
            "host",
            30_000,
            60_000,
            "consumer",
            (GroupProtocol(self.protocol, encode_subscription(2, body)),),
            requires_member_id=True,
            fresh_id=str(self.logged.ids),
        )
        self.waiting = Token(self)
        logged = self.logged
        logged.apply(logged.shard.classic_group_join(request, self.waiting, logged.now()))

    def receive(self, token: Token, response: Any) -> None:
        if token is self.waiting:
            self.waiting = None
        if isinstance(response, JoinResponse):
            self._joined(response)
        elif isinstance(response, SyncResponse):
            self._synced(response)
        elif isinstance(response, ErrorCode):
            self._failed(response)

    def _failed(self, error: ErrorCode) -> None:
        self.must_join = self.must_join or error is not NO_ERROR
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}:
            self.owned, self.generation = set(), -1
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def _joined(self, response: JoinResponse) -> None:
        if response.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return
        self._failed(response.error)
        if response.error is not NO_ERROR:
            return
        self.member_id, self.generation = response.member_id, response.generation
        assignments = {}
        if response.leader == self.member_id:
            assignments = dict(self._assign(response))
        request = SyncRequest(
            GROUP,
            self.member_id,
            self.instance_id,
            self.generation,
            assignments,
            "consumer",
            response.protocol,
        )
        self.waiting = Token(self)
        logged = self.logged
        logged.apply(logged.shard.sync(request, self.waiting, logged.now()))

    def _assign(self, response: JoinResponse) -> Iterator[tuple[str, bytes]]:
        """Assign evenly and stickily, and nothing that another member reports as owned."""
        owned = {
            each.member_id: set(heard(decode_subscription(each.metadata).body["owned_partitions"]))
            for each in response.members
        }
        places = [(name, each) for name, count in TOPICS.items() for each in range(count)]
        quota, extra = divmod(len(places), len(owned))
        shares: dict[str, list[Place]] = {}
        for member_id in sorted(owned):
            limit = quota + (extra > 0)
            kept = sorted(owned[member_id] & set(places))[:limit]
            extra -= len(kept) > quota
            shares[member_id] = kept
            places = [each for each in places if each not in kept]
        taken = set().union(*owned.values())
        for member_id in sorted(shares, key=lambda each: len(shares[each])):
            room = quota - len(shares[member_id]) + (extra > 0 and len(shares[member_id]) <= quota)
            extra -= room > 0 and len(shares[member_id]) + room > quota
            given, places = places[: max(room, 0)], places[max(room, 0) :]
            shares[member_id] += [each for each in given if each not in taken]
        for member_id, share in shares.items():
            yield member_id, encode_assignment(2, {"assigned_partitions": said(share)})

    def _synced(self, response: SyncResponse) -> None:
        self._failed(response.error)
        if response.error is not NO_ERROR:
            return
        embedded = decode_assignment(response.assignment)
        assigned = set(heard(embedded.body["assigned_partitions"]) if embedded else ())
        # A partition taken from a cooperative member is free once it has joined again without it.
        self.must_join = bool(self.owned - assigned)
        self.owned = assigned
