"""Watches of etcd that end, are refused, or were away while etcd compacted its history."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from broker.model.address import Address
from broker.model.secret import Secret
from broker.storage.metadata import Changes, Compacted, Delete, Put, StoreReplaced
from broker.storage.metadata.etcd.gateway import Credentials, EtcdError, Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from tests.support.etcd import Etcd

pytestmark = pytest.mark.etcd
SECONDS = 60


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    cluster = Etcd(tmp_path_factory.mktemp("etcd"))
    yield cluster
    cluster.close()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, SECONDS))


async def changed(store: EtcdMetaStore, *operations: Put | Delete) -> int:
    revision = await store.transact([], operations)
    assert revision is not None
    return revision


async def compact(store: EtcdMetaStore, revision: int) -> None:
    await store._call("kv/compaction", {"revision": str(revision), "physical": True})


async def pulled(watch: AsyncGenerator[Changes, None]) -> Changes:
    return await anext(watch)


def test_a_watch_that_was_away_during_a_compaction_raises_compacted(etcd: Etcd) -> None:
    async def scenario() -> None:
        gateway = Gateway(etcd.endpoints)
        watcher, other = EtcdMetaStore(gateway, b"/away/"), EtcdMetaStore(gateway, b"/away/")
        begun = await changed(other, Put(b"a", b""))
        async with aclosing(watcher.watch(b"", begun)) as watch:
            assert (await anext(watch)).revision == begun
            for connection in gateway._streams:  # as an outage does
                connection.close()
            last = [await changed(other, Put(b"a", b"%d" % number)) for number in range(10)][-1]
            await compact(other, last)

            with pytest.raises(Compacted) as raised:
                await anext(watch)

        assert begun < raised.value.revision <= last
        found, revision = await other.scan(b"")
        assert [each.value for each in found] == [b"9"]
        async with aclosing(watcher.watch(b"", revision + 1)) as watch:
            after = await changed(other, Put(b"b", b""))
            assert (await anext(watch)).revision == after
        await watcher.close()

    run(scenario())


def test_a_deletion_at_the_revision_of_a_compaction_is_not_lost(etcd: Etcd) -> None:
    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(etcd.endpoints), b"/deleted/")
        await changed(store, Put(b"a", b""))
        seen = await changed(store, Put(b"b", b""))
        deleted = await changed(store, Delete(b"a"))
        assert deleted == seen + 1
        await compact(store, deleted)

        async with aclosing(store.watch(b"", seen + 1)) as watch:
            with pytest.raises(Compacted):
                await anext(watch)
        await store.close()

    run(scenario())


@pytest.mark.parametrize("restored", [None, "copy"])
def test_a_store_that_has_lost_changes_is_refused(tmp_path: Path, restored: str | None) -> None:
    """Emptied, or restored from a copy: a watch would wait for the revisions that are lost."""
    etcd = Etcd(tmp_path / "etcd")

    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(etcd.endpoints), b"/lost/")
        await changed(store, Put(b"a", b""))
        etcd.kill(0)
        etcd.copy(0, tmp_path / "copy")
        await started()
        last = [await changed(store, Put(b"b", b"")) for _ in range(5)][-1]
        async with aclosing(store.watch(b"", last)) as watch:
            await anext(watch)
            etcd.kill(0)
            etcd.replace(0, None if restored is None else tmp_path / restored)
            await started()

            with pytest.raises(StoreReplaced, match=rf"revision \d+ and was at {last}"):
                await anext(watch)

        for refused in (store.get(b"a"), store.scan(b""), store.transact([], [Put(b"b", b"")])):
            with pytest.raises(StoreReplaced):
                await refused
        await store.close()

    async def started() -> None:
        etcd.start(0)
        await asyncio.to_thread(etcd.wait, 0)

    try:
        run(scenario())
    finally:
        etcd.close()


def test_a_watch_ends_when_its_store_is_closed(etcd: Etcd) -> None:
    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(etcd.endpoints), b"/closed/")
        begun = await changed(store, Put(b"a", b""))
        watch = store.watch(b"", begun)
        await anext(watch)
        ending = asyncio.ensure_future(pulled(watch))
        await asyncio.sleep(0.05)

        await store.close()

        with pytest.raises(StopAsyncIteration):
            await ending

    run(scenario())


def test_a_watch_does_not_use_the_processor_while_no_member_can_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = 0
    connect = asyncio.open_connection

    async def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return await connect(*arguments, **options)

    monkeypatch.setattr(asyncio, "open_connection", counted)

    async def scenario() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        store = EtcdMetaStore(Gateway([Address("127.0.0.1", port)]), b"/c/")
        watching = asyncio.ensure_future(pulled(store.watch(b"", 1)))
        await asyncio.sleep(0.5)
        await store.close()
        await asyncio.wait([watching])
        watching.exception()

    run(scenario())
    assert 1 <= attempts <= 6


@pytest.fixture
def guarded(etcd: Etcd) -> Iterator[Callable[[str, str], Gateway]]:
    """An etcd with passwords: root, and `reader`, who may read keys below /readable/ only."""
    keys = {"key": "L3JlYWRhYmxlLw==", "range_end": "L3JlYWRhYmxlMA=="}
    etcd.ask("auth/user/add", name="reader", password="secret")
    etcd.ask("auth/role/add", name="reading")
    etcd.ask("auth/role/grant", name="reading", perm={"permType": "READ", **keys})
    etcd.ask("auth/user/grant", user="reader", role="reading")
    etcd.enable_passwords()
    yield lambda name, password: Gateway(
        etcd.endpoints, credentials=Credentials(name, Secret(password))
    )
    etcd.disable_passwords()
    etcd.ask("auth/user/delete", name="reader")
    etcd.ask("auth/role/delete", role="reading")


def test_a_watch_that_is_not_permitted_is_refused(
    guarded: Callable[[str, str], Gateway],
) -> None:
    async def scenario() -> None:
        reader = guarded("reader", "secret")
        readable, other = EtcdMetaStore(reader, b"/readable/"), EtcdMetaStore(reader, b"/other/")
        assert await readable.scan(b"")

        with pytest.raises(EtcdError, match=r"cannot watch: .*permission denied"):
            await anext(other.watch(b"", 1))
        with pytest.raises(EtcdError, match="permission denied"):
            await other.get(b"key")
        await reader.close()

    run(scenario())


def test_calls_and_a_watch_with_a_token_that_etcd_has_forgotten_ask_for_another(
    etcd: Etcd, guarded: Callable[[str, str], Gateway]
) -> None:
    async def scenario() -> None:
        gateway = guarded("root", "secret")
        store = EtcdMetaStore(gateway, b"/forgotten/")
        revision = await changed(store, Put(b"key", b""))
        watching = asyncio.ensure_future(pulled(store.watch(b"never", revision)))
        await asyncio.sleep(0.1)
        etcd.kill(0)
        etcd.start(0)
        await asyncio.to_thread(etcd.wait, 0)

        found = await asyncio.gather(*(store.get(b"key") for _ in range(8)))
        async with aclosing(store.watch(b"", revision)) as watch:
            assert (await anext(watch)).revision == revision

        assert [each.value for each in found if each] == [b""] * 8
        assert not watching.done()
        watching.cancel()
        await asyncio.wait([watching])
        gateway._token = "unknown.1"
        async with aclosing(store.watch(b"", revision)) as watch:
            assert (await anext(watch)).revision == revision
        await store.close()

    run(scenario())
