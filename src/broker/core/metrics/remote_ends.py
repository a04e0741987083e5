"""The ends of partitions of which this broker has no copy, for the lag of its groups.

    a page ── wants the end of a partition ──> what is known of it, perhaps nothing
                                                       ^
    every few seconds ── ListOffsets to the leaders ───┘

A page never waits for another broker. It shows what was known a moment ago; the first page that
wants a partition shows nothing for it, and neither does one whose leader has not answered for long.
While pages are made, the leaders are asked again and again, whatever groups do; a while after the
last page nobody is asked.

No API tells the time of an offset. How old a record is is estimated from the ends that were seen,
and from those that the partition had a while ago (ListOffsets by timestamp), one age each time.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from broker.codec import Fields
from broker.core.metrics import limits
from broker.core.metrics.end_times import EndTimes
from broker.core.peers import Calls
from broker.core.scheduling.steps import in_parts
from broker.model.clock import Clock
from broker.model.errors import CodecError, PeerError, Unreachable

Place: TypeAlias = tuple[str, int]  # topic, partition

_VERSIONS: Final = range(5, 8)
_LATEST: Final = -1
_EARLIEST: Final = -2
_HOUR_MS: Final = 3_600_000
# How long ago the ends are that are asked for, one after the other. The first is before any record,
# so that the first record and its time are known.
_AGES_MS: Final = (None, 24 * 7 * _HOUR_MS, 24 * _HOUR_MS, 3 * _HOUR_MS, _HOUR_MS // 2, 300_000)


class RemoteEnd:
    """What is known of one partition.

    Attributes:
        start: its first offset.
        end: its high watermark.
        times: of its offsets.
    """

    __slots__ = ("ages", "end", "page", "seen", "start", "times")

    def __init__(self, page: int) -> None:
        """Know nothing; it is wanted for this page."""
        self.page = page
        self.seen: float | None = None  # when the leader told it, by the loop's clock
        self.start = self.end = 0
        self.times = EndTimes()
        self.ages = 0  # how many of _AGES_MS were asked for

    def look(self, start: int, end: int, now_ms: int) -> None:
        """Learn what the leader has told."""
        if end < self.end:  # the topic was made again, or a leader has lost records
            self.times, self.ages = EndTimes(), 0
        self.start, self.end = start, end
        self.times.add(end, now_ms)


class RemoteEnds:
    """The ends that pages want."""

    def __init__(
        self,
        broker_id: int,
        leader_of: Callable[[str, int], int | None],
        peers: Calls,
        clock: Clock,
    ) -> None:
        """Ask nothing yet.

        Args:
            broker_id: of this broker.
            leader_of: returns who leads a partition; negative for nobody, None for no partition.
            peers: sends the requests.
            clock: that of the timestamps.
        """
        self._broker_id = broker_id
        self._leader_of = leader_of
        self._peers = peers
        self._clock = clock
        self._known: dict[Place, RemoteEnd] = {}
        self._page = 0
        self._paged = 0.0  # when the last page was made
        self._is_wanted = asyncio.Event()

    def begin(self) -> None:
        """Begin a page."""
        self._page += 1

    def end(self) -> None:
        """End a page: what it has wanted is looked up soon, and for a while."""
        self._paged = asyncio.get_running_loop().time()
        if self._known:
            self._is_wanted.set()

    def find(self, topic: str, partition: int) -> RemoteEnd | None:
        """Return what is known of a partition that this page wants; None: nothing of late."""
        known = self._known.get((topic, partition))
        if known is None:
            if len(self._known) < limits.REMOTE_ENDS_MAX:
                self._known[topic, partition] = RemoteEnd(self._page)
            return None
        known.page = self._page
        oldest = asyncio.get_running_loop().time() - limits.REMOTE_ENDS_STALE_SECONDS
        return known if known.seen is not None and known.seen >= oldest else None

    async def run(self) -> None:
        """Ask while pages are made."""
        loop = asyncio.get_running_loop()
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            while loop.time() - self._paged < limits.REMOTE_ENDS_WANTED_SECONDS:
                await self.look()
                await asyncio.sleep(limits.REMOTE_ENDS_SECONDS)
            self._known.clear()

    async def look(self) -> None:
        """Ask the leaders of all partitions that one of the last two pages has wanted."""
        asked: dict[int, list[Place]] = {}
        async for part in in_parts(list(self._known), limits.REMOTE_ENDS_PER_STEP):
            for place in part:
                if self._known[place].page < self._page - 1:
                    del self._known[place]
                    continue
                leader = self._leader_of(*place)
                if leader is not None and leader >= 0 and leader != self._broker_id:
                    asked.setdefault(leader, []).append(place)
        await asyncio.gather(*[self._ask(*each) for each in asked.items()])

    async def _ask(self, leader: int, places: Sequence[Place]) -> None:
        try:
            async for part in in_parts(places, limits.REMOTE_ENDS_PER_STEP):
                await self._ask_part(leader, part)
        except (Unreachable, PeerError, CodecError):
            return  # what is known of the rest is shown until it is too old

    async def _ask_part(self, leader: int, places: Sequence[Place]) -> None:
        now_ms = self._clock.wall_ms()
        starts = await self._offsets(leader, dict.fromkeys(places, _EARLIEST))
        ends = await self._offsets(leader, dict.fromkeys(places, _LATEST))
        now = asyncio.get_running_loop().time()
        past: dict[Place, int] = {}
        for place in ends.keys() & starts.keys():
            known = self._known[place]
            known.look(starts[place][0], ends[place][0], now_ms)
            known.seen = now
            if known.ages < len(_AGES_MS):
                age_ms = _AGES_MS[known.ages]
                past[place] = 0 if age_ms is None else now_ms - age_ms
        for place, (offset, time_ms) in (await self._offsets(leader, past)).items():
            known = self._known[place]
            known.ages += 1
            # Without a record since then, the end was the same as now.
            found = (offset, min(time_ms, now_ms)) if offset >= 0 else (known.end, past[place])
            known.times.add(*found)

    async def _offsets(self, leader: int, asked: dict[Place, int]) -> dict[Place, tuple[int, int]]:
        """Return offsets and timestamps, of those partitions that the broker leads."""
        if not asked:
            return {}
        _, answer = await self._peers.call(
            leader,
            "ListOffsets",
            _VERSIONS,
            _request(asked),
            timeout_seconds=limits.REMOTE_ENDS_ANSWER_SECONDS,
        )
        return {
            (topic["name"], each["partition_index"]): (each["offset"], each["timestamp"])
            for topic in answer["topics"]
            for each in topic["partitions"]
            if each["error_code"] == 0 and (topic["name"], each["partition_index"]) in asked
        }


def _request(asked: dict[Place, int]) -> Fields:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), timestamp in asked.items():
        row = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        topics.setdefault(topic, []).append(row)
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
    }
