"""groups.json and offsets.json follow the groups of V1."""

import asyncio
from pathlib import Path

from broker._native.kernel import file_ops
from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedJoin,
    AssignedProtocol,
)
from broker.core.groups.commands.classic import (
    NO_GENERATION,
    NO_MEMBER_ID,
)
from broker.core.groups.commands.offsets import CommitRequest, OffsetToCommit
from broker.protocols.v1.group_files import files
from broker.protocols.v1.group_files.copies import V1Copies
from broker.protocols.v1.group_files.files import V1Group
from tests.support.v1_groups import V1Groups

CALL = AssignedCall(AssignedProtocol.V1, "g", "t", "a", 2, 3)


def copies_of(v1: V1Groups) -> V1Copies:
    return V1Copies(v1, v1.groups, v1.clock)


async def joined(folder: Path) -> tuple[V1Groups, V1Copies]:
    """A broker with one group that has one member, both files written."""
    v1 = V1Groups(folder)
    v1.has_topic = True
    copies = copies_of(v1)
    await v1.groups.assigned_join(AssignedJoin(AssignedProtocol.V1, "g", "t", "a", 3))
    await copies.write()
    return v1, copies


def test_the_files_describe_the_groups(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1, copies = await joined(tmp_path)
        joined_ms = v1.clock.wall_ms()
        v1.clock.advance(4_000)
        await v1.groups.assigned_join(AssignedJoin(AssignedProtocol.V1, "g", "t", "b", 3))
        await v1.groups.assigned_commit(AssignedCommit(CALL._replace(generation=3), 2, 41))
        await copies.write()

        assert files.read_groups(tmp_path) == {
            "g": V1Group(
                "t",
                3,
                "round_robin",
                {"a": joined_ms, "b": joined_ms + 4_000},
                {"a": (0, 2), "b": (1,)},
            )
        }
        assert files.read_offsets(tmp_path) == {"g": {"t": {2: 41}}}

    asyncio.run(scenario())


def test_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1, copies = await joined(tmp_path)
        for name in (files.GROUPS_FILE, files.OFFSETS_FILE):
            (tmp_path / name).unlink()

        await v1.groups.assigned_sync(CALL)
        await copies.write()

    asyncio.run(scenario())
    assert not list(tmp_path.iterdir())


def test_kafka_groups_alone_write_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        v1.has_topic = True
        offsets = (OffsetToCommit("t", 0, 1),)
        request = CommitRequest("kafka", NO_MEMBER_ID, None, NO_GENERATION, offsets)
        await v1.groups.commit_offsets(request)

        await copies_of(v1).write()

    asyncio.run(scenario())
    assert not list(tmp_path.iterdir())


def test_a_deleted_group_is_removed_from_the_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1, copies = await joined(tmp_path)
        await v1.groups.assigned_leave(CALL)
        await v1.groups.delete_group("g")
        await copies.write()

        assert files.read_groups(tmp_path) == {}

    asyncio.run(scenario())


def test_a_failed_write_is_retried_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1, copies = await joined(tmp_path)
        await v1.groups.assigned_leave(CALL)
        v1.is_broken = True
        await copies.write()
        v1.is_broken = False
        await copies.write()

        groups = files.read_groups(tmp_path)
        assert groups is not None
        assert groups["g"].members == {}

    asyncio.run(scenario())


def test_while_a_partition_is_loading_the_files_stay_unchanged(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1, _ = await joined(tmp_path)
        before = (tmp_path / files.GROUPS_FILE).read_bytes()
        v1.groups = v1.start()
        v1.groups.expect([v1.groups.partition_for("g"), 0])
        v1.groups.recovered(v1.groups.partition_for("g"), is_empty=False)
        v1.groups.tick()

        await copies_of(v1).write()

        assert (tmp_path / files.GROUPS_FILE).read_bytes() == before
        v1.groups.recovered(0, is_empty=True)
        (tmp_path / files.GROUPS_FILE).unlink()
        await copies_of(v1).write()
        assert files.read_groups(tmp_path) is not None

    asyncio.run(scenario())


def test_files_not_yet_imported_are_not_overwritten(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1, copies = await joined(tmp_path)
        before = (tmp_path / files.GROUPS_FILE).read_bytes()
        file_ops.write_file_atomic(tmp_path / files.UNFINISHED_FILE, b"")
        await v1.groups.assigned_leave(CALL)

        await copies.write()

        assert (tmp_path / files.GROUPS_FILE).read_bytes() == before

    asyncio.run(scenario())
