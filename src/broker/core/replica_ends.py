"""Asks brokers how much they have of partitions, before one of them is elected uncleanly.

    items ──> the live brokers with a replica of each ── OffsetForLeaderEpoch ──> their ends
                                                           by replica id

Of two logs the one whose last leader epoch is larger has more of what was acknowledged last, and of
two with the same epoch the longer one. A broker that does not answer in time is elected only if no
other one can be.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from broker.codec import Fields
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.writes import Item
from broker.core.peers import Calls
from broker.core.scheduling.steps import in_parts
from broker.model.errors import CodecError, PeerError, Unreachable
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP, REPLICA_ENDS_SECONDS

NEWEST_EPOCH = (1 << 31) - 1  # asks for the end of a log, whatever its last epoch is
_VERSIONS = range(4, 5)


class End(NamedTuple):
    """Where a log ends; the larger one has more."""

    epoch: int  # the last leader epoch
    offset: int


class HeldLog(Protocol):
    """A log that this broker leads or follows."""

    @property
    def leader_epoch(self) -> int:
        """The last leader epoch of the log."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def is_offline(self) -> bool:
        """Whether its files cannot be used."""

    @property
    def is_loading(self) -> bool:
        """Whether it is not known yet what it has."""


class ReplicaEnds:
    """The ends of all replicas that are running."""

    def __init__(
        self,
        broker_id: int,
        image: ClusterImage,
        find_log: Callable[[bytes, int], HeldLog | None],
        peers: Calls,
    ) -> None:
        """Ask nothing yet.

        Args:
            broker_id: of this broker.
            image: of this broker.
            find_log: returns the log of a partition that this broker leads or follows, or None.
            peers: sends the requests.
        """
        self._broker_id = broker_id
        self._image = image
        self._find_log = find_log
        self._peers = peers

    async def of(self, items: Sequence[Item]) -> dict[Item, dict[int, End]]:
        """Return the ends of the replicas that are known, by partition and broker."""
        found: dict[Item, dict[int, End]] = {}
        silent: set[int] = set()
        async for part in in_parts(items, CLUSTER_PARTITIONS_PER_STEP):
            asked = self._by_broker(part, silent)
            answers = await asyncio.gather(*[self._ask(*each) for each in asked.items()])
            for broker_id, ends in zip(asked, answers, strict=True):
                if ends is None:
                    silent.add(broker_id)
                for item, end in (ends or {}).items():
                    found.setdefault(item, {})[broker_id] = end
        return found

    def _by_broker(self, items: Sequence[Item], silent: set[int]) -> dict[int, list[Item]]:
        asked: dict[int, list[Item]] = {}
        for item in items:
            state = self._image.state(*item)
            for each in () if state is None else state.replicas:
                if each in self._image.brokers and each not in silent:
                    asked.setdefault(each, []).append(item)
        return asked

    async def _ask(self, broker_id: int, items: Sequence[Item]) -> dict[Item, End] | None:
        """Return the ends of a broker's logs, None if it does not answer."""
        if broker_id == self._broker_id:
            return self._own(items)
        topics = self._image.topics
        by_name: dict[str, list[Item]] = {}
        for item in items:
            if item[0] in topics:
                by_name.setdefault(topics[item[0]].name, []).append(item)
        try:
            _, answer = await self._peers.call(
                broker_id,
                "OffsetForLeaderEpoch",
                _VERSIONS,
                _request(self._broker_id, by_name),
                timeout_seconds=REPLICA_ENDS_SECONDS,
            )
        except (Unreachable, PeerError, CodecError):
            return None
        return _ends(answer, by_name)

    def _own(self, items: Sequence[Item]) -> dict[Item, End]:
        found = {}
        for item in items:
            log = self._find_log(*item)
            if log is not None and not (log.is_loading or log.is_offline):
                found[item] = End(log.leader_epoch, log.log_end_offset)
        return found


def in_order(replicas: Sequence[int], ends: Mapping[int, End]) -> list[int]:
    """Return replicas, those with the most first and those that are not known last."""
    return sorted(replicas, key=lambda each: ends.get(each, End(-1, -1)), reverse=True)


def _request(broker_id: int, by_name: Mapping[str, Sequence[Item]]) -> Fields:
    return {
        "replica_id": broker_id,
        "topics": [
            {
                "topic": name,
                "partitions": [
                    {"partition": number, "current_leader_epoch": -1, "leader_epoch": NEWEST_EPOCH}
                    for _, number in items
                ],
            }
            for name, items in by_name.items()
        ],
    }


def _ends(answer: Mapping[str, Any], by_name: Mapping[str, Sequence[Item]]) -> dict[Item, End]:
    ids = {name: items[0][0] for name, items in by_name.items()}
    return {
        (ids[topic["topic"]], each["partition"]): End(each["leader_epoch"], each["end_offset"])
        for topic in answer["topics"]
        if topic["topic"] in ids
        for each in topic["partitions"]
        if each["error_code"] == 0
    }
