"""Groups whose members change from one protocol to the other while they are live (KIP-848).

A process speaks either; as a classic member it is cooperative: it keeps its partitions while it
joins again, and reports them. Whatever kind of group it is in, nobody may own what another member
still owns.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from broker.codec.coordinator_records import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from broker.core.groups.commands.classic import GroupProtocol
from tests.simulation.consumer_members import TOPICS, Claims, ConsumerMember, Owned
from tests.simulation.members import ClassicMember
from tests.simulation.simulation import Simulation
from tests.support.subscriptions import heard, said

_PER_TOPIC = 100  # numbers of partitions: of the first topic from 0 on, of the second from here on
_ALL = (0, 1, _PER_TOPIC, _PER_TOPIC + 1)
_VERSION = 1  # the first version that has a member's owned partitions


class CooperativeMember(ClassicMember):
    """A classic member that shares its group with members of the other protocol."""

    # A consumer group waits for a sync after each join, and fences a member without one (as Kafka
    # does).
    _joins_late = False

    def __init__(self, sim: Simulation, group_id: str, name: str, claims: Claims) -> None:
        super().__init__(sim, group_id, name, is_static=False)
        self._claims = claims

    @property
    def owned(self) -> Owned:
        """Return its partitions, as the broker names them."""
        return self._places(self.assigned)

    def _places(self, numbers: set[int]) -> Owned:
        found = [self._sim.broker.topics.get(name) for name in TOPICS]
        ids = [topic.topic_id for topic in found if topic is not None]
        return {(ids[each // _PER_TOPIC], each % _PER_TOPIC) for each in numbers}

    def _metadata(self) -> GroupProtocol:
        body = {
            "topics": list(TOPICS),
            "user_data": None,
            "owned_partitions": _said(self.assigned),
        }
        return GroupProtocol("cooperative-sticky", encode_subscription(_VERSION, body))

    def _prepare_to_join(self) -> None:
        """Continue reading meanwhile."""

    async def _take(self, assignment: bytes) -> bool:
        embedded = decode_assignment(assignment)
        body = {} if embedded is None else embedded.body
        assigned = _heard(body.get("assigned_partitions", []))
        revoked, added = self.assigned - assigned, assigned - self.assigned
        self._sim.note(f"{self.name} had {self.assigned}, has {assigned}")
        self._claims.take(self, self._places(added), self._sim.time.now_ms)
        self.assigned = self.assigned | added
        if revoked:
            await self._sim.time.sleep(self._sim.rng.randrange(1_000))
            self._claims.give_back(self, self._places(revoked))
            self.assigned, self._commits.positions = self.assigned - revoked, {}
        return not revoked

    def _lose(self) -> None:
        self._claims.give_back(self, self.owned)
        super()._lose()

    def _assignments(self) -> dict[str, bytes]:
        """Take from members with more than a fair share; give to those with least."""
        shares: dict[str, set[int]] = {}
        owned_by_any: set[int] = set()
        fair = -(-len(_ALL) // max(len(self._members), 1))
        for member in self._members:
            body = decode_subscription(member.metadata).body
            owned = _heard(body["owned_partitions"] or []) - owned_by_any
            owned_by_any |= owned
            shares[member.member_id] = set(sorted(owned)[:fair])
        for number in sorted(set(_ALL) - owned_by_any):
            if shares:
                min(shares.values(), key=len).add(number)
        return {
            member_id: encode_assignment(_VERSION, {"assigned_partitions": _said(share)})
            for member_id, share in shares.items()
        }


class RollingMember:
    """One place in such a group: a process of either protocol, and its successor."""

    def __init__(self, sim: Simulation, group_id: str, name: str, claims: Claims) -> None:
        self._sim = sim
        self._classic = CooperativeMember(sim, group_id, f"{name}c", claims)
        self._consumer = ConsumerMember(sim, group_id, f"{name}n", claims, is_static=False)

    @property
    def owned(self) -> Owned:
        """Return the partitions of the live process."""
        return self._classic.owned | self._consumer.owned

    async def live(self) -> None:
        """Run process after process."""
        while True:
            await self._sim.time.sleep(self._sim.rng.randrange(3_000))
            member = self._sim.rng.choice((self._classic, self._consumer))
            self._sim.note(f"{member.name} begins")
            await member.process()
            self._sim.note(f"{member.name} ended")


def _said(numbers: set[int]) -> list[dict[str, Any]]:
    return said((TOPICS[each // _PER_TOPIC], each % _PER_TOPIC) for each in sorted(numbers))


def _heard(topics: Iterable[Mapping[str, Any]]) -> set[int]:
    return {TOPICS.index(topic) * _PER_TOPIC + number for topic, number in heard(topics)}
