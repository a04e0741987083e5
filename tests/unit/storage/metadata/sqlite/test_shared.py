"""metadata.db in several processes: commits, leases and failures of one as the others see them."""

import asyncio
import signal
import sqlite3
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.core.scheduling.io_thread import IoThread
from broker.model import limits
from broker.model.errors import DataDirError, DiskFull, StorageError
from broker.segments.text_files import PARTITION_METADATA
from broker.storage.metadata import Changes, Compacted, MetaStore, Put, Unavailable, store_limits
from broker.storage.metadata.sqlite.database import SqliteMetaStore
from broker.storage.metadata.sqlite.shared import SharedSqliteMetaStore
from broker.storage.metadata.sqlite.store import AsyncSqliteMetaStore
from tests.support.metadata_process import MetadataProcess
from tests.support.small_disk import small_disk

SECONDS = 30  # less than the lease of 60 s
NEVER = 3_600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


@pytest.fixture
def thread() -> Iterator[IoThread]:
    thread = IoThread()
    yield thread
    thread.stop()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, SECONDS))


async def changes_of(store: MetaStore, prefix: bytes, revision: int) -> Changes:
    async with aclosing(store.watch(prefix, revision)) as watch:
        return await anext(watch)


def fill(file: Path) -> None:
    """Write to a file until its disk is full."""
    with file.open("wb", buffering=0) as opened, suppress(OSError):
        while opened.write(bytes(4096)):
            pass


def test_a_commit_wakes_the_watch_of_another_process(
    path: Path, thread: IoThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "METADATA_LOOK_SECONDS", NEVER)

    async def scenario() -> None:
        store = AsyncSqliteMetaStore(SharedSqliteMetaStore(path), thread)
        with MetadataProcess(path, "put") as other:
            async with aclosing(store.watch(b"number", 1)) as watch:
                for number in range(5):
                    (event,) = (await anext(watch)).events
                    assert event.entry is not None
                    assert event.entry.value == b"%d" % number
                    other.proceed()
        await store.close()

    run(scenario())


def test_a_commit_whose_datagram_is_lost_is_seen_from_time_to_time(
    path: Path, thread: IoThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "METADATA_LOOK_SECONDS", 0.02)

    async def scenario() -> None:
        store = AsyncSqliteMetaStore(SharedSqliteMetaStore(path), thread)
        with MetadataProcess(path, "put") as other:
            assert (await changes_of(store, b"number", 1)).revision == 1
            for file in path.with_name("metadata.db-wakeups").iterdir():
                file.unlink()
            other.proceed()
            assert (await changes_of(store, b"number", 2)).revision == 2
        await store.close()

    run(scenario())


def test_a_scan_is_of_one_revision_whatever_others_commit_meanwhile(path: Path) -> None:
    """A watch from the next revision on would never have what is missing below it."""
    with ExitStack() as stack:
        one, other = (SharedSqliteMetaStore(path) for _ in range(2))
        for store in (one, other):
            stack.callback(store.close)
        committed: dict[bytes, int] = {}

        def commit(_statement: str) -> None:
            key = b"key %d" % len(committed)
            revision = other.transact([], [Put(key, b"")])
            assert revision is not None
            committed[key] = revision

        one._connection.set_trace_callback(commit)  # before each statement
        entries, revision = one.scan(b"")
        one._connection.set_trace_callback(None)

    found = {each.key: each.mod_revision for each in entries}
    assert found == {key: made for key, made in committed.items() if made <= revision}
    assert len(committed) > 1


def test_the_lease_of_a_killed_process_ends_at_once(path: Path, thread: IoThread) -> None:
    async def scenario() -> None:
        store = AsyncSqliteMetaStore(SharedSqliteMetaStore(path), thread)
        with MetadataProcess(path, "lease of 60 s") as owner:
            revision = int(owner.line())
            assert await store.get(b"broker/1")
            owner.kill()

            changes = await changes_of(store, b"broker/", revision + 1)

        assert [each.entry for each in changes.events] == [None]
        await store.close()

    run(scenario())


def test_a_process_that_is_stopped_beyond_its_lease_has_lost_it(
    path: Path, thread: IoThread
) -> None:
    async def scenario() -> None:
        store = AsyncSqliteMetaStore(SharedSqliteMetaStore(path), thread)
        with MetadataProcess(path, "lease of 1 s") as owner:
            revision = int(owner.line())
            owner.send(signal.SIGSTOP)
            changes = await changes_of(store, b"broker/", revision + 1)
            owner.send(signal.SIGCONT)

            assert await asyncio.to_thread(owner.line) == "lost, held: False"
        assert [each.entry for each in changes.events] == [None]
        await store.close()

    run(scenario())


def test_what_a_process_has_written_in_a_transaction_that_it_did_not_end_is_not_there(
    path: Path,
) -> None:
    store = SharedSqliteMetaStore(path)
    store.transact([], [Put(b"a", b"1")])
    with MetadataProcess(path, "write half") as other:
        assert other.line() == "inside"
        assert path.with_name("metadata.db-wal").stat().st_size > 4 << 20
        assert [each.key for each in store.scan(b"")[0]] == [b"a"]
        other.kill()

    assert store.transact([], [Put(b"b", b"2")]) == 2
    assert [each.key for each in store.scan(b"")[0]] == [b"a", b"b"]
    store.close()
    again = SharedSqliteMetaStore(path)  # it checks the whole file
    assert again.scan(b"") == (again.scan(b"")[0], 2)
    again.close()


def test_a_change_that_waits_too_long_for_another_process_is_refused_and_reads_are_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "METADATA_BUSY_SECONDS", 0.1)
    store = SharedSqliteMetaStore(path)
    store.transact([], [Put(b"a", b"1")])
    with MetadataProcess(path, "write half") as other:
        assert other.line() == "inside"

        with pytest.raises(Unavailable, match="locked"):
            store.transact([], [Put(b"a", b"2")])
        assert [each.value for each in store.scan(b"")[0]] == [b"1"]

        other.proceed()
        assert other.line() == "over"
        assert store.transact([], [Put(b"a", b"3")]) == 2
    store.close()


def test_on_a_full_disk_changes_are_refused_and_reads_and_leases_are_not(tmp_path: Path) -> None:
    with small_disk(tmp_path, "tmpfs", 4 << 20) as disk:
        path = disk / "metadata.db"
        store = SharedSqliteMetaStore(path)
        store.grant(7, 1 << 62)
        store.transact([], [Put(b"a", b"1", 7)])
        ballast = disk / "ballast"
        fill(ballast)

        with pytest.raises(DiskFull, match="full"):
            store.transact([], [Put(b"a", b"2"), Put(b"b", bytes(1 << 20))])
        assert [each.value for each in store.scan(b"")[0]] == [b"1"]
        assert store.renew(7, 1 << 62)
        store.look()

        ballast.unlink()
        revision = store.transact([], [Put(b"a", b"2"), Put(b"b", bytes(1 << 20))])
        assert revision == 2
        assert store.changes(b"a", 2).events[0].revision == 2
        store.close()


def test_processes_that_create_the_store_at_once_have_one(path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(MetadataProcess(path, "create")) for _ in range(4)]
        assert [each.line() for each in processes] == ["ready"] * 4
        for each in processes:
            each.proceed()
        revisions = [int(each.line()) for each in processes]

    store = SharedSqliteMetaStore(path)
    assert sorted(revisions) == [1, 2, 3, 4]
    assert len(store.scan(b"")[0]) == 4
    store.close()


def test_a_store_is_not_shared_with_a_process_that_has_it_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "METADATA_BUSY_SECONDS", 0)
    alone = SqliteMetaStore(path)
    with pytest.raises(DataDirError, match="another program has it open"):
        SharedSqliteMetaStore(path)
    alone.close()

    shared = SharedSqliteMetaStore(path)
    with pytest.raises(DataDirError, match="another program has it open"):
        SqliteMetaStore(path)
    assert shared.transact([], [Put(b"a", b"")]) == 1
    shared.close()


def test_a_store_is_shared_and_used_alone_in_turn(path: Path) -> None:
    alone = SqliteMetaStore(path)
    alone.transact([], [Put(b"a", b"1")])
    alone.close()
    shared = SharedSqliteMetaStore(path)
    shared.grant(7, 1 << 62)
    shared.transact([], [Put(b"broker/1", b"", 7)])
    assert [each.key for each in shared.changes(b"", 2).events] == [b"broker/1"]
    shared.close()

    alone = SqliteMetaStore(path)  # nobody else has it open, so no lease has an owner
    assert [each.key for each in alone.scan(b"")[0]] == [b"a"]
    last = alone.transact([], [Put(b"a", b"2")])
    assert last == 4
    alone.close()
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    assert sorted(name for (name,) in tables) == ["kv", "revision"]
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()

    shared = SharedSqliteMetaStore(path)
    with pytest.raises(Compacted):
        shared.changes(b"", 4)
    assert shared.changes(b"", 5).events == []
    shared.close()


def test_the_leases_of_an_earlier_process_that_was_alone_end_at_a_start(path: Path) -> None:
    alone = SqliteMetaStore(path)
    alone.grant(7, 1 << 62)
    alone.transact([], [Put(b"broker/1", b"", 7), Put(b"a", b"")])
    alone.close()

    again = SqliteMetaStore(path)

    assert [each.key for each in again.scan(b"")[0]] == [b"a"]
    again.close()


def test_the_sockets_of_processes_that_have_ended_are_removed(path: Path) -> None:
    with MetadataProcess(path, "put") as ended:
        assert ended.line() == "1"
        ended.kill()
    store = SharedSqliteMetaStore(path)
    sockets = path.with_name("metadata.db-wakeups")
    assert len(list(sockets.iterdir())) == 2

    store.transact([], [Put(b"a", b"")])

    assert len(list(sockets.iterdir())) == 1
    store.close()
    assert list(sockets.iterdir()) == []


@pytest.mark.parametrize("damage", ["another file", "no folder"])
def test_a_commit_stands_when_other_processes_cannot_be_woken(path: Path, damage: str) -> None:
    store = SharedSqliteMetaStore(path)
    sockets = path.with_name("metadata.db-wakeups")
    if damage == "no folder":
        sockets.rename(sockets.with_name("elsewhere"))
    else:
        (sockets / "folder").mkdir()  # takes no datagrams, and cannot be removed as a socket can

    try:
        assert store.transact([], [Put(b"a", b"1")]) == 1
        assert store.get(b"a") is not None
    finally:
        store.close()


def test_a_failure_of_the_locks_does_not_end_the_looks(
    path: Path, thread: IoThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "METADATA_LOOK_SECONDS", 0.01)
    database = SharedSqliteMetaStore(path)
    looks: list[bool] = []

    def look(_: object) -> bool:
        looks.append(True)
        if len(looks) == 1:
            raise OSError("no locks available")
        return False

    monkeypatch.setattr(SharedSqliteMetaStore, "look", look)

    async def scenario() -> None:
        store = AsyncSqliteMetaStore(database, thread)
        await (await store.lease(SECONDS)).abandon()
        while len(looks) < 3:
            await asyncio.sleep(0.01)
        await store.close()

    run(scenario())


def test_the_path_of_the_store_may_be_longer_than_an_address_of_a_socket(
    tmp_path: Path, thread: IoThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "METADATA_LOOK_SECONDS", NEVER)
    folder = tmp_path / ("long" * 40)
    folder.mkdir()

    async def scenario() -> None:
        path = folder / "metadata.db"
        store = AsyncSqliteMetaStore(SharedSqliteMetaStore(path), thread)
        with MetadataProcess(path, "put") as other:
            assert (await changes_of(store, b"", 1)).revision == 1
            other.proceed()
            assert (await changes_of(store, b"", 2)).revision == 2
        await store.close()

    run(scenario())


def test_no_shared_store_is_created_where_partitions_exist(path: Path) -> None:
    folder = path.with_name("orders-0")
    folder.mkdir()
    (folder / PARTITION_METADATA).write_text("version: 0")

    with pytest.raises(DataDirError, match="restore it"):
        SharedSqliteMetaStore(path)


def test_a_lease_that_is_over_is_not_renewed_although_nobody_has_ended_it_yet(path: Path) -> None:
    store = SharedSqliteMetaStore(path)
    store.grant(7, 1)

    assert not store.renew(7, 1 << 62)
    with pytest.raises(StorageError, match="lease 7 has ended"):
        store.transact([], [Put(b"broker/1", b"", 7)])
    store.close()


def test_commits_of_a_shared_store_are_synced_and_renewals_are_not(path: Path) -> None:
    store = SharedSqliteMetaStore(path)
    modes: list[str] = []
    store._connection.set_trace_callback(
        lambda sql: modes.append(sql) if "synchronous" in sql or "lease SET" in sql else None
    )
    store.grant(7, 1 << 62)
    modes.clear()
    assert store.renew(7, (1 << 62) + 1)

    assert [each.split(" = ")[-1].split()[0] for each in modes][0::2] == ["NORMAL", "FULL"]
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()
