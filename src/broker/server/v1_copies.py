"""Copies of V1's groups in the files of its original server: groups.json and offsets.json.

The groups live in `__consumer_offsets`. The copies let users return to the original server with
their groups, and restore them for a broker that has lost `__consumer_offsets` (v1_import.py). They
are replaced at most once a second, after a change, and at a stop. A heartbeat is not a change. A
broker without clients of V1 writes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from broker.core.coordination.machine import Moment
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.commands.assigned import AssignedProtocol
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.records.offsets import CommittedOffset
from broker.core.scheduling.steps import in_steps, next_step
from broker.core.service import Service
from broker.model import limits
from broker.model.clock import Clock
from broker.storage import v1_files
from broker.storage.v1_files import Offsets, V1Group


class V1Copies(Service):
    """Keeps both files up to date."""

    name = "V1 copies"

    def __init__(
        self,
        folder: Path,
        groups: GroupCoordinator,
        clock: Clock,
        on_disk: Callable[[Callable[[], None]], Awaitable[bool]],
    ) -> None:
        """Leave the files in the folder as they are until a group changes.

        Args:
            folder: the data directory.
            groups: the group coordinator.
            clock: for the times of members' last requests.
            on_disk: runs work in the I/O thread; returns whether it succeeded.
        """
        self._folder = folder
        self._groups = groups
        self._clock = clock
        self._on_disk = on_disk
        self._changes_written = 0

    async def run(self) -> None:
        """Write periodically; runs until cancelled."""
        while True:
            await asyncio.sleep(limits.V1_FILES_SECONDS)
            await self.write()

    async def stop(self) -> None:
        """Write once more."""
        await self.write()

    async def write(self) -> None:
        """Replace the files if a group has changed and all groups are loaded."""
        changes = self._groups.assigned_changes
        if changes == self._changes_written or not self._groups.is_complete:
            return
        if (self._folder / v1_files.UNFINISHED_FILE).exists():
            return  # the import of these files has not finished
        groups: dict[str, V1Group] = {}
        offsets: dict[str, Offsets] = {}
        known = self._groups.assigned_groups(AssignedProtocol.V1)
        async for group, topics in in_steps(known, limits.V1_GROUPS_PER_STEP):
            groups[group.group_id] = self._copy(group)
            if topics:
                offsets[group.group_id] = await _copy_offsets(topics)
        if await self._on_disk(partial(v1_files.write, self._folder, groups, offsets)):
            self._changes_written = changes

    def _copy(self, group: AssignedGroup) -> V1Group:
        now = Moment(self._clock.monotonic_ms(), self._clock.wall_ms())
        image = group.image
        return V1Group(
            image.topic,
            image.generation,
            image.assignor.value,
            {each: group.last_seen_wall_ms(each, now) for each in image.members},
            {each.member_id: each.partitions for each in image.members.values()},
        )


async def _copy_offsets(topics: Mapping[str, Mapping[int, CommittedOffset]]) -> Offsets:
    """Copy a group's offsets, in steps of some topics; topics may come and go meanwhile."""
    copied: dict[str, Mapping[int, int]] = {}
    size = 0
    for topic in list(topics):
        partitions = topics.get(topic, {})
        if partitions:
            copied[topic] = {number: each.offset for number, each in partitions.items()}
        size += len(partitions)
        if size >= limits.V1_OFFSETS_PER_STEP:
            size = 0
            await next_step()
    return copied
