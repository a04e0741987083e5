"""The log cleaner: compacts the logs that are due, one at a time, as long as the broker runs.

    facts of each compacted log → plan (storage/maintenance/compaction.py) → the most urgent
      →  recovery points made durable: recovery never reads what a pass has compacted
      →  the pass, in a process of its own (storage/maintenance/compactor.py)
      →  group by group, oldest first: commit, install and replace, finish (storage/files/swap.py)
      →  the first dirty offset made durable; after a crash the pass is repeated

A log with a damaged batch is not compacted again before the next start. The same holds for a log
with a swap of which it is unknown whether it reached the disk: the next start completes or undoes
it. A log whose pass failed for another reason waits for log.cleaner.backoff.ms.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker._native.log.partition_log import PartitionLog
from broker.core.maintenance.compactor_process import CompactorFailedError, Message, compacting
from broker.core.scheduling.events import is_set_within
from broker.core.scheduling.steps import in_steps
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import StorageError
from broker.model.topic_config import TopicConfig
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.files import swap
from broker.storage.files.swap import Swap
from broker.storage.maintenance import compaction
from broker.storage.maintenance.compaction import NEVER_MS, LogFacts, Plan, Segment
from broker.storage.maintenance.compactor import Job

_MAX_TIMESTAMP = slice(35, 43)  # in the header of a batch (Kafka's record batch v2)
_log = logging.getLogger(__name__)


# Every log with the configuration of its topic.
Logs = Callable[[], Iterable[tuple[PartitionLog, TopicConfig]]]
# Runs work in the I/O thread; returns whether it succeeded.
OnDisk = Callable[[Callable[[], None]], Awaitable[bool]]


class Settings(NamedTuple):
    """The settings of the cleaner."""

    backoff_ms: int
    map_bytes: int


class _GivenUpError(Exception):
    """The pass cannot continue, with the reason; nothing is damaged."""


class Cleaner:
    """Compacts every log whose topic asks for it, repeatedly."""

    def __init__(
        self,
        logs: Logs,
        clock: Clock,
        on_disk: OnDisk,
        save_recovery_points: Callable[[], Awaitable[bool]],
        path: Path,
        settings: Settings,
    ) -> None:
        """Read from the data directory up to where each log has been compacted."""
        self._logs = logs
        self._clock = clock
        self._on_disk = on_disk
        self._save_recovery_points = save_recovery_points
        self._path = path
        self._settings = settings
        self._has_altered = asyncio.Event()
        self._first_dirty = text_files.read_offsets(path / text_files.CLEANER_OFFSETS)
        self._uncleanable: set[str] = set()  # folders of damaged logs
        self._not_before: dict[str, int] = {}  # folder → monotonic ms, after a failure
        self._cleaning: tuple[str, asyncio.Future[None]] | None = None  # the pass over a folder
        self._swapping: str | None = None  # the folder in which a swap is under way
        self._resting: set[PartitionLog] = set()  # that others copy
        self.is_paused = False  # set while the disk is full: a pass first takes space
        self._saving: asyncio.Future[bool] | None = None  # the last write that is not awaited

    def alter_settings(self, settings: Settings) -> None:
        """Use other settings from the next pass on, and check at once whether one is due."""
        self._settings = settings
        self._has_altered.set()

    async def run(self) -> None:
        """Do every pass that is due, then wait; runs until cancelled."""
        known = {(log.topic, log.partition) for log, _ in self._logs()}
        self._forget(key for key in list(self._first_dirty) if key not in known)
        while True:
            await is_set_within(self._has_altered, self._settings.backoff_ms / 1000)
            self._has_altered.clear()
            while not self.is_paused and await self.clean_next():
                pass

    def topic_deleted(self, topic: str) -> None:
        """Forget a deleted topic, before a topic of the same name creates its first file."""
        self._forget(key for key in list(self._first_dirty) if key[0] == topic)
        for folder in {*self._uncleanable, *self._not_before}:
            if Path(folder).name.rpartition("-")[0] == topic:
                self._uncleanable.discard(folder)
                self._not_before.pop(folder, None)

    def partition_removed(self, topic: str, partition: int) -> None:
        """Forget a partition whose folder is removed, before this broker copies it anew."""
        self._forget([(topic, partition)] if (topic, partition) in self._first_dirty else [])
        for folder in {*self._uncleanable, *self._not_before}:
            if Path(folder).name == f"{topic}-{partition}":
                self._uncleanable.discard(folder)
                self._not_before.pop(folder, None)

    def _forget(self, keys: Iterable[tuple[str, int]]) -> None:
        if [self._first_dirty.pop(key) for key in keys]:
            self._saving = asyncio.ensure_future(self._save_first_dirty())

    async def clean_next(self) -> bool:
        """Do one pass over the most urgent log; False when none is due."""
        plans: dict[str, Plan] = {}
        logs: dict[str, tuple[PartitionLog, TopicConfig]] = {}
        async for log, config in in_steps(list(self._logs()), limits.LOGS_CHECKED_PER_STEP):
            if "compact" in config.words("cleanup.policy") and self._may_clean(log):
                plan = self._plan(log, config)
                if plan is not None:
                    plans[log.folder] = plan
                    logs[log.folder] = log, config
        found = compaction.most_urgent(plans.items())
        if found is None:
            return False
        folder, plan = found
        if not self._may_clean(logs[folder][0]):  # the broker has left it while others were planned
            return True
        cleaning = self._cleaning = folder, asyncio.ensure_future(self._clean(*logs[folder], plan))
        try:
            await asyncio.wait([cleaning[1]])
        finally:
            self._cleaning = None
            cleaning[1].cancel()  # if this task is cancelled
            await asyncio.wait([cleaning[1]])
        if not cleaning[1].cancelled():
            cleaning[1].result()
        return True

    async def leave(self, log: PartitionLog) -> None:
        """End the pass over a log, if there is one: at return nothing writes to its folder.

        A swap that has begun is completed or undone by whoever opens the log next.
        """
        self._not_before[log.folder] = self._clock.monotonic_ms() + self._settings.backoff_ms
        cleaning = self._cleaning
        if cleaning is not None and cleaning[0] == log.folder:
            cleaning[1].cancel()
            await asyncio.wait([cleaning[1]])

    async def rest(self, log: PartitionLog) -> None:
        """As `leave`, and begin no pass over the log before `resume`."""
        self._resting.add(log)
        await self.leave(log)

    def resume(self, log: PartitionLog) -> None:
        """Compact a log again."""
        self._resting.discard(log)

    async def cut(self, log: PartitionLog, offset: int) -> None:
        """End the pass over a log that is going to be cut at an offset.

        What is appended from there on is dirty. StorageError when that cannot be made durable: a
        start would take the log for compacted further than it is.
        """
        await self.leave(log)
        key = (log.topic, log.partition)
        if self._first_dirty.get(key, 0) > offset:
            self._first_dirty[key] = offset
            if not await self._save_first_dirty():
                raise StorageError(f"{log.folder}: the end of its clean part cannot be written")

    def _may_clean(self, log: PartitionLog) -> bool:
        return (
            log.is_in_service
            and log not in self._resting
            and log.folder not in self._uncleanable
            and self._not_before.get(log.folder, 0) <= self._clock.monotonic_ms()
        )

    def _plan(self, log: PartitionLog, config: TopicConfig) -> Plan | None:
        """Return the pass that a log is due for; roll the active segment if the pass needs it."""
        now_ms = self._clock.aged_ms()
        facts = self._facts(log, config)
        if compaction.must_roll(facts, now_ms):
            try:
                log.roll()
            except StorageError as error:
                self._give_up(log, str(error))
                return None
            facts = self._facts(log, config)
        plan = compaction.plan(facts, now_ms)
        groups = [[each.base_offset for each in group] for group in plan.groups] if plan else []
        # A segment that was closed just now is not truncated yet: it waits for the next pass.
        return plan if all(map(log.can_replace, groups)) else None

    def _facts(self, log: PartitionLog, config: TopicConfig) -> LogFacts:
        facts = LogFacts(
            segments=list(map(Segment._make, log.segment_entries)),
            first_dirty_offset=self._first_dirty.get((log.topic, log.partition), 0),
            log_start_offset=log.log_start_offset,
            last_stable_offset=log.last_stable_offset,
            recovery_point=log.durable_end,
            segment_bytes=config.integer("segment.bytes"),
            min_cleanable_ratio=config.number("min.cleanable.dirty.ratio"),
            min_lag_ms=config.integer("min.compaction.lag.ms"),
            max_lag_ms=config.integer("max.compaction.lag.ms"),
        )
        if facts.max_lag_ms == NEVER_MS:
            return facts
        return facts._replace(
            dirty_since_ms=_time_at(log, compaction.first_dirty(facts)),
            active_since_ms=_time_at(log, facts.segments[-1].base_offset),
        )

    # ---- a pass ------------------------------------------------------------------------------

    async def _clean(self, log: PartitionLog, config: TopicConfig, plan: Plan) -> None:
        """Do a pass; a failure is logged, and this log is skipped for the backoff time."""
        folder = Path(log.folder)
        try:
            if not await self._save_recovery_points():
                raise _GivenUpError("recovery points not written")
            await self._pass(log, self._job(log, config, plan))
        except (_GivenUpError, CompactorFailedError, OSError) as error:
            if log.is_in_service:  # a deleted topic needs no log line
                self._give_up(log, str(error))
        else:
            return
        if log.is_in_service:
            await self._on_disk(partial(swap.drop_cleaned, folder))

    def _give_up(self, log: PartitionLog, reason: str) -> None:
        _log.warning("compaction failed: folder=%s error=%s", Path(log.folder).name, reason)
        self._not_before[log.folder] = self._clock.monotonic_ms() + self._settings.backoff_ms

    def _job(self, log: PartitionLog, config: TopicConfig, plan: Plan) -> Job:
        start = plan.groups[0][0].base_offset
        now_ms = self._clock.aged_ms()
        # Tombstones must not be removed too early by either of the two clocks.
        later_ms = self._clock.latest_ms() - now_ms
        return Job(
            folder=os.path.abspath(log.folder),  # noqa: PTH100 (as the log has it, links and all)
            groups=[[(each.base_offset, each.size) for each in group] for group in plan.groups],
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.end_offset,
            map_bytes=self._settings.map_bytes,
            now_ms=now_ms,
            delete_retention_ms=config.integer("delete.retention.ms") + later_ms,
            index_interval_bytes=config.integer("index.interval.bytes"),
            decompressed_bytes_max=limits.COMPACTION_DECOMPRESSED_BYTES_MAX,
            producer_ends=log.producer_ends,
            aborted=log.aborted_transactions(start, plan.end_offset),
            parent_pid=os.getpid(),
        )

    async def _pass(self, log: PartitionLog, job: Job) -> None:
        async with compacting(job) as messages:
            async for message in messages:
                if not log.is_in_service:
                    raise _GivenUpError("the log was deleted or went offline")
                if message["kind"] == "cleaned":
                    ready = Swap(Path(log.folder), message["old"], message["new"])
                    await self._swap(log, ready)
                elif message["kind"] == "failed":
                    self._failed(log, message)
                elif message["kind"] == "done":
                    await self._done(log, job, message)

    def _failed(self, log: PartitionLog, message: Message) -> None:
        if not message["is_damaged"]:
            raise _GivenUpError(message["reason"])
        self._uncleanable.add(log.folder)
        _log.error(
            "log is not compacted any more: folder=%s error=%s", log.folder, message["reason"]
        )
        raise _GivenUpError("a damaged batch")

    def is_swapping(self, log: PartitionLog) -> bool:
        """Whether files of a log are being replaced: nothing else may write files beside them."""
        return self._swapping == log.folder

    async def _swap(self, log: PartitionLog, ready: Swap) -> None:
        self._swapping = log.folder
        try:
            await self._replace(log, ready)
        finally:
            self._swapping = None

    async def _replace(self, log: PartitionLog, ready: Swap) -> None:
        """Put a compacted group into service if the log still has its source segments."""
        if not log.can_replace(ready.old):
            raise _GivenUpError(f"segments {ready.old} have changed")
        await self._must(log, partial(swap.commit, ready))
        if not log.is_in_service or not log.can_replace(ready.old):
            await self._must(log, partial(swap.undo, ready))
            raise _GivenUpError(f"segments {ready.old} have changed")
        try:
            swap.install(ready)
            log.replace(ready.old, ready.new)
        except (StorageError, OSError) as error:
            # Old and new files may be mixed: the next start completes or undoes the swap.
            log.take_offline(f"compacted segments cannot be used: {error}")
            raise _GivenUpError(str(error)) from error
        await self._must(log, partial(swap.finish, ready))

    async def _must(self, log: PartitionLog, step: Callable[[], None]) -> None:
        """Do one step of a swap; if it fails, this log is not compacted again before a restart."""
        if not await self._on_disk(step):
            self._uncleanable.add(log.folder)
            raise _GivenUpError("a swap was cut off")

    async def _done(self, log: PartitionLog, job: Job, message: Message) -> None:
        self._not_before.pop(log.folder, None)
        self._first_dirty[log.topic, log.partition] = message["end_offset"]
        _log.info(
            "log compacted: folder=%s from=%d to=%d records_read=%d records_kept=%d bytes=%d",
            Path(log.folder).name,
            job.first_dirty_offset,
            message["end_offset"],
            message["records_read"],
            message["records_kept"],
            sum(size for _, size, _ in log.segment_entries),
        )
        await self._save_first_dirty()

    async def _save_first_dirty(self) -> bool:
        offsets = dict(self._first_dirty)
        file = self._path / text_files.CLEANER_OFFSETS
        return await self._on_disk(partial(checkpoint.write_offsets, file, offsets))


def _time_at(log: PartitionLog, offset: int) -> int:
    """Return the time of the first batch from an offset on, -1 when none can be read."""
    if not log.log_start_offset <= offset < log.high_watermark:
        return -1
    try:
        batch = log.read(offset, 1)
    except StorageError:  # damaged there; the pass will report it
        return -1
    return int.from_bytes(batch[_MAX_TIMESTAMP], signed=True) if batch else -1
