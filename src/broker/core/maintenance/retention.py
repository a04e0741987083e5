"""Retention: deletes old segments at the front of logs, as their settings ask.

    plan (storage/maintenance/retention.py),
         roll                                   on the loop, some segments of a log at a time
      →  the planned log starts made durable    in the I/O thread
      →  log starts moved, segments removed     on the loop
      →  files renamed, later deleted           in the I/O thread

So records that readers have seen to be deleted never come back, whenever a crash happens; the next
start removes the remaining files.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.core.scheduling.steps import in_steps
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import StorageError
from broker.model.topic_config import TopicConfig
from broker.segments.names import LOG, file_name
from broker.storage.files import segment_files
from broker.storage.maintenance.retention import UNLIMITED, Limits, LogFacts, SegmentFacts, plan

_log = logging.getLogger(__name__)


# Runs work in the I/O thread; returns whether it succeeded.
OnDisk = Callable[[Callable[[], None]], Awaitable[bool]]
# Makes these log start offsets durable; returns whether it succeeded.
SaveLogStarts = Callable[[Sequence[tuple[Any, int]]], Awaitable[bool]]
_Configured: TypeAlias = tuple[PartitionLog, TopicConfig]
# Every log with the configuration of its topic.
Logs = Callable[[], Iterable[_Configured]]


class _Removal(NamedTuple):
    """Segments whose files were renamed and have to be deleted."""

    due_ms: int  # monotonic
    log: PartitionLog  # it may be moved to another folder meanwhile
    base_offsets: list[int]


class Retention:
    """Applies retention to every log, repeatedly."""

    def __init__(
        self,
        logs: Logs,
        clock: Clock,
        on_disk: OnDisk,
        save_log_starts: SaveLogStarts,
    ) -> None:
        """Keep what it needs."""
        self._logs = logs
        self._clock = clock
        self._on_disk = on_disk
        self._save_log_starts = save_log_starts
        self._removals: deque[_Removal] = deque()
        self.is_urgent = False  # disk space is short: files are deleted without delay

    async def run(self, interval_ms: int) -> None:
        """Check every `interval_ms`, sooner while `is_urgent`; delete files when they are due."""
        checked_ms = self._clock.monotonic_ms()
        while True:
            await asyncio.sleep(min(limits.RETENTION_TICK_SECONDS, interval_ms / 1000))
            await self.remove_due_files()
            urgent_ms = min(interval_ms, limits.TRIM_INTERVAL_MS)
            wait_ms = urgent_ms if self.is_urgent else interval_ms
            if self._clock.monotonic_ms() - checked_ms >= wait_ms:
                await self.apply_retention()
                checked_ms = self._clock.monotonic_ms()

    async def apply_retention(self) -> None:
        """Delete what each log's settings do not retain, some segments of each at a time."""
        taken: Counter[PartitionLog] = Counter()
        logs = list(self._logs())
        while logs:
            logs = await self._round(logs, taken)
        for log, count in taken.items():
            _log.info(
                "segments have left the log: folder=%s count=%d log_start_offset=%d",
                Path(log.folder).name,
                count,
                log.log_start_offset,
            )

    async def _round(
        self, logs: list[_Configured], taken: Counter[PartitionLog]
    ) -> list[_Configured]:
        """Plan, make durable, remove; return the logs that may have more to remove."""
        planned = [each async for each in self._plans(logs)]
        starts = [(log, start) for log, _, start in planned]
        if not planned or not await self._save_log_starts(starts):
            return []
        unfinished = []
        for log, config, start in planned:
            if not log.is_in_service:
                continue
            log.move_log_start(start)
            base_offsets = log.drop_segments(limits.RETENTION_SEGMENTS_PER_STEP)
            if base_offsets:
                unfinished.append((log, config))
                taken[log] += len(base_offsets)
                await self._mark_deleted(log, config, base_offsets)
        return unfinished

    async def _plans(
        self, logs: list[_Configured]
    ) -> AsyncIterator[tuple[PartitionLog, TopicConfig, int]]:
        """Yield the logs with expired segments, and where they are to start."""
        now_ms = self._clock.aged_ms()
        async for log, config in in_steps(logs, limits.LOGS_CHECKED_PER_STEP):
            if not log.is_in_service:
                continue
            try:
                facts = _facts(log)
                decided = plan(facts, _limits(config), now_ms)
                if decided.rolls:
                    log.roll()
            except (StorageError, FileNotFoundError) as error:
                _log.warning("retention skips a log: folder=%s error=%s", log.folder, error)
                continue
            if decided.log_start_offset > log.log_start_offset or _has_passed_segment(facts):
                yield log, config, decided.log_start_offset

    async def _mark_deleted(
        self, log: PartitionLog, config: TopicConfig, base_offsets: list[int]
    ) -> None:
        delay_ms = config.integer("file.delete.delay.ms")
        if await self._on_disk(lambda: segment_files.mark_deleted(Path(log.folder), base_offsets)):
            due_ms = self._clock.monotonic_ms() + delay_ms
            self._removals.append(_Removal(due_ms, log, base_offsets))

    async def remove_due_files(self) -> None:
        """Delete the files that are due."""
        now_ms = self._clock.monotonic_ms()
        waiting, self._removals = self._removals, deque()
        due: list[_Removal] = []
        for removal in waiting:
            is_due = self.is_urgent or removal.due_ms <= now_ms
            (due if is_due else self._removals).append(removal)
        for removal in due:
            await self._on_disk(partial(_remove, removal))


def _remove(removal: _Removal) -> None:
    segment_files.remove_deleted(Path(removal.log.folder), removal.base_offsets)


def _limits(config: TopicConfig) -> Limits:
    """Return the topic's limits; one that is only compacted has none."""
    if "delete" not in config.words("cleanup.policy"):
        return Limits(UNLIMITED, UNLIMITED)
    return Limits(config.integer("retention.ms"), config.integer("retention.bytes"))


def _facts(log: PartitionLog) -> LogFacts:
    folder = Path(log.folder)
    segments = [
        SegmentFacts(
            base_offset, size, newest_ms if newest_ms >= 0 else _changed_ms(folder, base_offset)
        )
        for base_offset, size, newest_ms in log.oldest_entries(
            limits.RETENTION_SEGMENTS_PER_STEP + 1
        )
    ]
    return LogFacts(
        segments,
        log.segment_count,
        log.size,
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
    )


def _changed_ms(folder: Path, base_offset: int) -> int:
    return file_ops.modified_ms(str(folder / file_name(base_offset, LOG)))


def _has_passed_segment(facts: LogFacts) -> bool:
    """Whether the log start has passed a segment that could not be removed before."""
    return len(facts.segments) > 1 and facts.segments[1].base_offset <= facts.log_start_offset
