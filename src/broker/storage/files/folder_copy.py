"""The copy of a log in another directory, from its first byte until the log uses it.

    begin     the folder, by which a start knows of the move                      I/O thread
    resolve   completes or undoes what an ended compaction has left               I/O thread
    step      a piece of the segments, oldest first; each synced when it is whole any other thread
    switch    in the I/O thread, so that nobody else writes small files meanwhile:
        the rest, the small files, synced
        hold                                         on the loop: nothing more is acknowledged
        the last bytes; use the copy                 on the loop, at most MOVE_TAIL_BYTES_MAX
        the last bytes synced, and the names of segments that have begun since
        the old folder gets its `-moved` name, durably: from here on a start uses the copy
        the copy gets its final name                 on the loop: native code opens files by path
        that name synced; end_hold                   acknowledgements continue

A crash before the `-moved` name is durable leaves the old folder, with all that was acknowledged,
and one after it leaves a whole copy: while the log is held nothing is acknowledged that only one of
them has. Compaction is paused meanwhile; whatever retention removes is removed from the copy, too.

A replica may be cut at any time, in the I/O thread:

    before the switch   nothing is copied while the log is being cut. What a cut has left may stay
                        in the copy, everything else is removed from it and copied again. A step
                        that ran meanwhile may have read anything: what it has done counts only if
                        no cut has ended since it began, and none is under way
    in the switch       a log that is being cut is not held, and a cut waits until the hold ends
    after it            it is the copy that is cut
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from broker._native.kernel import file_ops
from broker._native.log import moving, seal
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text, random_id
from broker.segments import text_files
from broker.segments.names import (
    ABORTED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIME_INDEX,
    file_name,
    offsets_of,
)
from broker.storage import move_names
from broker.storage.checkpoints import checkpoint
from broker.storage.files import swap
from broker.storage.move_limits import (
    MOVE_ATTEMPTS_MAX,
    MOVE_LOOK_SECONDS,
    MOVE_LOOKS_MAX,
    MOVE_STEP_BYTES,
    MOVE_SWITCH_BYTES_MAX,
    MOVE_SYNC_BYTES,
    MOVE_TAIL_BYTES_MAX,
)

_INDEXES = (INDEX, TIME_INDEX, ABORTED)  # of the active segment: they only grow
_BESIDE = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG)
_SINGLE = frozenset((text_files.LEADER_EPOCHS, seal.FILE_NAME))

# Runs work on the event loop, from another thread; returns its result, or raises its exception.
OnLoop: TypeAlias = Callable[[Callable[[], object]], object]


class FolderCopy:
    """The copy of one log.

    Attributes:
        log: that is copied.
        directory: to which it moves.
        folder: of the copy, until the log uses it.
        left: the old folder, once the log uses the copy.
        size: bytes of the log in the copy.
        end_offset: the copy has all records before it.
        is_used: the log uses the copy, or did so when the switch failed: a start decides.
    """

    def __init__(self, log: PartitionLog, directory: Path) -> None:
        """Plan the copy; nothing is written yet."""
        move_id = id_to_text(random_id())
        self.log = log
        self.directory = directory
        self._source = Path(log.folder)
        self.folder = move_names.copy_folder(directory, self._source.name, move_id)
        self.left = move_names.left_folder(self._source, move_id)
        self.size = 0
        self.end_offset = log.log_start_offset
        self.is_used = False
        self._copied: dict[int, int] = {}  # bytes of each segment, by base offset
        self._whole: set[int] = set()  # closed segments with the files beside them, all synced
        self._unsynced_bytes = 0
        self._cut = moving.last_cut(log)  # the last one after which the copy was put right
        self._last_base = 0  # of the segment that was active when the log began to use the copy

    def begin(self) -> None:
        """Make the folder; raises StorageError."""
        final = self.directory / self._source.name
        if final.exists():
            raise StorageError(f"{final} is in the way: move it away")
        file_ops.make_folder(self.folder)
        file_ops.write_file(
            str(self.folder / text_files.PARTITION_METADATA),
            checkpoint.partition_metadata(self.log.topic_id).encode(),
        )
        file_ops.sync_folder(str(self.directory))  # before the old folder's name says it is whole

    def resolve(self) -> None:
        """Complete or undo what a compaction has left that was ended; raises StorageError."""
        swap.resolve(self._source, {base for base, _ in moving.written(self.log)})

    @property
    def is_disturbed(self) -> bool:
        """Whether a thread has the log, or it was cut since the copy was put right.

        What has failed since then may succeed later.
        """
        return self.log.is_loading or moving.last_cut(self.log) != self._cut

    def step(self) -> int | None:
        """Copy a piece; return its bytes, None if nothing can be copied now. Raises StorageError.

        That is so when nothing was left, and while a thread has the log.
        """
        if self.log.is_loading:
            return None
        self._follow_cut()
        watermark = self.log.high_watermark  # before what is in the files
        there = moving.written(self.log)
        self._remove_all_but({base for base, _ in there})
        for base, size in there:
            if base in self._whole:
                if self._copied[base] == size:
                    continue
                self._whole.discard(base)  # a cut has read it again, and found it shorter
            self.end_offset = max(self.end_offset, base)
            copied = self._copied.get(base, -1)
            if copied > size:
                self._shorten(base, size)
            elif copied < size:
                return self._copy_piece(base, max(copied, 0), size)
            if base != there[-1][0]:
                return self._complete(base)
        self.end_offset = max(self.end_offset, watermark)
        return None

    def switch(self, on_loop: OnLoop, when_used: Callable[[], None]) -> bool:
        """Let the log use the copy, in the I/O thread; False: it grows too fast, copy more first.

        `when_used` is called on the loop once the copy has its final name. Raises StorageError: the
        log is where it was, or offline if it is not known where a start will find it.
        """
        if self.log.is_loading or not self._copy_rest():
            return False
        self._copy_small_files()
        self._sync_last()
        if not on_loop(partial(moving.hold, self.log)):
            return False
        try:
            return self._switch_held(on_loop, when_used)
        finally:
            on_loop(partial(moving.end_hold, self.log))

    # ---- segments ----------------------------------------------------------------------------

    def _copy_piece(self, base: int, position: int, end: int) -> int:
        size = min(end - position, MOVE_STEP_BYTES)
        try:
            self._copy_range(base, LOG, position, size)
        except FileNotFoundError:
            if base in {each for each, _ in moving.written(self.log)}:
                raise
            return 0  # the log has dropped the segment
        self._copied[base] = position + size
        self.size += size
        self._unsynced_bytes += size
        if self._unsynced_bytes >= MOVE_SYNC_BYTES:
            self._sync(base, LOG)
        return size

    def _complete(self, base: int) -> int:
        """Copy what is beside a closed segment, and sync all of it."""
        size = 0
        for suffix in _BESIDE:
            with suppress(FileNotFoundError):
                size += self._copy_file(file_name(base, suffix))
        self._sync(base, LOG)
        if not self.is_disturbed:  # else it may have another size, and others beside it
            self._whole.add(base)
        return size

    def _follow_cut(self) -> None:
        """Remove from the copy what the log has lost to cuts since this was called last."""
        cut = moving.last_cut(self.log)
        if cut == self._cut:
            return
        number, base, size = cut
        if number != self._cut[0] + 1:
            base = size = 0  # how far the earlier ones went back is not known
        names = file_ops.list_folder(str(self.folder))
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
            for offset in offsets_of(names, suffix):
                if offset > base or (offset == base and suffix != LOG):
                    file_ops.remove(str(self.folder / file_name(offset, suffix)))
        self._copied = {each: at for each, at in self._copied.items() if each <= base}
        self._whole = {each for each in self._whole if each < base}
        self._shorten(base, min(size, self._copied.get(base, 0)))
        self.end_offset = min(self.end_offset, base)
        self._cut = cut

    def _shorten(self, base: int, size: int) -> None:
        with suppress(FileNotFoundError):
            file_ops.truncate(str(self.folder / file_name(base, LOG)), size)
        if base in self._copied:
            self._copied[base] = size
        self.size = sum(self._copied.values())

    def _remove_all_but(self, bases: set[int]) -> None:
        for base in self._copied.keys() - bases:
            file_ops.remove_all(
                [str(self.folder / file_name(base, suffix)) for suffix in SEGMENT_SUFFIXES]
            )
            self.size -= self._copied.pop(base)
            self._whole.discard(base)

    def _copy_rest(self) -> bool:
        """Copy what is left; False if that is too much for the I/O thread."""
        copied = 0
        while (size := self.step()) is not None:
            copied += size
            if copied > MOVE_SWITCH_BYTES_MAX:
                return False
        return True

    # ---- files -------------------------------------------------------------------------------

    def _copy_range(self, base: int, suffix: str, position: int, size: int) -> None:
        name = file_name(base, suffix)
        data = file_ops.read_range(str(self._source / name), position, size)
        if len(data) != size:
            raise StorageError(f"{self._source / name} has lost bytes")
        file_ops.write_range(str(self.folder / name), data, position)

    def _copy_file(self, name: str) -> int:
        content = file_ops.read_file(str(self._source / name))
        file_ops.write_file(str(self.folder / name), content)
        file_ops.sync_file(str(self.folder / name))
        return len(content)

    def _sync(self, base: int, suffix: str) -> None:
        with suppress(FileNotFoundError):  # an index without entries has no file
            file_ops.sync_file(str(self.folder / file_name(base, suffix)))
        if suffix == LOG:
            self._unsynced_bytes = 0

    def _copy_small_files(self) -> None:
        """Copy what is beside the segments, where it is missing or another one by now.

        Whatever else is in the copy was made there by others, for files of theirs.
        """
        there = set(file_ops.list_folder(str(self._source)))
        here = {name for name in file_ops.list_folder(str(self.folder)) if _is_copied(name)}
        bases = [base for base, _ in moving.written(self.log)]
        wanted = {file_name(base, suffix) for base in bases for suffix in _BESIDE}
        wanted |= {file_name(offset, SNAPSHOT) for offset in offsets_of(there, SNAPSHOT)}
        wanted |= _SINGLE
        wanted &= there
        logs = {file_name(base, LOG) for base in bases}
        for name in sorted(here - wanted - logs):
            file_ops.remove(str(self.folder / name))
        for name in sorted(wanted):
            if name not in here or self._differs(name):
                self._copy_file(name)

    def _differs(self, name: str) -> bool:
        asked = file_ops.size if name.endswith(_INDEXES) else file_ops.read_file
        return bool(asked(str(self._source / name)) != asked(str(self.folder / name)))

    def _sync_last(self) -> None:
        """Sync the active segment, and all names."""
        base = moving.written(self.log)[-1][0]
        for suffix in (LOG, *_INDEXES):
            self._sync(base, suffix)
        file_ops.sync_folder(str(self.folder))

    # ---- the switch --------------------------------------------------------------------------

    def _switch_held(self, on_loop: OnLoop, when_used: Callable[[], None]) -> bool:
        for _ in range(MOVE_LOOKS_MAX):
            if not on_loop(lambda: self.log.is_syncing):
                break
            time.sleep(MOVE_LOOK_SECONDS)
        for _ in range(MOVE_ATTEMPTS_MAX):
            if on_loop(self._use):
                break
            if not self._copy_rest():
                return False
        else:
            return False
        try:
            self._commit(on_loop, when_used)
        except (StorageError, FileNotFoundError) as error:
            reason = f"it was not moved to {self.directory}: {error}"
            on_loop(partial(self.log.take_offline, reason))
            raise
        return True

    def _use(self) -> bool:
        """Copy the last bytes and use the copy, on the loop; False: more has to be copied first."""
        there = moving.written(self.log)
        base, size = there[-1]
        closed = {each for each, _ in there[:-1]}
        if (
            not self.log.is_in_service
            or self.log.is_syncing
            or self._cut != moving.last_cut(self.log)
            or self._copied.keys() != {*closed, base}
            or self._whole != closed
            or any(self._copied[each] != its_size for each, its_size in there[:-1])
            or size - self._copied[base] > MOVE_TAIL_BYTES_MAX
        ):
            return False
        if size > self._copied[base]:
            self._copy_range(base, LOG, self._copied[base], size - self._copied[base])
        for suffix in _INDEXES:
            before, now = (
                self._size(self.folder, base, suffix),
                self._size(self._source, base, suffix),
            )
            if before > now:
                raise StorageError(f"{self._source / file_name(base, suffix)} has become shorter")
            if before < now:
                self._copy_range(base, suffix, before, now - before)
        moving.use(self.log, str(self.folder))
        self._last_base = base
        self.is_used = True
        return True

    @staticmethod
    def _size(folder: Path, base: int, suffix: str) -> int:
        try:
            return int(file_ops.size(str(folder / file_name(base, suffix))))
        except FileNotFoundError:
            return 0

    def _commit(self, on_loop: OnLoop, when_used: Callable[[], None]) -> None:
        # (What was appended to indexes since is not trusted after a crash, or synced by the next
        # checkpoint.)
        self._sync(self._last_base, LOG)
        file_ops.sync_folder(str(self.folder))  # a segment may have begun since `_sync_last`
        file_ops.rename(str(self._source), str(self.left))
        file_ops.sync_folder(str(self._source.parent))
        on_loop(partial(self._rename, when_used))
        file_ops.sync_folder(str(self.directory))

    def _rename(self, when_used: Callable[[], None]) -> None:
        final = str(self.directory / self._source.name)
        file_ops.rename(str(self.folder), final)
        moving.renamed(self.log, final)
        when_used()


def _is_copied(name: str) -> bool:
    return name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT)) or name in _SINGLE
