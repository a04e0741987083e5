"""Groups of V1's original server are imported into the log once."""

import asyncio
from pathlib import Path

import pytest

from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
)
from broker.core.groups.commands.classic import GroupState
from broker.model import limits
from broker.model.errors import StorageError
from broker.protocols.v1.group_files import files
from broker.protocols.v1.group_files.files import V1Group
from broker.protocols.v1.group_files.group_import import V1Import
from tests.support.v1_groups import V1Groups

GROUP = V1Group("orders", 7, "round_robin", {"b": 5, "a": 6}, {"a": (0, 2), "b": (1,)})
CALL = AssignedCall(AssignedProtocol.V1, "g", "orders", "a", 7, 3)


async def run(v1: V1Groups) -> None:
    await V1Import(v1.folder, v1.groups, v1, v1.io_thread, v1.clock).run()


def test_groups_and_offsets_continue_where_they_were(tmp_path: Path) -> None:
    files.write(tmp_path, {"g": GROUP}, {"g": {"orders": {0: 5}}, "other": {"t": {1: 9}}})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        assert await v1.offsets("g") == {"orders": {0: 5}}
        assert await v1.offsets("other") == {"t": {1: 9}}
        described = await v1.groups.describe_group("g")
        assert [each.member_id for each in described.members] == ["b", "a"]
        synced = await v1.groups.assigned_sync(CALL)
        assert (synced.error, synced.partitions) == (AssignedError.NONE, (0, 2))

    asyncio.run(scenario())


def test_imported_members_have_one_session_timeout_to_appear(tmp_path: Path) -> None:
    files.write(tmp_path, {"g": GROUP}, {})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        v1.clock.advance(10_000)
        assert (await v1.groups.assigned_sync(CALL)).error is AssignedError.NONE
        v1.clock.advance(1)
        stale = await v1.groups.assigned_sync(CALL)
        assert stale.error is AssignedError.STALE_GENERATION  # b did not

    asyncio.run(scenario())


def test_a_broker_that_has_groups_imports_none(tmp_path: Path) -> None:
    files.write(tmp_path, {"g": GROUP}, {"g": {"orders": {0: 5}}})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        v1.has_topic = True
        await run(v1)

        assert await v1.offsets("g") == {}

    asyncio.run(scenario())


def test_without_files_nothing_is_created(tmp_path: Path) -> None:
    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        assert not v1.has_topic

    asyncio.run(scenario())
    assert not list(tmp_path.iterdir())


def test_an_interrupted_import_is_finished_by_the_next_start(tmp_path: Path) -> None:
    files.write(tmp_path, {"g": GROUP}, {"g": {"orders": {0: 5}}})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        v1.is_broken = True
        with pytest.raises(StorageError):
            await run(v1)
        assert (tmp_path / files.UNFINISHED_FILE).exists()

        v1.is_broken = False
        v1.has_topic = True
        await run(v1)
        await run(v1)

        assert await v1.offsets("g") == {"orders": {0: 5}}
        assert (await v1.groups.describe_group("g")).state is GroupState.STABLE

    asyncio.run(scenario())
    assert not (tmp_path / files.UNFINISHED_FILE).exists()


def test_a_resumed_import_does_not_report_what_is_already_imported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files.write(tmp_path, {"g": GROUP}, {"g": {"orders": {0: 5}}})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)
        files.write(tmp_path, {"g": GROUP}, {"g": {"orders": {0: 5}}})
        (tmp_path / files.UNFINISHED_FILE).touch()
        await run(v1)

        assert await v1.offsets("g") == {"orders": {0: 5}}

    asyncio.run(scenario())
    assert "left out" not in caplog.text


def test_imported_files_are_kept_under_another_name(tmp_path: Path) -> None:
    files.write(tmp_path, {"g": GROUP}, {"g": {"orders": {0: 5, 1: -1}}})
    (tmp_path / files.GROUPS_FILE).write_bytes(b"{")
    offsets = (tmp_path / files.OFFSETS_FILE).read_bytes()

    asyncio.run(run(V1Groups(tmp_path)))

    kept = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert kept == {"groups.json.imported": b"{", "offsets.json.imported": offsets}


def test_unparsable_files_are_kept_as_well(tmp_path: Path) -> None:
    (tmp_path / files.GROUPS_FILE).write_bytes(b"{")

    asyncio.run(run(V1Groups(tmp_path)))

    assert [each.name for each in tmp_path.iterdir()] == ["groups.json.imported"]


def test_imported_groups_wait_for_the_disk_together(tmp_path: Path) -> None:
    count = 200
    groups = {f"g{number}": GROUP for number in range(count)}
    offsets = {name: {"orders": {0: 5}} for name in groups}
    files.write(tmp_path, groups, offsets)

    async def scenario() -> int:
        v1 = V1Groups(tmp_path)
        v1.has_slow_disk = True
        rounds = await v1.sync_until(asyncio.ensure_future(run(v1)))
        assert await v1.offsets("g199") == {"orders": {0: 5}}
        return rounds

    assert asyncio.run(scenario()) < count / 4


def test_a_disk_without_space_for_too_long_ends_the_start_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "V1_LOAD_SECONDS", 0.05)
    files.write(tmp_path, {"g": GROUP}, {})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        v1.has_slow_disk = True
        with pytest.raises(StorageError, match="seconds have passed"):
            await run(v1)

    asyncio.run(scenario())
    assert (tmp_path / files.UNFINISHED_FILE).exists()
    assert (tmp_path / files.GROUPS_FILE).exists()


def test_an_import_may_take_longer_as_long_as_it_makes_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "V1_LOAD_SECONDS", 0.2)
    monkeypatch.setattr(limits, "V1_LOADED_AT_ONCE", 1)
    files.write(tmp_path, {f"g{number}": GROUP for number in range(30)}, {})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        v1.has_slow_disk = True
        await v1.sync_until(asyncio.ensure_future(run(v1)), seconds=0.02)

        assert (await v1.groups.describe_group("g29")).state is GroupState.STABLE

    asyncio.run(scenario())


def test_an_undecodable_file_is_logged_and_its_part_starts_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files.write(tmp_path, {"g": GROUP}, {"g": {"orders": {0: 5}}})
    (tmp_path / files.GROUPS_FILE).write_bytes(b"{")

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        assert await v1.offsets("g") == {"orders": {0: 5}}
        assert (await v1.groups.describe_group("g")).members == ()

    asyncio.run(scenario())
    assert "groups.json" in caplog.text


@pytest.mark.parametrize(
    "bad",
    [
        GROUP._replace(topic="../up"),
        GROUP._replace(assignor="sticky"),
        GROUP._replace(generation=0),
        GROUP._replace(generation=1 << 40),
        GROUP._replace(assignments={"a": (limits.PARTITIONS_PER_TOPIC_MAX,)}),
        GROUP._replace(members={"": 1}),
        GROUP._replace(members={"x" * 300: 1}),
        GROUP._replace(members={str(number): 1 for number in range(1_000)}),
    ],
)
def test_a_group_that_cannot_be_imported_is_skipped_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: V1Group
) -> None:
    files.write(tmp_path, {"bad": bad, "g": GROUP}, {})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        assert (await v1.groups.describe_group("g")).state is GroupState.STABLE
        assert (await v1.groups.describe_group("bad")).state is GroupState.DEAD

    asyncio.run(scenario())
    assert "group bad" in caplog.text


def test_offsets_that_cannot_be_imported_are_skipped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    negative = dict.fromkeys(range(15), -1)
    files.write(tmp_path, {}, {"g": {"t": {**negative, 20: 4}, "no/topic": {0: 1}}})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        assert await v1.offsets("g") == {"t": {20: 4}}

    asyncio.run(scenario())
    assert "-1 is no offset" in caplog.text
    assert "6 more" in caplog.text


def test_an_assignment_that_differs_from_ours_starts_a_new_generation(tmp_path: Path) -> None:
    uneven = GROUP._replace(assignments={"a": (0, 1, 2)})
    files.write(tmp_path, {"g": uneven}, {})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        stale = await v1.groups.assigned_sync(CALL)
        assert (stale.error, stale.generation) == (AssignedError.STALE_GENERATION, 8)

    asyncio.run(scenario())


def test_an_empty_group_keeps_its_topic_and_generation(tmp_path: Path) -> None:
    files.write(tmp_path, {"g": V1Group("orders", 7, "range", {}, {})}, {})

    async def scenario() -> None:
        v1 = V1Groups(tmp_path)
        await run(v1)

        joined = await v1.groups.assigned_join(
            AssignedJoin(AssignedProtocol.V1, "g", "orders", "a", 3)
        )
        assert joined.generation == 8

    asyncio.run(scenario())
