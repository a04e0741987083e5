"""What every metadata store guarantees: SQLite of one process or several, etcd of one or three."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from broker.core.scheduling.io_thread import IoThread
from broker.model import limits
from broker.model.clock import monotonic
from broker.model.errors import StorageError
from broker.storage.metadata import (
    Absent,
    Changes,
    Compacted,
    CreatedAt,
    Delete,
    Event,
    Guard,
    KeyValue,
    Lease,
    MetaStore,
    Put,
    Unchanged,
    store_limits,
)
from broker.storage.metadata.etcd.gateway import Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from broker.storage.metadata.renewed_lease import RenewedLease
from broker.storage.metadata.sqlite.database import SqliteMetaStore
from broker.storage.metadata.sqlite.shared import SharedSqliteMetaStore
from broker.storage.metadata.sqlite.store import AsyncSqliteMetaStore
from tests.support.etcd import Etcd

SECONDS = 30  # of each test: far more than it needs
Scenario = Callable[[MetaStore], Awaitable[None]]
_prefixes = count()


class Engine(Protocol):
    """One kind of store, with an empty one for a test."""

    def open(self) -> MetaStore:
        """Open it as another process does; the same store if only one process can."""

    async def compact(self, store: MetaStore, last: int) -> None:
        """Remove the changes before a revision, the last one."""

    async def forget(self, lease: Lease) -> None:
        """End a lease without its owner."""

    def close(self) -> None:
        """Release what stays of closed stores."""


class EtcdEngine:
    def __init__(self, cluster: Etcd) -> None:
        self._cluster = cluster
        self._prefix = f"/test{next(_prefixes)}/".encode()

    def open(self) -> EtcdMetaStore:
        return EtcdMetaStore(Gateway(self._cluster.endpoints), self._prefix)

    async def compact(self, store: MetaStore, last: int) -> None:
        assert isinstance(store, EtcdMetaStore)
        await store._call("kv/compaction", {"revision": str(last), "physical": True})

    async def forget(self, lease: Lease) -> None:
        store = self.open()
        await store._call("lease/revoke", {"ID": str(lease.id)})
        await store.close()

    def close(self) -> None:
        pass


class SqliteEngine:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool) -> None:
        self._path = path
        self._monkeypatch = monkeypatch
        self._is_shared = is_shared
        self._threads: list[IoThread] = []
        self._stores: list[AsyncSqliteMetaStore] = []

    def open(self) -> AsyncSqliteMetaStore:
        if self._stores and not self._is_shared:
            return self._stores[0]
        database = (SharedSqliteMetaStore if self._is_shared else SqliteMetaStore)(self._path)
        self._threads.append(IoThread())
        self._stores.append(AsyncSqliteMetaStore(database, self._threads[-1]))
        return self._stores[-1]

    async def compact(self, store: MetaStore, last: int) -> None:
        with self._monkeypatch.context() as patch:
            patch.setattr(store_limits, "METADATA_HISTORY_ROWS_MAX", 2)
            assert await store.transact([], [Put(b"compact", b"")]) == last + 1

    async def forget(self, lease: Lease) -> None:
        self._stores[-1]._database.revoke(lease.id)

    def close(self) -> None:
        for thread in self._threads:
            thread.stop()


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Etcd]]:
    started: dict[int, Etcd] = {}

    def cluster(members: int) -> Etcd:
        if members not in started:
            started[members] = Etcd(tmp_path_factory.mktemp("etcd"), members)
        return started[members]

    yield cluster
    for each in started.values():
        each.close()


@pytest.fixture(
    params=[
        "sqlite",
        "sqlite-shared",
        pytest.param("etcd-1", marks=pytest.mark.etcd),
        pytest.param("etcd-3", marks=pytest.mark.etcd),
    ]
)
def engine(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clusters: Callable[[int], Etcd],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Engine]:
    name, _, size = request.param.partition("-")
    opened: Engine
    if name == "etcd":
        opened = EtcdEngine(clusters(int(size)))
    else:
        path = tmp_path / "metadata.db"
        opened = SqliteEngine(path, monkeypatch, is_shared=size == "shared")
    yield opened
    opened.close()


@pytest.fixture
def run(engine: Engine) -> Callable[[Scenario], None]:
    """Run a scenario against an empty store."""

    def run(scenario: Scenario) -> None:
        async def body() -> None:
            store = engine.open()
            try:
                async with asyncio.timeout(SECONDS):
                    await scenario(store)
            finally:
                await store.close()

        asyncio.run(body())

    return run


@pytest.fixture
def run_two(engine: Engine) -> Callable[[Callable[[MetaStore, MetaStore], Awaitable[None]]], None]:
    """Run a scenario against the stores of two processes; one, twice, if there can be only one."""

    def run(scenario: Callable[[MetaStore, MetaStore], Awaitable[None]]) -> None:
        async def body() -> None:
            one, two = engine.open(), engine.open()
            try:
                async with asyncio.timeout(SECONDS):
                    await scenario(one, two)
            finally:
                await one.close()
                if two is not one:
                    await two.close()

        asyncio.run(body())

    return run


async def put(store: MetaStore, key: bytes, value: bytes = b"", lease_id: int = 0) -> int:
    revision = await store.transact([], [Put(key, value, lease_id)])
    assert revision is not None
    return revision


async def stop_renewing(lease: Lease) -> None:
    """Let a lease be as that of a process that is stopped: it is not renewed, and nobody knows."""

    async def never(_: float) -> float:
        await asyncio.sleep(SECONDS)
        return 0

    assert isinstance(lease, RenewedLease)
    lease._renew_once = never


def test_a_stored_value_is_found_with_the_revisions_of_its_changes(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        first = await store.transact([], [Put(b"a", b"1"), Put(b"b", b"1")])
        second = await put(store, b"a", b"2")

        assert first is not None
        assert second > first
        assert await store.get(b"a") == KeyValue(b"a", b"2", first, second)
        assert await store.get(b"b") == KeyValue(b"b", b"1", first, first)
        assert await store.get(b"c") is None

    run(scenario)


def test_a_scan_returns_the_keys_of_a_prefix_in_order_at_one_revision(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        keys = [b"t/b", b"t/a", b"ti/a", b"t/\xc3\xa9", b"c/t/a", b"t/\xff\xff"]
        revision = await store.transact([], [Put(key, b"") for key in keys])

        found, read_at = await store.scan(b"t/")
        everything, _ = await store.scan(b"")

        assert [each.key for each in found] == [b"t/a", b"t/b", b"t/\xc3\xa9", b"t/\xff\xff"]
        assert read_at >= (revision or 0)
        assert [each.key for each in everything] == sorted(keys)

    run(scenario)


def test_a_transaction_applies_all_operations_or_none(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        revision = await put(store, b"a", b"1")
        both = [Put(b"a", b"2"), Put(b"b", b"2")]

        assert await store.transact([Absent(b"a")], both) is None
        assert await store.transact([Unchanged(b"a", revision - 1)], both) is None
        assert await store.transact([Unchanged(b"b", revision)], both) is None
        assert await store.transact([CreatedAt(b"a", revision - 1)], both) is None
        assert [each.value for each in (await store.scan(b""))[0]] == [b"1"]

        guards: list[Guard] = [Unchanged(b"a", revision), CreatedAt(b"a", revision), Absent(b"b")]
        assert await store.transact(guards, both) is not None
        assert [each.value for each in (await store.scan(b""))[0]] == [b"2", b"2"]

    run(scenario)


def test_a_deleted_key_is_absent_and_is_created_anew(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        first = await put(store, b"a")
        await store.transact([], [Delete(b"a"), Delete(b"never")])

        assert await store.get(b"a") is None
        again = await store.transact([Absent(b"a")], [Put(b"a", b"")])

        assert again is not None
        assert again > first
        assert await store.transact([CreatedAt(b"a", first)], [Put(b"a", b"")]) is None

    run(scenario)


def test_of_two_candidates_at_once_exactly_one_is_elected(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        guards = [Absent(b"controller")]
        results = await asyncio.gather(
            *(store.transact(guards, [Put(b"controller", b"%d" % n)]) for n in range(16))
        )

        assert len([each for each in results if each is not None]) == 1

    run(scenario)


def test_a_watch_yields_every_change_in_order_from_its_revision_on(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        before = await put(store, b"t/a", b"0")
        first = await store.transact([], [Put(b"t/a", b"1"), Put(b"t/b", b"1"), Put(b"other", b"")])
        second = await store.transact([], [Delete(b"t/a")])
        assert first is not None
        assert second is not None

        async with aclosing(store.watch(b"t/", before + 1)) as watch:
            seen = await take(watch, 3)
            third = await put(store, b"t/c", b"2")
            seen += await take(watch, 1)

        assert seen == [
            Event(b"t/a", KeyValue(b"t/a", b"1", before, first), first),
            Event(b"t/b", KeyValue(b"t/b", b"1", first, first), first),
            Event(b"t/a", None, second),
            Event(b"t/c", KeyValue(b"t/c", b"2", third, third), third),
        ]

    run(scenario)


def test_keys_of_a_revoked_lease_are_deleted_at_once(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        lease = await store.lease(10)
        revision = await store.transact([], [Put(b"broker/1", b"", lease.id), Put(b"node/1", b"")])
        assert revision is not None
        assert lease.is_held

        async with aclosing(store.watch(b"broker/", revision + 1)) as watch:
            await lease.revoke()
            (event,) = await take(watch, 1)

        assert event.entry is None
        assert not lease.is_held
        assert [each.key for each in (await store.scan(b""))[0]] == [b"node/1"]

    run(scenario)


def test_a_lease_is_renewed_as_long_as_its_owner_lives(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        lease = await store.lease(10)
        await store.transact([], [Put(b"broker/1", b"", lease.id)])
        first = lease.valid_until
        while lease.valid_until == first:
            await asyncio.sleep(0.1)

        assert lease.is_held
        assert lease.valid_until > first
        assert await store.get(b"broker/1") is not None
        await lease.revoke()

    run(scenario)


def test_two_operations_on_one_key_are_refused(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        with pytest.raises(ValueError, match="two operations on one key"):
            await store.transact([], [Put(b"a", b"1"), Delete(b"a")])

    run(scenario)


def test_a_transaction_of_the_most_operations_is_one_change(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        count = limits.METADATA_OPS_PER_TRANSACTION_MAX
        keys = [f"part/{number:03}".encode() for number in range(count)]
        revision = await store.transact(
            [Absent(key) for key in keys], [Put(key, b"") for key in keys]
        )
        assert revision is not None

        async with aclosing(store.watch(b"part/", revision)) as watch:
            changes = await anext(watch)

        assert [each.key for each in changes.events] == keys
        assert {each.revision for each in changes.events} == {revision}
        with pytest.raises(ValueError, match="operations"):
            await store.transact([], [Put(b"%d" % number, b"") for number in range(count + 1)])

    run(scenario)


def test_a_change_that_changes_nothing_is_no_event(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        begun = await put(store, b"a")
        assert await store.transact([Absent(b"a")], [Put(b"a", b"refused")]) is None
        await store.transact([], [Delete(b"never")])
        async with aclosing(store.watch(b"", begun + 1)) as watch:
            last = await put(store, b"a", b"2")
            (event,) = await take(watch, 1)

        assert event.revision == last

    run(scenario)


def test_every_process_sees_the_changes_of_all_in_the_same_order(run_two: Any) -> None:
    async def scenario(one: MetaStore, two: MetaStore) -> None:
        begun = await put(one, b"first")
        async with (
            aclosing(one.watch(b"k", begun + 1)) as watch_one,
            aclosing(two.watch(b"k", begun + 1)) as watch_two,
        ):
            seen = [asyncio.ensure_future(take(each, 40)) for each in (watch_one, watch_two)]
            for number in range(20):
                await asyncio.gather(
                    put(one, b"k1", b"%d" % number), put(two, b"k2", b"%d" % number)
                )
            events_one, events_two = await asyncio.gather(*seen)

        assert events_one == events_two
        revisions = [each.revision for each in events_one]
        assert revisions == sorted(set(revisions))

    run_two(scenario)


def test_of_writers_in_two_processes_none_overwrites_the_other(run_two: Any) -> None:
    async def scenario(one: MetaStore, two: MetaStore) -> None:
        await put(one, b"counter", b"0")

        async def add(store: MetaStore) -> None:
            for _ in range(10):
                while True:
                    found = await store.get(b"counter")
                    assert found is not None
                    value = b"%d" % (int(found.value) + 1)
                    guards = [Unchanged(b"counter", found.mod_revision)]
                    if await store.transact(guards, [Put(b"counter", value)]) is not None:
                        break

        await asyncio.gather(add(one), add(two))

        found = await two.get(b"counter")
        assert found is not None
        assert found.value == b"20"

    run_two(scenario)


def test_a_watch_ends_when_its_store_is_closed(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        begun = await put(store, b"a")
        watch = store.watch(b"", begun + 1)
        ending = asyncio.ensure_future(take(watch, 1))
        await asyncio.sleep(0.05)

        await store.close()

        with pytest.raises((StopAsyncIteration, RuntimeError)):
            await ending

    run(scenario)


def test_a_key_cannot_be_attached_to_a_lease_that_has_ended(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        lease = await store.lease(10)
        await lease.revoke()

        for lease_id in (lease.id, 12345):
            with pytest.raises(StorageError, match="lease"):
                await store.transact([], [Put(b"a", b""), Put(b"b", b"", lease_id)])

        assert (await store.scan(b""))[0] == []

    run(scenario)


def test_a_key_belongs_to_the_lease_of_its_last_change(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        first, second = await store.lease(10), await store.lease(10)
        await put(store, b"kept", b"", first.id)
        await put(store, b"kept", b"")
        await put(store, b"moved", b"", first.id)
        await put(store, b"moved", b"", second.id)
        await put(store, b"made anew", b"", first.id)
        await store.transact([], [Delete(b"made anew")])
        await put(store, b"made anew", b"")

        await first.revoke()
        assert [each.key for each in (await store.scan(b""))[0]] == [
            b"kept",
            b"made anew",
            b"moved",
        ]
        await second.revoke()
        assert [each.key for each in (await store.scan(b""))[0]] == [b"kept", b"made anew"]

    run(scenario)


def test_the_keys_of_a_lease_are_deleted_in_one_change(run: Any) -> None:
    async def scenario(store: MetaStore) -> None:
        lease = await store.lease(10)
        keys = [b"broker/%d" % number for number in range(5)]
        revision = await store.transact([], [Put(key, b"", lease.id) for key in keys])
        assert revision is not None
        async with aclosing(store.watch(b"", revision + 1)) as watch:
            await lease.revoke()
            changes = await anext(watch)

        assert changes.events == [Event(key, None, changes.revision) for key in keys]

    run(scenario)


def test_the_owner_of_a_lease_that_is_not_renewed_loses_it_before_its_keys_are_deleted(
    run_two: Any,
) -> None:
    async def scenario(owner: MetaStore, other: MetaStore) -> None:
        lease = await owner.lease(2)
        await stop_renewing(lease)
        revision = await owner.transact([], [Put(b"broker/1", b"", lease.id)])
        assert revision is not None
        async with aclosing(other.watch(b"broker/", revision + 1)) as watch:
            (event,) = await take(watch, 1)

        assert event.entry is None
        assert monotonic() > lease.valid_until
        assert not lease.is_held

    run_two(scenario)


def test_an_abandoned_lease_is_lost_at_once_and_its_keys_are_deleted_later(run_two: Any) -> None:
    async def scenario(owner: MetaStore, other: MetaStore) -> None:
        lease = await owner.lease(2)
        revision = await put(owner, b"broker/1", b"", lease.id)
        await lease.abandon()

        assert not lease.is_held
        assert lease.lost.is_set()
        async with aclosing(other.watch(b"broker/", revision + 1)) as watch:
            (event,) = await take(watch, 1)
        assert event.entry is None

    run_two(scenario)


def test_a_lease_that_the_store_has_forgotten_is_lost(run: Any, engine: Engine) -> None:
    async def scenario(store: MetaStore) -> None:
        lease = await store.lease(2)
        await engine.forget(lease)

        await lease.lost.wait()

        assert not lease.is_held
        await lease.revoke()  # nothing is left to give up

    run(scenario)


def test_a_watch_from_a_compacted_revision_raises_compacted(run: Any, engine: Engine) -> None:
    async def scenario(store: MetaStore) -> None:
        begun = await put(store, b"a")
        last = [await put(store, b"a") for _ in range(5)][-1]
        await engine.compact(store, last)

        with pytest.raises(Compacted) as raised:
            await anext(store.watch(b"a", begun))

        assert begun < raised.value.revision <= last + 1
        found, read_at = await store.scan(b"a")
        assert len(found) == 1
        async with aclosing(store.watch(b"a", read_at + 1)) as watch:
            await put(store, b"a", b"after")
            (event,) = await take(watch, 1)
        assert event.entry is not None
        assert event.entry.value == b"after"

    run(scenario)


def test_a_slow_watch_is_compacted_or_complete_but_has_no_gap(run: Any, engine: Engine) -> None:
    async def scenario(store: MetaStore) -> None:
        begun = await put(store, b"a", b"0")
        async with aclosing(store.watch(b"a", begun)) as watch:
            events = await take(watch, 1)
            last = [await put(store, b"a", b"%d" % number) for number in range(1, 6)][-1]
            await engine.compact(store, last)
            try:
                events += await take(watch, 5)
            except Compacted:
                return

        assert [each.entry.value for each in events if each.entry] == [b"%d" % n for n in range(6)]

    run(scenario)


async def take(watch: AsyncGenerator[Changes, None], events: int) -> list[Event]:
    """Return so many events of a watch."""
    taken: list[Event] = []
    while len(taken) < events:
        changes = await anext(watch)
        assert changes.revision == changes.events[-1].revision
        taken += changes.events
    return taken
