"""What every metadata store guarantees: etcd with one member, and with three."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from itertools import count
from typing import Any

import pytest

from broker.storage.metadata import (
    Absent,
    Changes,
    Compacted,
    CreatedAt,
    Delete,
    Event,
    Guard,
    KeyValue,
    Put,
    Unchanged,
)
from broker.storage.metadata.etcd.gateway import Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from tests.support.etcd import Etcd

pytestmark = pytest.mark.etcd
SECONDS = 30  # of each test: far more than it needs
Scenario = Callable[[EtcdMetaStore], Awaitable[None]]
_prefixes = count()


@pytest.fixture(scope="module", params=[1, 3], ids=["etcd", "etcd-3"])
def etcd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Etcd]:
    cluster = Etcd(tmp_path_factory.mktemp("etcd"), request.param)
    yield cluster
    cluster.close()


@pytest.fixture
def run(etcd: Etcd) -> Callable[[Scenario], None]:
    """Run a scenario against an empty store."""

    def run(scenario: Scenario) -> None:
        async def body() -> None:
            store = open_store(etcd, f"/test{next(_prefixes)}/".encode())
            try:
                async with asyncio.timeout(SECONDS):
                    await scenario(store)
            finally:
                await store.close()

        asyncio.run(body())

    return run


def open_store(etcd: Etcd, prefix: bytes) -> EtcdMetaStore:
    return EtcdMetaStore(Gateway(etcd.endpoints), prefix)


async def put(store: EtcdMetaStore, key: bytes, value: bytes = b"") -> int:
    revision = await store.transact([], [Put(key, value)])
    assert revision is not None
    return revision


def test_a_stored_value_is_found_with_the_revisions_of_its_changes(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
        first = await store.transact([], [Put(b"a", b"1"), Put(b"b", b"1")])
        second = await put(store, b"a", b"2")

        assert first is not None
        assert second > first
        assert await store.get(b"a") == KeyValue(b"a", b"2", first, second)
        assert await store.get(b"b") == KeyValue(b"b", b"1", first, first)
        assert await store.get(b"c") is None

    run(scenario)


def test_a_scan_returns_the_keys_of_a_prefix_in_order_at_one_revision(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
        keys = [b"t/b", b"t/a", b"ti/a", b"t/\xc3\xa9", b"c/t/a", b"t/\xff\xff"]
        revision = await store.transact([], [Put(key, b"") for key in keys])

        found, read_at = await store.scan(b"t/")
        everything, _ = await store.scan(b"")

        assert [each.key for each in found] == [b"t/a", b"t/b", b"t/\xc3\xa9", b"t/\xff\xff"]
        assert read_at >= (revision or 0)
        assert [each.key for each in everything] == sorted(keys)

    run(scenario)


def test_a_scan_of_many_keys_is_read_in_pages(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.model.limits.ETCD_KEYS_PER_PAGE", 7)

    async def scenario(store: EtcdMetaStore) -> None:
        keys = [f"k{number:03d}".encode() for number in range(100)]
        await store.transact([], [Put(key, key) for key in keys])

        found, _ = await store.scan(b"k")

        assert [each.key for each in found] == keys
        assert [each.value for each in found] == keys

    run(scenario)


def test_a_transaction_applies_all_operations_or_none(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
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
    async def scenario(store: EtcdMetaStore) -> None:
        first = await put(store, b"a")
        await store.transact([], [Delete(b"a"), Delete(b"never")])

        assert await store.get(b"a") is None
        again = await store.transact([Absent(b"a")], [Put(b"a", b"")])

        assert again is not None
        assert again > first
        assert await store.transact([CreatedAt(b"a", first)], [Put(b"a", b"")]) is None

    run(scenario)


def test_of_two_candidates_at_once_exactly_one_is_elected(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
        guards = [Absent(b"controller")]
        results = await asyncio.gather(
            *(store.transact(guards, [Put(b"controller", b"%d" % n)]) for n in range(16))
        )

        assert len([each for each in results if each is not None]) == 1

    run(scenario)


def test_a_watch_yields_every_change_in_order_from_its_revision_on(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
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


def test_a_watch_that_is_silent_is_opened_again_without_a_gap(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.model.limits.ETCD_WATCH_SILENCE_SECONDS", 0.05)

    async def scenario(store: EtcdMetaStore) -> None:
        begun = await put(store, b"first")
        async with aclosing(store.watch(b"k", begun + 1)) as watch:
            events: list[Event] = []
            for number in range(20):
                await put(store, b"k", b"%d" % number)
                if number % 5 == 0:
                    events += await take(watch, number + 1 - len(events))
                    await asyncio.sleep(0.12)
            events += await take(watch, 20 - len(events))

        assert [each.entry.value for each in events if each.entry] == [
            b"%d" % number for number in range(20)
        ]

    run(scenario)


def test_keys_of_a_revoked_lease_are_deleted_at_once(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
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
    async def scenario(store: EtcdMetaStore) -> None:
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


def test_the_owner_of_a_lease_that_is_not_renewed_loses_it_before_its_keys_are_deleted(
    etcd: Etcd,
) -> None:
    async def scenario() -> None:
        owner, other = open_store(etcd, b"/lost/"), open_store(etcd, b"/lost/")
        lease = await owner.lease(2)
        revision = await owner.transact([], [Put(b"broker/1", b"", lease.id)])
        assert revision is not None
        lease._renewing.cancel()  # as a process that is stopped: nothing of it runs
        async with aclosing(other.watch(b"broker/", revision + 1)) as watch:
            (event,) = await take(watch, 1)

        assert event.entry is None
        assert asyncio.get_running_loop().time() > lease.valid_until
        assert not lease.is_held
        await owner.close()
        await other.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def test_a_lease_that_the_store_has_forgotten_is_lost(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
        lease = await store.lease(2)
        await store._call("lease/revoke", {"ID": str(lease.id)})

        await lease.lost.wait()

        assert not lease.is_held

    run(scenario)


def test_a_watch_from_a_compacted_revision_tells_the_first_that_is_left(run: Any) -> None:
    async def scenario(store: EtcdMetaStore) -> None:
        begun = await put(store, b"a")
        last = [await put(store, b"a") for _ in range(5)][-1]
        await store._call("kv/compaction", {"revision": str(last), "physical": True})

        with pytest.raises(Compacted) as raised:
            async with aclosing(store.watch(b"a", begun)) as watch:
                await take(watch, 1)

        assert begun < raised.value.revision <= last
        found, read_at = await store.scan(b"a")
        assert len(found) == 1
        async with aclosing(store.watch(b"a", read_at + 1)) as watch:
            await put(store, b"a", b"after")
            (event,) = await take(watch, 1)
        assert event.entry is not None
        assert event.entry.value == b"after"

    run(scenario)


def test_stores_with_other_prefixes_do_not_see_each_other(etcd: Etcd) -> None:
    async def scenario() -> None:
        one, two = open_store(etcd, b"/one/"), open_store(etcd, b"/one-more/")
        await put(one, b"a", b"1")
        await put(two, b"a", b"2")

        assert [each.value for each in (await one.scan(b""))[0]] == [b"1"]
        assert [each.value for each in (await two.scan(b""))[0]] == [b"2"]
        await one.close()
        await two.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


async def take(watch: AsyncGenerator[Changes, None], events: int) -> list[Event]:
    """Return so many events of a watch."""
    taken: list[Event] = []
    while len(taken) < events:
        changes = await anext(watch)
        assert changes.revision == changes.events[-1].revision
        taken += changes.events
    return taken
