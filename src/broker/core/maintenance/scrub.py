"""The scrub: closed segments are compared with their digests, so that damage is found early.

    a log has rolled   →  once its file is on the disk: it is read, and its digest written
    weekly             →  every closed segment is compared with its digest, at a limited rate
    damage is found    →  a line in the log; the damaged offsets are refused, all others served
    a reader met some  →  the rest of that segment is refused, and its damage determined soon

All reading is done in the I/O thread, in small steps, so that its other work continues in between.
A digest is written only while no compaction replaces files (storage/files/digests.py has the
reason).

Damaged ranges are stored beside the segment (storage/files/damages.py); damaged segments are
checked first after a restart. Records of a segment whose damage has disappeared are served again.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from broker._native.log.partition_log import PartitionLog
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.steps import in_steps
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import CodecError, StorageError
from broker.segments.digests import Digest, read_digest
from broker.segments.integrity import Examination, Verdict
from broker.segments.names import LOG, file_name
from broker.storage.files import damages, digests
from broker.storage.maintenance import scrubbing
from broker.storage.maintenance.scrubbing import NEVER_MS, Closed

_log = logging.getLogger(__name__)


class Settings(NamedTuple):
    """The settings of the scrub."""

    interval_ms: int
    bytes_per_second: int


# Every log with the configuration of its topic.
Logs = Callable[[], Iterable[tuple[Any, Any]]]
# Runs work in the I/O thread; returns whether it succeeded.
OnDisk = Callable[[Callable[[], Any]], Awaitable[bool]]


class Scrub:
    """Takes digests, and compares segments with them."""

    def __init__(
        self,
        logs: Logs,
        clock: Clock,
        io_thread: IoThread,
        on_disk: OnDisk,
        is_swapping: Callable[[Any], bool],
        settings: Callable[[], Settings],
    ) -> None:
        """Keep what it needs; `is_swapping` tells whether a log's files are being replaced."""
        self._logs = logs
        self._clock = clock
        self._io_thread = io_thread
        self._on_disk = on_disk
        self._is_swapping = is_swapping
        self._settings = settings
        self._on_damage: list[Callable[[PartitionLog], object]] = []
        self._waiting: deque[tuple[PartitionLog, int]] = deque(maxlen=limits.DIGESTS_WAITING_MAX)
        self._checked: dict[Closed, int] = {}  # when each was last checked, where that is known
        self._cuts: Counter[str] = Counter()  # by name: what was read before one says nothing
        self._damaged: set[PartitionLog] = set()  # those in which damage was found

    def when_damaged(self, callback: Callable[[PartitionLog], object]) -> None:
        """Register a callback that gets a log whenever damage was found in it."""
        self._on_damage.append(callback)

    def loaded(self, log: PartitionLog) -> None:
        """Note a log that was opened: its damage may be known from before."""
        if log.first_damage is not None:
            self._damaged.add(log)

    def damaged(self) -> list[str]:
        """Return the folders of logs with damaged records that are kept, in order."""
        for log in tuple(self._damaged):
            # (One that is being cut or begun anew is loaded again.)
            if log.first_damage is None or not (log.is_in_service or log.is_loading):
                self._damaged.discard(log)
        return sorted(Path(log.folder).name for log in self._damaged)

    # ---- segments just closed, or found broken -------------------------------------------------

    def rolled(self, logs: Iterable[PartitionLog]) -> None:
        """Queue segments for digests: these logs have rolled, each as often as it is listed."""
        for log, count in Counter(logs).items():
            closed = [base for base, _, _ in log.segment_entries[:-1]]
            self._waiting.extend((log, base) for base in closed[-count:])

    def broken(self, logs: Iterable[PartitionLog]) -> None:
        """Queue segments whose readers met damage: its range is determined soon."""
        for log in set(logs):
            for base in _closed(log):
                if log.damages_of(base) and (log, base) not in self._waiting:
                    self._waiting.appendleft((log, base))

    async def cut(self, log: PartitionLog, offset: int) -> None:
        """Forget the segments of a log that is going to be cut at an offset: others may follow."""
        self._cuts[_name(log)] += 1
        left = [(each, base) for each, base in self._waiting if each is not log or base < offset]
        self._waiting = deque(left, maxlen=limits.DIGESTS_WAITING_MAX)
        for segment in [each for each in self._checked if each.folder == log.folder]:
            del self._checked[segment]

    async def follow(self) -> None:
        """Take the digest of every segment soon after it was closed; runs until cancelled."""
        while True:
            await asyncio.sleep(limits.HOUSEKEEPING_SECONDS)
            await self.take_digests()

    async def take_digests(self) -> None:
        """Take the digests of queued segments that are on the disk."""
        for _ in range(len(self._waiting)):
            log, base = self._waiting.popleft()
            if not log.is_in_service or base not in _closed(log):
                continue
            if self._is_steady(log, base):
                await self._look_at(log, base, None)
            else:  # its last bytes are not on the disk yet
                self._waiting.append((log, base))

    # ---- the scrub ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Check the segments that are due; runs until cancelled."""
        while True:
            seconds = self._settings().interval_ms / 1000
            await asyncio.sleep(
                min(max(seconds, limits.HOUSEKEEPING_SECONDS), limits.SCRUB_LOOK_SECONDS)
            )
            await self.scrub()

    async def scrub(self) -> None:
        """Check every segment that is due, in the order of their last checks."""
        if self._settings().interval_ms == scrubbing.OFF_MS:
            return
        logs: dict[str, PartitionLog] = {}
        checked: list[tuple[Closed, int]] = []
        async for log, _ in in_steps(list(self._logs()), limits.LOGS_CHECKED_PER_STEP):
            if log.is_in_service:
                logs[log.folder] = log
                segments = [Closed(log.folder, base) for base in _closed(log)]
                checked += [(each, await self._checked_ms(each)) for each in segments]
        self._checked = dict(checked)
        now_ms = self._clock.wall_ms()
        for folder, base in scrubbing.due(checked, now_ms, self._settings().interval_ms):
            log = logs[folder]
            if log.is_in_service and base in _closed(log) and self._is_steady(log, base):
                await self._look_at(log, base, self._settings().bytes_per_second)

    async def _checked_ms(self, segment: Closed) -> int:
        known = self._checked.get(segment)
        if known is not None:
            return known
        read = partial(read_digest, Path(segment.folder), segment.base_offset)
        try:
            digest = await self._io_thread.run(read)
        except StorageError as error:
            _log.warning("digest not read: folder=%s error=%s", segment.folder, error)
            digest = None
        return NEVER_MS if digest is None else digest.checked_ms

    def _is_steady(self, log: PartitionLog, base: int) -> bool:
        is_changing = log.is_switching or self._is_swapping(log)
        return log.can_replace([base]) and not is_changing

    async def _look_at(self, log: PartitionLog, base: int, bytes_per_second: int | None) -> None:
        """Check one segment; write its digest, or report and refuse its damage."""
        folder, cuts = Path(log.folder), self._cuts[_name(log)]
        try:
            found = await self._examined(folder, base, _end(log, base), bytes_per_second)
        except (StorageError, CodecError, FileNotFoundError) as error:
            if log.is_in_service and base in _closed(log) and log.folder == str(folder):
                _log.warning("segment not checked: folder=%s error=%s", folder.name, error)
            return
        is_same = cuts == self._cuts[_name(log)]
        if not is_same or not log.is_in_service or not self._is_steady(log, base):
            return
        now_ms = self._clock.wall_ms()
        self._checked[Closed(log.folder, base)] = now_ms
        known = found.recorded
        if not await self._refuse(log, base, found):
            return
        if found.damages or found.has_other_aborted:
            kept = None if known is None else known._replace(checked_ms=NEVER_MS)
        else:
            kept = Digest(found.xxh3, found.size, now_ms, found.aborted_xxh3)
        if any(found.index_errors):
            _log.error(
                "index does not agree with its log: folder=%s segment=%s wrong_offsets=%d"
                " wrong_times=%d wrong_aborted=%d",
                folder.name,
                file_name(base, LOG),
                *found.index_errors,
            )
        if kept is not None and kept != known:
            await self._on_disk(partial(digests.write, folder, base, kept, found.inode))

    async def _examined(
        self, folder: Path, base: int, end_offset: int, bytes_per_second: int | None
    ) -> Verdict:
        run = self._io_thread.run
        examination = await run(partial(Examination, folder, base, end_offset))
        step = (
            limits.SEGMENT_CHECK_STEP_BYTES if bytes_per_second is None else limits.SCRUB_STEP_BYTES
        )
        is_more = True
        while is_more:
            before, began_ms = examination.position, self._clock.monotonic_ms()
            is_more = await run(partial(examination.step, step))
            if bytes_per_second is not None:
                seconds = (self._clock.monotonic_ms() - began_ms) / 1000
                size = examination.position - before
                await asyncio.sleep(scrubbing.pause_seconds(size, seconds, bytes_per_second))
        return examination.verdict()

    async def _refuse(self, log: PartitionLog, base: int, found: Verdict) -> bool:
        """Refuse the damaged ranges and store them; False when that segment has been removed."""
        folder, before = Path(log.folder), log.damages_of(base)
        ranges = [
            damages.Range(each.offset, each.end_offset, each.position, each.end_position)
            for each in found.damages
        ]
        if not log.mark_damaged(base, list(ranges)):
            return False
        for each in found.damages:
            if each.end_offset <= log.log_start_offset:
                continue  # these records are deleted, and their segment is still there
            _log.error(
                "damaged records are refused: folder=%s segment=%s bytes=%d..%d offsets=%d..%d: %s",
                folder.name,
                file_name(base, LOG),
                each.position,
                each.end_position,
                each.offset,
                each.end_offset,
                each.reason,
            )
        if ranges:
            self._damaged.add(log)
            keep = partial(damages.write, folder, base, found.size, ranges, found.inode)
            await self._on_disk(keep)
            for callback in self._on_damage:
                callback(log)
        elif before:
            _log.warning(
                "a damaged segment is intact again: folder=%s segment=%s",
                folder.name,
                file_name(base, LOG),
            )
            await self._on_disk(partial(damages.remove, folder, base))
        return True


def _name(log: PartitionLog) -> str:
    """Return the name of its partition: a move between directories changes the folder."""
    return f"{log.topic}-{log.partition}"


def _closed(log: PartitionLog) -> list[int]:
    return [base for base, size, _ in log.segment_entries[:-1] if size > 0]


def _end(log: PartitionLog, base: int) -> int:
    """Return the base offset of the segment after a closed one."""
    return min(each for each, _, _ in log.segment_entries if each > base)
