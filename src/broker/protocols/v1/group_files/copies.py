"""Copies of V1's groups in the files of its original server: groups.json and offsets.json.

The groups live in `__consumer_offsets`. The copies let users return to the original server with
their groups, and restore them for a broker that has lost `__consumer_offsets` (group_import.py).
They are replaced at most once a second, after a change, and at a stop. A heartbeat is not a change.
A broker without clients of V1 writes nothing.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

from broker.core.coordination.machine import Moment
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.commands.assigned import AssignedProtocol
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.records.offsets import CommittedOffset
from broker.core.scheduling.steps import in_steps, next_step
from broker.core.service import Service
from broker.model import limits
from broker.model.clock import Clock
from broker.protocols.base import SmallFiles
from broker.protocols.v1.group_files import files
from broker.protocols.v1.group_files.files import Offsets, V1Group


class V1Copies(Service):
    """Keeps both files up to date."""

    name = "V1 copies"

    def __init__(
        self,
        small_files: SmallFiles,
        groups: GroupCoordinator,
        clock: Clock,
    ) -> None:
        """Leave the files as they are until a group changes.

        Args:
            small_files: those of the data directory.
            groups: the group coordinator.
            clock: for the times of members' last requests.
        """
        self._small_files = small_files
        self._groups = groups
        self._clock = clock
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
        if (self._small_files.folder / files.UNFINISHED_FILE).exists():
            return  # the import of these files has not finished
        folder = self._small_files.folder
        groups: dict[str, V1Group] = {}
        offsets: dict[str, Offsets] = {}
        known = self._groups.assigned_groups(AssignedProtocol.V1)
        async for group, topics in in_steps(known, limits.V1_GROUPS_PER_STEP):
            groups[group.group_id] = self._copy(group)
            if topics:
                offsets[group.group_id] = await _copy_offsets(topics)
        if await self._small_files.write(partial(files.write, folder, groups, offsets)):
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
