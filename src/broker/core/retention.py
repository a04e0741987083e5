"""What a log's settings ask for while nobody does: the front of logs goes when it may.

    plan (storage/retention.py), roll           on the loop, some segments of a log at a time
      →  the log starts planned made durable    in the I/O thread
      →  log starts moved, segments taken off   on the loop
      →  files renamed, later removed           in the I/O thread

So what readers have seen to be gone never comes back, wherever a crash comes; the next start
removes what is left of the files.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from broker._native.kernel import file_ops
from broker.core.steps import in_steps
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import StorageError
from broker.model.topic_config import TopicConfig
from broker.storage import segment_files
from broker.storage.retention import UNLIMITED, Limits, LogFacts, SegmentFacts, plan

_log = logging.getLogger(__name__)


class TrimmedLog(Protocol):
    """What retention asks of a log; the native `PartitionLog` is one."""

    @property
    def folder(self) -> str:
        """Where its files are."""

    @property
    def size(self) -> int:
        """Bytes in all segments."""

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one too."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that is given out."""

    @property
    def high_watermark(self) -> int:
        """The end of what anybody may read."""

    @property
    def log_end_offset(self) -> int:
        """The next offset to be given out."""

    @property
    def is_in_service(self) -> bool:
        """Whether it is loaded, and neither offline nor deleted."""

    def oldest_entries(self, at_most: int) -> list[tuple[int, int, int]]:
        """(base offset, bytes, largest timestamp) of the oldest segments."""

    def roll(self) -> bool:
        """Close the active segment and begin the next."""

    def move_log_start(self, offset: int) -> None:
        """Give out nothing before an offset from here on."""

    def take_off(self, at_most: int) -> list[int]:
        """Take segments before the log start off the log: their base offsets."""


# Work for the I/O thread; whether it was done.
OnDisk = Callable[[Callable[[], None]], Awaitable[bool]]
# Make it durable that these logs begin there; whether it is.
SaveLogStarts = Callable[[Sequence[tuple[Any, int]]], Awaitable[bool]]
_Configured: TypeAlias = tuple[TrimmedLog, TopicConfig]
# Every log with the configuration of its topic.
Logs = Callable[[], Iterable[_Configured]]


class _Removal(NamedTuple):
    """Segments whose files were renamed and wait to be removed."""

    due_ms: int  # monotonic
    folder: Path
    base_offsets: list[int]


class Retention:
    """Applies retention to every log, again and again."""

    __slots__ = ("_clock", "_logs", "_on_disk", "_removals", "_save_log_starts", "is_urgent")

    def __init__(
        self,
        logs: Logs,
        clock: Clock,
        on_disk: OnDisk,
        save_log_starts: SaveLogStarts,
    ) -> None:
        """Take part in a broker."""
        self._logs = logs
        self._clock = clock
        self._on_disk = on_disk
        self._save_log_starts = save_log_starts
        self._removals: deque[_Removal] = deque()
        self.is_urgent = False  # the disk is short of room: nothing waits for its time

    async def run(self, interval_ms: int) -> None:
        """Check every `interval_ms`, sooner where it is hurried; remove files when they are due."""
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
        """Let go of what each log's settings do not keep, some segments of each at a time."""
        taken: Counter[TrimmedLog] = Counter()
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
        self, logs: list[_Configured], taken: Counter[TrimmedLog]
    ) -> list[_Configured]:
        """Plan, make durable, take off: the logs that may have more to take off."""
        planned = [each async for each in self._plans(logs)]
        starts = [(log, start) for log, _, start in planned]
        if not planned or not await self._save_log_starts(starts):
            return []
        unfinished = []
        for log, config, start in planned:
            if not log.is_in_service:
                continue
            log.move_log_start(start)
            base_offsets = log.take_off(limits.RETENTION_SEGMENTS_PER_STEP)
            if base_offsets:
                unfinished.append((log, config))
                taken[log] += len(base_offsets)
                await self._mark_deleted(log, config, base_offsets)
        return unfinished

    async def _plans(
        self, logs: list[_Configured]
    ) -> AsyncIterator[tuple[TrimmedLog, TopicConfig, int]]:
        """The logs that have something to let go of, and where they are to begin."""
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
                _log.warning("retention passes by: folder=%s error=%s", log.folder, error)
                continue
            if decided.log_start_offset > log.log_start_offset or _has_passed_segment(facts):
                yield log, config, decided.log_start_offset

    async def _mark_deleted(
        self, log: TrimmedLog, config: TopicConfig, base_offsets: list[int]
    ) -> None:
        folder = Path(log.folder)
        delay_ms = config.integer("file.delete.delay.ms")
        if await self._on_disk(partial(segment_files.mark_deleted, folder, base_offsets)):
            due_ms = self._clock.monotonic_ms() + delay_ms
            self._removals.append(_Removal(due_ms, folder, base_offsets))

    async def remove_due_files(self) -> None:
        """Remove the files whose time is over."""
        now_ms = self._clock.monotonic_ms()
        waiting, self._removals = self._removals, deque()
        due: list[_Removal] = []
        for removal in waiting:
            is_due = self.is_urgent or removal.due_ms <= now_ms
            (due if is_due else self._removals).append(removal)
        for _, folder, base_offsets in due:
            await self._on_disk(partial(segment_files.remove_deleted, folder, base_offsets))


def _limits(config: TopicConfig) -> Limits:
    """What the topic keeps; one that is only compacted keeps all that was not deleted."""
    if "delete" not in config.words("cleanup.policy"):
        return Limits(UNLIMITED, UNLIMITED)
    return Limits(config.integer("retention.ms"), config.integer("retention.bytes"))


def _facts(log: TrimmedLog) -> LogFacts:
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
    return file_ops.modified_ms(
        str(folder / segment_files.file_name(base_offset, segment_files.LOG))
    )


def _has_passed_segment(facts: LogFacts) -> bool:
    """Whether the log start has passed a segment that could not be taken off at once."""
    return len(facts.segments) > 1 and facts.segments[1].base_offset <= facts.log_start_offset
