"""etcd's members killed, stopped and started again beside a writer and a watcher."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from broker.model.errors import StorageError
from broker.model.secret import Secret
from broker.storage.metadata import (
    Absent,
    Changes,
    Event,
    OutcomeUnknown,
    Put,
    Unavailable,
    Unchanged,
)
from broker.storage.metadata.etcd.gateway import Credentials, EtcdError, Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from tests.support.etcd import Etcd

pytestmark = pytest.mark.etcd
SECONDS = 60


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Etcd]:
    cluster = Etcd(tmp_path, 3)
    yield cluster
    cluster.close()


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Etcd]:
    cluster = Etcd(tmp_path, 1)
    yield cluster
    cluster.close()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, SECONDS))


async def changed(store: EtcdMetaStore, key: bytes, value: bytes) -> int:
    """Set a key whose writer is this one only, whatever happens to etcd; return the revision."""
    while True:
        present = await read(store, key)
        if present is not None and present.value == value:
            return present.mod_revision
        guard = Absent(key) if present is None else Unchanged(key, present.mod_revision)
        try:
            if (revision := await store.transact([guard], [Put(key, value)])) is not None:
                return revision
        except StorageError:
            await asyncio.sleep(0.05)  # applied or not: read it again


async def read(store: EtcdMetaStore, key: bytes) -> Any:
    while True:
        try:
            return await store.get(key)
        except StorageError:
            await asyncio.sleep(0.05)


async def until(watch: AsyncGenerator[Changes, None], last: int) -> AsyncIterator[Changes]:
    """Yield the changes of a watch up to a revision."""
    revision = 0
    while revision < last:
        changes = await anext(watch)
        revision = changes.revision
        yield changes


async def interrupt(cluster: Etcd, number: int, kind: str) -> None:
    if kind == "killed":
        cluster.kill(number)
        await asyncio.sleep(0.5)
        cluster.start(number)
        await asyncio.to_thread(cluster.wait, number)
    else:
        cluster.send(number, signal.SIGSTOP)
        await asyncio.sleep(1.5)
        cluster.send(number, signal.SIGCONT)


@pytest.mark.parametrize("kind", ["killed", "stopped"])
def test_no_change_is_lost_repeated_or_reordered_while_members_fail(three: Etcd, kind: str) -> None:
    async def scenario() -> None:
        writer = EtcdMetaStore(Gateway(three.endpoints), b"/c/")
        reader = EtcdMetaStore(Gateway(three.endpoints[1:] + three.endpoints[:1]), b"/c/")
        is_over = asyncio.Event()
        written: list[bytes] = []

        async def write() -> None:
            while not is_over.is_set():
                value = b"%d" % len(written)
                await changed(writer, b"key", value)
                written.append(value)
                await asyncio.sleep(0.01)

        begun = await changed(writer, b"first", b"")
        seen: list[Event] = []

        async def watch() -> None:
            async with aclosing(reader.watch(b"key", begun + 1)) as changes:
                async for each in changes:
                    seen.extend(each.events)

        watching, writing = asyncio.ensure_future(watch()), asyncio.ensure_future(write())
        for number in range(3):
            await interrupt(three, number, kind)
            await asyncio.sleep(0.3)
        is_over.set()
        await writing
        last = await changed(writer, b"key", b"last")
        written.append(b"last")
        while not seen or seen[-1].revision < last:
            await asyncio.sleep(0.05)
        watching.cancel()
        await asyncio.wait([watching])

        assert [each.entry.value for each in seen if each.entry] == written
        await writer.close()
        await reader.close()

    run(scenario())


def test_without_a_majority_calls_fail_in_time_and_work_again_with_it(
    three: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.storage.metadata.etcd.store.METADATA_CALL_SECONDS", 3)

    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(three.endpoints), b"/c/")
        await changed(store, b"key", b"1")
        three.kill(1)
        three.kill(2)

        begun = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable):
            await store.get(b"key")
        with pytest.raises((OutcomeUnknown, Unavailable)):
            await store.transact([], [Put(b"key", b"2")])
        assert asyncio.get_running_loop().time() - begun < 2 * 3 + 2

        three.start(1)
        three.start(2)
        assert (await read(store, b"key")).value in {b"1", b"2"}
        assert await changed(store, b"key", b"3")
        await store.close()

    run(scenario())


def test_a_watch_and_a_lease_outlive_the_loss_of_a_majority(three: Etcd) -> None:
    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(three.endpoints), b"/c/")
        lease = await store.lease(30)
        begun = await changed(store, b"key", b"1")
        async with aclosing(store.watch(b"", begun)) as watch:
            assert (await anext(watch)).revision == begun
            three.kill(1)
            three.kill(2)
            with pytest.raises(StorageError):
                await store.transact([], [Put(b"other", b"")])
            three.start(1)
            three.start(2)
            last = await changed(store, b"key", b"2")
            seen = [event async for changes in until(watch, last) for event in changes.events]

        assert [each.entry.value for each in seen if each.key == b"key" and each.entry] == [b"2"]
        assert lease.is_held
        await store.close()

    run(scenario())


def test_a_full_store_refuses_changes_is_read_and_recovers(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path, options=["--quota-backend-bytes", str(4 << 20)])

    async def scenario() -> None:
        gateway = Gateway(etcd.endpoints)
        store = EtcdMetaStore(gateway, b"/c/")
        lease = await store.lease(10)

        async def fill() -> None:
            for _ in range(100):
                await store.transact([], [Put(b"key", bytes(256 << 10))])

        with pytest.raises(StorageError, match=r"space exceeded.*compact and defragment"):
            await fill()
        with pytest.raises(StorageError, match="space exceeded"):
            await store.transact([], [Put(b"small", b"")])
        assert (found := await store.get(b"key"))
        assert len(found.value) == 256 << 10
        _, revision = await store.scan(b"")
        first = lease.valid_until
        while lease.valid_until == first:  # renewals need no space
            await asyncio.sleep(0.1)

        async def maintain(path: str, body: dict[str, Any]) -> dict[str, Any]:
            return await gateway.call(path, body, seconds=10, changes=False)

        await maintain("kv/compaction", {"revision": str(revision), "physical": True})
        await maintain("maintenance/defragment", {})
        for alarm in (await maintain("maintenance/alarm", {"action": "GET"}))["alarms"]:
            await maintain("maintenance/alarm", {"action": "DEACTIVATE", **alarm})
        assert await store.transact([], [Put(b"small", b"")]) == revision + 1
        await store.close()

    try:
        run(scenario())
    finally:
        etcd.close()


def test_a_lease_is_lost_when_etcd_stays_away(one: Etcd) -> None:
    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(one.endpoints), b"/c/")
        lease = await store.lease(2)
        one.kill(0)

        await lease.lost.wait()

        assert asyncio.get_running_loop().time() >= lease.valid_until
        await store.close()

    run(scenario())


def test_a_user_without_its_password_is_refused_and_a_token_is_renewed(one: Etcd) -> None:
    one.enable_passwords()

    async def scenario() -> None:
        nobody = Gateway(one.endpoints)
        known = Gateway(one.endpoints, credentials=Credentials("root", Secret("secret")))
        store = EtcdMetaStore(known, b"/c/")
        revision = await store.transact([], [Put(b"key", b"1")])
        assert revision is not None

        with pytest.raises(EtcdError, match="user name is empty"):
            await EtcdMetaStore(nobody, b"/c/").get(b"key")
        wrong = Gateway(one.endpoints, credentials=Credentials("root", Secret("wrong")))
        with pytest.raises(EtcdError, match="authentication failed"):
            await EtcdMetaStore(wrong, b"/c/").get(b"key")

        one.kill(0)  # it forgets its tokens
        one.start(0)
        assert (await read(store, b"key")).value == b"1"
        async with aclosing(store.watch(b"key", revision)) as watch:
            assert (await anext(watch)).revision == revision
        for gateway in (nobody, known, wrong):
            await gateway.close()

    run(scenario())
