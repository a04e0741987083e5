"""The logs of partitions, as topics use them: files, native logs, and those still being loaded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.core.logs.log_loader import LogLoader
from broker.core.logs.partition import wait_durable, wait_synced
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.deletion import Deletions
from broker.model import limits
from broker.model.errors import DiskFull, StorageError
from broker.model.topic_config import TopicConfig
from broker.storage.recovery.partitions import Partitions

_log = logging.getLogger(__name__)
_BUSY_SECONDS = 0.002  # between two looks at a log that is being synced
_ENDED = object()  # there are no more steps


class NativeLogs:
    """Implements core.topics.interfaces.PartitionLogs."""

    def __init__(
        self,
        partitions: Partitions,
        loader: LogLoader[PartitionLog],
        turn: Turn,
        io_thread: IoThread,
        deletions: Deletions,
    ) -> None:
        """Keep what it needs."""
        self._turn = turn
        self._partitions = partitions
        self._loader = loader
        self._io_thread = io_thread
        self._deletions = deletions
        self._on_release: list[Callable[[PartitionLog], Awaitable[None]]] = []
        self._on_removal: list[Callable[[str, int], object]] = []
        self._on_cut: list[Callable[[PartitionLog, int], Awaitable[None]]] = []
        self._cutting: dict[PartitionLog, asyncio.Event] = {}  # set once it is done
        self.claim = partitions.claim
        self.announce_topic = partitions.announce_topic
        self.delete = partitions.delete
        self.forget = partitions.forget
        self.configure = partitions.configure

    async def open_topic(
        self, topic: str, topic_id: bytes, numbers: Iterable[int], config: TopicConfig
    ) -> list[PartitionLog]:
        """Open logs of a topic, in the I/O thread; StorageError: none of them is left."""
        claimed = list(numbers)
        try:
            return await self._io_thread.run(
                lambda: self._partitions.open_topic(topic, topic_id, claimed, config)
            )
        except StorageError:
            for number in claimed:
                self._partitions.free(topic, number)
            raise

    def before_release(self, callback: Callable[[PartitionLog], Awaitable[None]]) -> None:
        """Register what has to end its work on the files of a log before it is closed."""
        self._on_release.append(callback)

    def when_removed(self, callback: Callable[[str, int], object]) -> None:
        """Register what forgets a partition whose folder is removed because it was moved away."""
        self._on_removal.append(callback)

    def before_cut(self, callback: Callable[[PartitionLog, int], Awaitable[None]]) -> None:
        """Register what has to end its work on a log's files before all from an offset on is cut.

        It forgets what it knows of those files; StorageError: it cannot, the log stays as it is.
        """
        self._on_cut.append(callback)

    async def until_loaded(self, logs: Iterable[PartitionLog]) -> None:
        """Wait until no thread has any of the logs: they are loaded, and not being cut."""
        awaited = list(logs)
        await self._loader.until_loaded(awaited)
        for log in awaited:
            while log in self._cutting:
                await self._cutting[log].wait()

    def load(self, logs: Iterable[PartitionLog]) -> None:
        """Load announced logs, in threads."""
        self._loader.start(logs, limits.RECOVERY_THREADS)

    async def release(self, log: PartitionLog) -> None:
        """Serve a log no more: finish the writes that it has accepted, and close its files."""
        await self.until_loaded([log])
        await self.leave(log)
        await self.until_loaded([log])  # a cut may have begun meanwhile
        log.begin_loading()
        if not await self._close(log):
            self._partitions.abandon(log)
        log.release()
        log.end_loading()
        self._loader.wake()
        await self._io_thread.run(_nothing)  # what was to be written for the log, has been
        self._partitions.free(log.topic, log.partition)

    async def stop_accepting(self, log: PartitionLog) -> None:
        """Accept no batch any more, and wait until the in-sync replicas have what was accepted.

        Not for longer than HANDOVER_SECONDS: then the successor lacks what no client was told of.
        """
        log.stop_accepting()
        try:
            async with asyncio.timeout(limits.HANDOVER_SECONDS):
                await wait_durable(log, log.log_end_offset)
        except TimeoutError:
            _log.warning(
                "handed over before its replicas have all records: folder=%s high_watermark=%d"
                " log_end_offset=%d",
                *(log.folder, log.high_watermark, log.log_end_offset),
            )

    async def leave(self, log: PartitionLog) -> None:
        """End what works on the files of a log that does not lead any more."""
        for callback in self._on_release:
            await callback(log)

    async def truncate(self, log: PartitionLog, offset: int, epoch: int) -> None:
        """Remove what a log that follows has from an offset on, durably.

        Nothing if it does not follow in this leader epoch any more when its files are free: what
        the leader of that epoch lacked may have been acknowledged meanwhile.

        DiskFull: nothing has changed, try again later; StorageError: the log is offline.
        """
        await self._cut(log, offset, epoch, self._truncation(log, offset))

    async def begin_anew(self, log: PartitionLog, offset: int, epoch: int) -> None:
        """Remove everything that a log has: it begins at an offset. As `truncate`."""
        await self._cut(log, 0, epoch, self._beginning_anew(log, offset))

    def _truncation(self, log: PartitionLog, offset: int) -> Iterator[None]:
        yield from self._partitions.read_before_cut(log, offset)
        self._partitions.truncate(log, offset)

    def _beginning_anew(self, log: PartitionLog, offset: int) -> Iterator[None]:
        self._partitions.begin_anew(log, offset)
        yield

    async def _cut(self, log: PartitionLog, offset: int, epoch: int, steps: Iterator[None]) -> None:
        """Change a log by steps in the I/O thread, while nobody else uses it."""
        while log in self._cutting:
            await self._cutting[log].wait()
        done = self._cutting[log] = asyncio.Event()
        try:
            for callback in self._on_cut:
                await callback(log, offset)
            await self._loader.until_loaded([log])
            if not log.is_follower or log.is_released or log.is_deleted:
                return  # it leads by now, or is closed
            if log.known_epoch != epoch:
                return  # the leader of that epoch is asked again
            log.begin_loading()
            try:
                await self._change(log, steps)
            finally:
                log.end_hold()
                log.end_loading()
                self._loader.wake()
        finally:
            del self._cutting[log]
            done.set()

    async def _change(self, log: PartitionLog, steps: Iterator[None]) -> None:
        # (The end of a turn and the sync threads set no event.)
        while not (log.is_offline or log.is_deleted or log.hold()):  # noqa: ASYNC110
            await asyncio.sleep(_BUSY_SECONDS)
        if log.is_offline or log.is_deleted:
            raise StorageError(f"{log!r} is not in service")
        while await self._step(log, partial(next, steps, _ENDED)) is not _ENDED:
            pass

    async def _step(self, log: PartitionLog, step: Callable[[], object]) -> object:
        work = asyncio.ensure_future(self._io_thread.run(step))
        try:
            await asyncio.wait([work])
        finally:
            while not work.done():  # cancelled: the log belongs to the thread until it is done
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([work])
            error = work.exception()
            if error is not None and not isinstance(error, DiskFull):
                log.take_offline(f"it was not cut: {error}")
        if isinstance(error, FileNotFoundError):
            raise StorageError(str(error)) from error
        return work.result()

    async def remove_moved(self, topic: str, topic_id: bytes, number: int) -> None:
        """Remove the folder of a log that was released: other brokers have all replicas now."""
        try:
            folders = await self._io_thread.run(
                partial(self._deletions.put_away_moved, topic, topic_id, number)
            )
        except StorageError as error:  # the next start removes it
            _log.warning("folder of a moved partition stays: %s-%d error=%s", topic, number, error)
            return
        self._partitions.forget_moved(topic, number)
        for callback in self._on_removal:
            callback(topic, number)
        self._deletions.remove(folders)

    async def _close(self, log: PartitionLog) -> bool:
        """Make durable what a log has, and close it; False: its disk has failed."""
        # A log with other replicas counts as synced up to its high watermark, which may stay.
        if not log.is_replicated and not await wait_synced(log, log.log_end_offset):
            return False
        # A sync that covers nothing new may run; its thread sets no event.
        while log.is_syncing or _has_unkept(log):  # noqa: ASYNC110
            await asyncio.sleep(_BUSY_SECONDS)
        if log.is_offline:
            return False
        try:
            await self._io_thread.run(partial(self._partitions.release, log))
        except StorageError as error:
            _log.error("log not closed: %r stays offline until a restart: error=%s", log, error)
            return False
        return True

    async def free_deleted(self, topic: str, numbers: Iterable[int]) -> None:
        """Let other processes have the folders of deleted logs, which were renamed."""
        try:
            await self._io_thread.run(self._partitions.forget_deleted)
        except StorageError as error:  # whoever makes a log of that name does it
            _log.warning("checkpoints keep a deleted topic: topic=%s error=%s", topic, error)
        for number in numbers:
            self._partitions.free(topic, number)

    @property
    def is_read_only(self) -> bool:
        """Whether the disk has only space for deletes."""
        return self._turn.disk.is_read_only

    @property
    def change_count(self) -> int:
        """How often the states have changed that Metadata shows."""
        return self._turn.log_changes


def _has_unkept(log: PartitionLog) -> bool:
    return log.is_replicated and not log.is_offline and log.kept_offset < log.log_end_offset


def _nothing() -> None:
    pass
