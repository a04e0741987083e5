"""Imports the groups of V1's original server from its files in the data directory, once.

    no __consumer_offsets yet, but groups.json or offsets.json
        → a mark  → the topic is created  → offsets, then groups are written to its log
        → the files are renamed  → the mark is removed

This happens before the first connection is served, so nothing else has used the groups. If a start
ends before the import does, the next one finds the mark and repeats it; a repeated import changes
nothing. A file that cannot be parsed is logged and skipped; so is an entry that is not valid here,
such as one whose topic name Kafka does not allow. Everything stays in the renamed files, which are
never overwritten.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from itertools import islice, starmap
from pathlib import Path
from typing import Any, Protocol, TypeVar

from broker._native.kernel import file_ops
from broker.core.groups.assigned.assignors import assign
from broker.core.groups.assigned.images import AssignedImage, AssignedMember, fits
from broker.core.groups.commands.assigned import AssignedError, AssignedProtocol, Assignor
from broker.core.groups.commands.classic import NO_GENERATION, NO_MEMBER_ID
from broker.core.groups.commands.offsets import CommitRequest, OffsetToCommit
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.rules import check_name
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.protocols.v1.group_files import files
from broker.protocols.v1.group_files.files import Offsets, V1Group

_RETRY_SECONDS = 0.02
_RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    AssignedError.LOADING,
    AssignedError.UNAVAILABLE,
)
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_SHOWN_MAX = 10  # skipped entries in the log

_log = logging.getLogger(__name__)
_ErrorT = TypeVar("_ErrorT", ErrorCode, AssignedError)


class GroupsTopic(Protocol):
    """The topic of groups; implemented by the broker's topics."""

    def get(self, name: str, /) -> object | None:
        """Return the topic of that name, or None."""

    async def offsets_topic(self) -> object:
        """Create `__consumer_offsets` if need be."""


class V1Import:
    """The import of one data directory's files."""

    def __init__(
        self,
        folder: Path,
        groups: GroupCoordinator,
        topics: GroupsTopic,
        io_thread: IoThread,
        clock: Clock,
    ) -> None:
        """Keep what it needs; nothing is read yet."""
        self._folder = folder
        self._groups = groups
        self._topics = topics
        self._io_thread = io_thread
        self._clock = clock
        self._left_out: list[str] = []
        self._is_second = False  # an earlier import did not finish

    async def run(self) -> None:
        """Import the files if that has not been done; StorageError when the log refuses them."""
        is_first = self._topics.get(OFFSETS_TOPIC) is None
        mark = self._folder / files.UNFINISHED_FILE
        if not is_first and not mark.exists():
            return
        self._is_second = not is_first
        groups, offsets = await self._io_thread.run(self._read)
        if groups or offsets:
            await self._io_thread.run(lambda: file_ops.write_file_atomic(mark, b""))
            try:
                await self._import(groups, offsets)
            except TimeoutError as error:
                seconds = limits.V1_LOAD_SECONDS
                reason = f"{seconds} seconds have passed without a group or an offset"
                raise self._failure(reason) from error
            except RequestError as error:
                raise self._failure(str(error)) from error
            self._report(len(groups), len(offsets))
        await self._io_thread.run(self._finish)

    def _finish(self) -> None:
        """Rename the files and remove the mark: the import is complete."""
        files.set_aside(self._folder)
        mark = self._folder / files.UNFINISHED_FILE
        if mark.exists():
            file_ops.remove(mark)
            file_ops.sync_folder(self._folder)

    def _failure(self, reason: str) -> StorageError:
        both = f"{files.GROUPS_FILE} and {files.OFFSETS_FILE} in {self._folder}"
        return StorageError(f"{both} are not imported yet: {reason}; the next start continues")

    def _read(self) -> tuple[Mapping[str, V1Group], Mapping[str, Offsets]]:
        groups = files.read_groups(self._folder) or {}
        return groups, files.read_offsets(self._folder) or {}

    async def _import(self, groups: Mapping[str, V1Group], offsets: Mapping[str, Offsets]) -> None:
        """Import offsets, then groups: a group with members takes offsets from these only."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(limits.V1_LOAD_SECONDS) as timeout:

            def progressed() -> None:
                timeout.reschedule(loop.time() + limits.V1_LOAD_SECONDS)

            await self._topics.offsets_topic()
            await _all_of(starmap(self._import_offsets, self._commits(offsets)), progressed)
            await _all_of(starmap(self._import_group, groups.items()), progressed)

    def _commits(
        self, offsets: Mapping[str, Offsets]
    ) -> Iterator[tuple[str, tuple[OffsetToCommit, ...]]]:
        """Yield the valid offsets, a limited number of a group at a time."""
        for group_id, topics in offsets.items():
            legal = self._legal(group_id, topics)
            while part := tuple(islice(legal, limits.V1_OFFSETS_PER_COMMIT)):
                yield group_id, part

    async def _import_offsets(self, group_id: str, part: tuple[OffsetToCommit, ...]) -> None:
        """Commit as a consumer without membership does."""
        request = CommitRequest(group_id, NO_MEMBER_ID, None, NO_GENERATION, part)

        async def commit() -> ErrorCode:
            errors = (await self._groups.commit_offsets(request)).errors
            return next((each for each in errors if each is not ErrorCode.NONE), errors[0])

        error = await _until_served(commit)
        # The group has members: an earlier import has written it, and its offsets before it.
        was_imported = self._is_second and error is ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE and not was_imported:
            self._left_out.append(f"offsets of group {group_id}: {error.name}")

    async def _import_group(self, group_id: str, group: V1Group) -> None:
        try:
            image = _image(group_id, group, self._clock.wall_ms())
        except (ValueError, RequestError) as reason:
            self._left_out.append(f"group {group_id}: {reason}")
            return

        async def restore() -> AssignedError:
            return (await self._groups.restore_assigned(group_id, image)).error

        error = await _until_served(restore)
        # The group exists: an earlier import has written it.
        was_imported = self._is_second and error is AssignedError.OTHER_PROTOCOL
        if error is not AssignedError.NONE and not was_imported:
            self._left_out.append(f"group {group_id}: {error.value}")

    def _legal(self, group_id: str, topics: Offsets) -> Iterator[OffsetToCommit]:
        for topic, partitions in topics.items():
            for partition, offset in partitions.items():
                try:
                    check_name(topic)
                    _check(partition <= _INT32_MAX, "there is no such partition")
                    _check(0 <= offset <= _INT64_MAX, f"{offset} is no offset")
                    _check(fits(group_id, topic, "-"), "the group's name is too long")
                except (ValueError, RequestError) as error:
                    what = f"offset of group {group_id} in {topic}-{partition}"
                    self._left_out.append(f"{what}: {error}")
                else:
                    yield OffsetToCommit(topic, partition, offset)

    def _report(self, groups: int, offsets: int) -> None:
        _log.info(
            "groups of V1 imported: folder=%s groups=%d groups_with_offsets=%d",
            self._folder,
            groups,
            offsets,
        )
        for each in self._left_out[:_SHOWN_MAX]:
            _log.warning("not imported from V1's groups: %s", ascii(each)[1:-1])
        if len(self._left_out) > _SHOWN_MAX:
            _log.warning("not imported from V1's groups: %d more", len(self._left_out) - _SHOWN_MAX)
        if self._left_out:
            kept = f"{files.GROUPS_FILE}{files.IMPORTED_SUFFIX}"
            _log.warning("what was not imported stays in %s and its sibling", self._folder / kept)


async def _all_of(
    works: Iterable[Coroutine[Any, Any, None]], progressed: Callable[[], None]
) -> None:
    """Run all of them, a limited number at a time; those at the same time share syncs."""
    waiting: set[asyncio.Task[None]] = set()
    try:
        for work in works:
            waiting.add(asyncio.ensure_future(work))
            if len(waiting) == limits.V1_LOADED_AT_ONCE:
                waiting = await _some_of(waiting, progressed)
        while waiting:
            waiting = await _some_of(waiting, progressed)
    finally:
        for each in waiting:
            each.cancel()


async def _some_of(
    waiting: set[asyncio.Task[None]], progressed: Callable[[], None]
) -> set[asyncio.Task[None]]:
    """Wait until one is done; return those that are not."""
    done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in done:
        each.result()
    progressed()
    return others


async def _until_served(ask: Callable[[], Awaitable[_ErrorT]]) -> _ErrorT:
    """Repeat a command until the coordinator can serve; the caller has the time limit."""
    while (error := await ask()) in _RETRIABLE:  # noqa: ASYNC110 (there is no event for it)
        await asyncio.sleep(_RETRY_SECONDS)
    return error


def _image(group_id: str, group: V1Group, wall_ms: int) -> AssignedImage:
    """Return the group as an image, in its generation if our assignment equals the stored one.

    Raises:
        ValueError, RequestError: it is not valid here.
    """
    assignor = Assignor(group.assignor)
    check_name(group.topic)
    _check(0 < group.generation < _INT32_MAX, f"{group.generation} is no generation")
    _check(len(group.members) <= limits.ASSIGNED_MEMBERS_MAX, "it has too many members")
    for each in (*group.members, "-"):
        _check(fits(group_id, group.topic, each), "a name is empty or too long")
    stored = {each: group.assignments.get(each, ()) for each in group.members}
    count = 1 + max((number for share in stored.values() for number in share), default=-1)
    _check(count <= limits.PARTITIONS_PER_TOPIC_MAX, "there is no such partition")
    shares = assign(assignor, stored, count)
    members = {
        each: AssignedMember(each, "", "", limits.ASSIGNED_SESSION_TIMEOUT_MS, shares[each])
        for each in group.members
    }
    generation = group.generation + (shares != stored)
    return AssignedImage(AssignedProtocol.V1, group.topic, assignor, generation, members, wall_ms)


def _check(is_legal: bool, complaint: str) -> None:  # noqa: FBT001 (it reads as a sentence)
    if not is_legal:
        raise ValueError(complaint)
