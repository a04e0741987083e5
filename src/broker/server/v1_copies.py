"""groups.json and offsets.json in the data directory: V1's groups as its original server kept them.

The groups live in `__consumer_offsets`; these are copies, so that who goes back to the original
server finds its groups, and so does a broker whose `__consumer_offsets` is gone (v1_import.py).
They are replaced at most once a second, after a change, and at a stop. A heartbeat is no change. A
broker that V1 never speaks to writes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from broker.core.groups.assigned.commands import AssignedProtocol
from broker.core.groups.assigned.group import AssignedGroup
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.records import CommittedOffset
from broker.core.machine import Moment
from broker.core.steps import in_steps, next_step
from broker.model import limits
from broker.model.clock import Clock
from broker.storage import v1_files
from broker.storage.v1_files import Offsets, V1Group


class V1Copies:
    """Keeps both files as the groups are."""

    def __init__(
        self,
        folder: Path,
        groups: GroupCoordinator,
        clock: Clock,
        on_disk: Callable[[Callable[[], None]], Awaitable[bool]],
    ) -> None:
        """Take the files in the folder for what they are, until a group changes.

        Args:
            folder: the data directory.
            groups: of the broker.
            clock: tells when members were heard of.
            on_disk: does work in the I/O thread and tells whether it was done.
        """
        self._folder = folder
        self._groups = groups
        self._clock = clock
        self._on_disk = on_disk
        self._changes_written = 0

    async def run(self) -> None:
        """Write as long as the broker runs."""
        while True:
            await asyncio.sleep(limits.V1_FILES_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Replace the files if a group has changed, and all groups are known."""
        changes = self._groups.assigned_changes
        if changes == self._changes_written or not self._groups.is_complete:
            return
        if (self._folder / v1_files.UNFINISHED_FILE).exists():
            return  # What they say is not in the log yet.
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
            {each: group.heard_wall_ms(each, now) for each in image.members},
            {each.member_id: each.partitions for each in image.members.values()},
        )


async def _copy_offsets(topics: Mapping[str, Mapping[int, CommittedOffset]]) -> Offsets:
    """A group's offsets, in steps of some topics; those may come and go meanwhile."""
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
