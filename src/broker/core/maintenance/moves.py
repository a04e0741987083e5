"""Moves partitions to other directories of their broker (KIP-113), one after another.

    asked for       the folder of the copy is made, by which the next start knows of the move
    its turn        compaction of the log is paused
    copied          piece by piece, in a thread of its own, at the rate of the setting
                    replica.alter.log.dirs.io.max.bytes.per.second
    accompanied     files that others have beside the log are made in the copy
    switched        in the I/O thread and the loop (storage/files/folder_copy.py)
    removed         the old folder, in the background

Another request ends a move: one for the present directory, or for a third one. So does the end of
the log: its topic is deleted, its replica moves to another broker, or it goes offline. While the
other directory is nearly full, the copy waits, and while the log is cut, as replicas are. A move
that fails is logged: the log stays where it is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import cast

from broker._native.log.partition_log import PartitionLog
from broker.core.maintenance.disk_space import Level, bound_bytes
from broker.core.scheduling.events import is_set_within
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.tasks import Tasks
from broker.core.service import Service
from broker.core.topics.derived_state import MovingState
from broker.core.topics.topic import Topic
from broker.core.topics.topics import Topics
from broker.model.clock import Clock
from broker.model.errors import DiskFull, StorageError
from broker.model.settings import LONG_MAX
from broker.storage.directories import Directories
from broker.storage.files.folder_copy import FolderCopy, OnLoop
from broker.storage.log_dir import disk_space
from broker.storage.move_limits import MOVE_PAUSE_SECONDS_MAX, MOVE_RETRY_SECONDS

_log = logging.getLogger(__name__)

# Lets a log use its copy, in the I/O thread: Partitions.switch.
Switch = Callable[[FolderCopy, OnLoop], bool]
# Removes folders that no record refers to, in the background.
Remove = Callable[[Iterable[Path]], None]


class Move:
    """A move that was asked for and has not ended."""

    __slots__ = ("copy", "ended", "is_cancelled", "is_resolved", "topic")

    def __init__(self, topic: Topic, copy: FolderCopy) -> None:
        """Begin with nothing copied."""
        self.topic = topic
        self.copy = copy
        self.is_resolved = False  # what a compaction has left
        self.is_cancelled = asyncio.Event()
        self.ended = asyncio.Event()

    @property
    def log(self) -> PartitionLog:
        """The log that moves."""
        return self.copy.log

    @property
    def directory(self) -> Path:
        """Where it moves to."""
        return self.copy.directory

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind its log."""
        return max(self.log.log_end_offset - self.copy.end_offset, 0)


class Moves(Service):
    """The moves of all partitions."""

    name = "moves"

    def __init__(  # noqa: PLR0913, PLR0917 (what it changes, and by which means)
        self,
        directories: Directories,
        topics: Topics,
        io_thread: IoThread,
        clock: Clock,
        switch: Switch,
        remove: Remove,
        rate: Callable[[], int],
    ) -> None:
        """Begin without any; `rate` returns how many bytes are copied in a second."""
        self._directories = directories
        self._topics = topics
        self._io_thread = io_thread
        self._clock = clock
        self._switch = switch
        self._remove = remove
        self._rate = rate
        self._thread = IoThread("broker-moves")
        self._asking = Tasks()  # for the moves that had not ended when the broker did
        self._has_stopped = False
        self._moves: dict[PartitionLog, Move] = {}  # in the order in which they were asked for
        self._running: Move | None = None
        self._switching: asyncio.Future[bool] | None = None  # in the I/O thread, and the loop
        self._has_more = asyncio.Event()
        self._debt = 0.0  # bytes that were copied earlier than the rate allows
        self._before: list[Callable[[PartitionLog], Awaitable[None]]] = []
        self._after: list[Callable[[PartitionLog], None]] = []
        self._beside: list[MovingState] = []

    def around(
        self,
        before: Callable[[PartitionLog], Awaitable[None]],
        after: Callable[[PartitionLog], None],
    ) -> None:
        """Register what must not replace files of a log from `before` until `after` is called."""
        self._before.append(before)
        self._after.append(after)

    def take_along(self, states: Iterable[MovingState]) -> None:
        """Move files that these have beside logs, too."""
        self._beside.extend(states)

    def of(self, log: object) -> Move | None:
        """Return the move of a log, if it has one."""
        return self._moves.get(cast("PartitionLog", log))

    async def ask(self, topic: Topic, log: PartitionLog, directory: Path) -> None:
        """Move a log to a directory, or let it stay where it is; any other move of it ends.

        Returns when a start would begin or go on with the move. Raises StorageError.
        """
        self._directories.moving.pop(f"{log.topic}-{log.partition}", None)  # asked for before
        while (move := self._moves.get(log)) is not None and move.directory != directory:
            await self._cancel(move)
        if move is not None or Path(log.folder).parent == directory:
            return
        move = self._moves[log] = Move(topic, FolderCopy(log, directory))
        try:
            await self._io_thread.run(move.copy.begin)
        except (StorageError, FileNotFoundError) as error:
            self._end(move)
            await self._io_thread.run(partial(self._directories.check, [move.copy.folder]))
            raise StorageError(str(error)) from error
        self._has_more.set()

    async def _cancel(self, move: Move) -> None:
        move.is_cancelled.set()
        if move is self._running:
            await move.ended.wait()
        elif self._moves.get(move.log) is move:
            self._end(move)
            self._remove([move.copy.folder])

    def _end(self, move: Move) -> None:
        if self._moves.get(move.log) is move:
            del self._moves[move.log]
        move.ended.set()

    # ---- in the background -------------------------------------------------------------------

    async def run(self) -> None:
        """Carry out every move that is asked for; runs until cancelled."""
        while True:
            await self._has_more.wait()
            self._has_more.clear()
            while self._moves:
                await self._carry_out(next(iter(self._moves.values())))

    async def stop(self) -> None:
        """End the thread; the next start begins again with what has not ended.

        A switch needs the loop to its end: the I/O thread could not be ended before.
        """
        self._has_stopped = True
        await self._asking.stop()
        if self._switching is not None:
            await asyncio.wait([self._switching])
        self._thread.stop()

    def loaded(self, log: PartitionLog) -> None:
        """Begin the move of a log again that had not ended when the broker did."""
        if self._has_stopped:
            return
        directory = self._directories.moving.pop(f"{log.topic}-{log.partition}", None)
        topic = None if directory is None else self._topics.get(log.topic)
        if directory is not None and topic is not None and log.is_in_service:
            self._asking.begin(self._ask_again(topic, log, directory))

    async def _ask_again(self, topic: Topic, log: PartitionLog, directory: Path) -> None:
        with suppress(StorageError):
            await self.ask(topic, log, directory)

    async def _carry_out(self, move: Move) -> None:
        log, copy = move.log, move.copy
        _log.info("partition is moved: folder=%s to=%s", log.folder, move.directory)
        self._running = move
        is_moved = False
        try:
            for before in self._before:
                await before(log)
            is_moved = await self._copied(move)
        except (StorageError, FileNotFoundError) as error:
            if not log.is_deleted:
                _log.error(
                    "partition not moved: folder=%s to=%s error=%s",
                    *(log.folder, move.directory, error),
                )
            await self._io_thread.run(partial(self._directories.check, [copy.folder]))
        finally:
            self._running = None
            for after in self._after:
                after(log)
            self._end(move)
        if is_moved:
            _log.info("partition moved: folder=%s bytes=%d", log.folder, copy.size)
            self._remove([copy.left])
        elif not copy.is_used:
            self._remove([copy.folder])

    async def _copied(self, move: Move) -> bool:
        """Copy a log until it uses the copy; False when the move is cancelled, or the log gone."""
        log, copy = move.log, move.copy
        is_waiting = False
        while _is_wanted(move):
            try:
                size = None if log.is_loading else await self._step(move)
                is_waiting = False
                if size is not None:
                    await self._pause(move, size)
                    continue
                if not log.is_loading and await self._switched(move):
                    return True
            except DiskFull as error:
                if not is_waiting:
                    _log.warning("move waits for space: to=%s error=%s", move.directory, error)
                is_waiting = True
            except (StorageError, FileNotFoundError):
                if copy.is_used or not copy.is_disturbed:
                    raise
            # (Threads that load or cut a log set no event.)
            await is_set_within(move.is_cancelled, MOVE_RETRY_SECONDS)
        return False

    async def _step(self, move: Move) -> int | None:
        """Copy a piece; return its bytes, None if nothing can be copied now."""
        if not move.is_resolved:
            await self._io_thread.run(move.copy.resolve)
            move.is_resolved = True
        return await self._thread.run(partial(_step, move.copy))

    async def _pause(self, move: Move, size: int) -> None:
        """Wait until the rate allows what was copied; it may change meanwhile."""
        self._debt += size
        while self._debt > 0 and _is_wanted(move):
            rate = self._rate()
            if rate == LONG_MAX:
                self._debt = 0
                return
            since_ms = self._clock.monotonic_ms()
            seconds = min(self._debt / rate, MOVE_PAUSE_SECONDS_MAX) if rate else MOVE_RETRY_SECONDS
            await is_set_within(move.is_cancelled, seconds)
            self._debt -= rate * (self._clock.monotonic_ms() - since_ms) / 1000

    async def _switched(self, move: Move) -> bool:
        """Let a log use its copy, with what others have beside it; False: more has to be copied."""
        copy = move.copy
        states = [each for each in self._beside if each.is_kept_for(move.topic)]
        for state in states:
            await state.copy(move.topic, copy.log, copy.folder, partial(_is_wanted, move))
        if not _is_wanted(move):
            return False
        async with AsyncExitStack() as stack:
            for state in states:
                await stack.enter_async_context(state.moving(move.topic, copy.log, copy.folder))
            return await self._uses(copy)

    async def _uses(self, copy: FolderCopy) -> bool:
        loop = asyncio.get_running_loop()
        on_loop = partial(_on_loop, loop)
        work = asyncio.ensure_future(self._io_thread.run(partial(self._switch, copy, on_loop)))
        self._switching = work
        try:
            await asyncio.wait([work])
        finally:
            while not work.done():  # this task is cancelled: the switch needs the loop to its end
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([work])
        return work.result()


def _is_wanted(move: Move) -> bool:
    log = move.log
    return not (log.is_offline or log.is_deleted or move.is_cancelled.is_set())


def _step(copy: FolderCopy) -> int | None:
    space = disk_space(copy.directory)
    if space.usable_bytes < bound_bytes(Level.TRIM, space.total_bytes):
        raise DiskFull(f"{copy.directory} is nearly full")
    return copy.step()


def _on_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> object:
    """Run work on the loop, from another thread."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 (it is raised in that thread)
            done.set_exception(error)

    loop.call_soon_threadsafe(run)
    return done.result()
