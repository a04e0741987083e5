"""Changes the ISRs of the partitions that this broker leads, as their followers come and go.

The native logs report followers that have caught up, and are asked for those that lag. What a log
waits for is set in the same callback in which that is decided (core/cluster/isr.py).
"""

import asyncio
from collections.abc import Callable, Sequence

from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.core.cluster.isr import IsrChanges
from broker.core.cluster.records import Replicas
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.cluster.writes import Item
from broker.core.scheduling.events import is_set_within
from broker.core.scheduling.steps import in_parts, in_steps, next_step
from broker.model.limits import (
    CLUSTER_PARTITIONS_PER_STEP,
    REPLICAS_CHECKED_SECONDS,
    REPLICAS_LAG_SECONDS_MIN,
)
from broker.server.cluster.machine_driver import MachineDriver
from broker.server.cluster.node import Node

_LAG_CHECKS = 2  # in replica.lag.time.max.ms
_EVENTS_PER_STEP = CLUSTER_PARTITIONS_PER_STEP // 2  # each is looked at, and its log is told


class InSync(MachineDriver[IsrChanges]):
    """The ISRs of what this broker leads, in each of its incarnations."""

    name = "in-sync replicas"

    def __init__(
        self,
        node: Node,
        find_log: Callable[[bytes, int], PartitionLog | None],
        turn: Turn,
        settings: TopicSettings,
        lag_ms: int,
    ) -> None:
        """Do nothing before `run`.

        Args:
            node: this broker.
            find_log: returns the log of a partition that it leads, or None.
            turn: of all logs.
            settings: of topics.
            lag_ms: replica.lag.time.max.ms.
        """
        super().__init__(node)
        self._find_log = find_log
        self._turn = turn
        self._settings = settings
        self._lag_ms = lag_ms
        self._scan_ms = 0  # when lagging followers are looked for next
        self._awaiting = asyncio.Event()  # a log waits for a follower, the first one that does
        turn.when_in_sync = self._writing.something.set
        turn.when_awaiting = self._awaiting.set

    def pending(self, item: Item) -> Replicas:
        """Return the followers of a partition whose addition is being written."""
        return () if self._machine is None else self._machine.pending(item)

    async def run(self) -> None:
        """Work until cancelled."""
        looking = asyncio.ensure_future(self._look())
        try:
            await super().run()
        finally:
            looking.cancel()

    async def _work(self, machine: IsrChanges) -> None:
        await self._take_events(machine)
        await self._give_changed(machine)
        while machine.has_work:
            await super()._work(machine)
            await self._give_changed(machine)  # it marks those that join

    async def _look(self) -> None:
        """Look now and then for followers that lag, and refuse what has waited for too long.

        Nothing is looked at while no log waits for a follower.
        """
        turn = self._turn
        while True:
            if turn.expiring_count:
                await asyncio.sleep(REPLICAS_CHECKED_SECONDS)
                turn.fail_overdue(turn.steady_ms)
            elif turn.lagging_count:
                left_seconds = (self._scan_ms - turn.steady_ms) / 1000
                await self._is_awaiting_within(max(left_seconds, REPLICAS_LAG_SECONDS_MIN))
            else:
                await self._is_awaiting_within(None)
            if turn.lagging_count and turn.steady_ms >= self._scan_ms:
                self._writing.something.set()

    async def _is_awaiting_within(self, seconds: float | None) -> None:
        await is_set_within(self._awaiting, seconds)
        self._awaiting.clear()

    def _begin(self, broker: tuple[int, int]) -> IsrChanges:
        image = self._node.metadata.image
        return IsrChanges(image, broker, self._settings, self._is_in_sync)

    async def _take_events(self, machine: IsrChanges) -> None:
        """Report what logs have seen of followers, and give logs what they have to wait for."""
        events, self._turn.isr_events = self._turn.isr_events, []
        async for part in in_parts(events, _EVENTS_PER_STEP):
            for log, replica_id, replica_epoch in part:
                machine.caught_up((log.topic_id, log.partition), replica_id, replica_epoch)
            self._give(machine, machine.take_changed())
        now_ms = self._turn.steady_ms
        if now_ms >= self._scan_ms:
            self._scan_ms = now_ms + self._lag_ms // _LAG_CHECKS
            lagging = self._turn.lag_scan(now_ms, self._lag_ms)
            async for log, replica_id in in_steps(lagging, CLUSTER_PARTITIONS_PER_STEP):
                machine.lagging((log.topic_id, log.partition), replica_id)

    async def _give_changed(self, machine: IsrChanges) -> None:
        while changed := machine.take_changed():
            self._give(machine, changed)
            await next_step()

    def _give(self, machine: IsrChanges, changed: Sequence[Item]) -> None:
        for item in changed:
            log = self._find_log(*item)
            state = self._node.metadata.image.state(*item)
            # Whoever gives a log the role of another epoch gives it its ISR, too.
            if log is not None and state is not None and log.known_epoch == state.leader_epoch:
                self._set_isr(log, machine.maximal(item), machine.committed(item))

    @staticmethod
    def _set_isr(log: PartitionLog, isr: Sequence[int], committed: int) -> None:
        if log.is_replicated and not (log.is_loading or log.is_offline):
            log.set_isr(list(isr), committed)

    def _is_in_sync(self, item: Item, replica_id: int, replica_epoch: int) -> bool:
        log = self._find_log(*item)
        if log is None or not log.is_replicated or log.is_loading or log.is_offline:
            return False
        state = self._node.metadata.image.state(*item)
        if state is None or log.known_epoch != state.leader_epoch:
            return False  # what the log knows of its followers is of another epoch
        needed = max(log.high_watermark, log.epoch_start)
        return any(
            known == replica_id and epoch == replica_epoch and end >= needed
            for known, epoch, end, _ in log.replica_states()
        )
