"""What only etcd has: prefixes, pages, and streams that are opened again."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from broker.storage.metadata import Event, Put
from broker.storage.metadata.etcd.gateway import Gateway
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


async def put(store: EtcdMetaStore, key: bytes, value: bytes) -> int:
    revision = await store.transact([], [Put(key, value)])
    assert revision is not None
    return revision


def test_stores_with_other_prefixes_do_not_see_each_other(etcd: Etcd) -> None:
    async def scenario() -> None:
        gateway = Gateway(etcd.endpoints)
        one, two = EtcdMetaStore(gateway, b"/one/"), EtcdMetaStore(gateway, b"/one-more/")
        await put(one, b"a", b"1")
        await put(two, b"a", b"2")

        assert [each.value for each in (await one.scan(b""))[0]] == [b"1"]
        assert [each.value for each in (await two.scan(b""))[0]] == [b"2"]
        await gateway.close()

    run(scenario())


def test_a_scan_of_many_keys_is_read_in_pages(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.storage.metadata.store_limits.ETCD_KEYS_PER_PAGE", 7)

    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(etcd.endpoints), b"/pages/")
        keys = [f"k{number:03d}".encode() for number in range(100)]
        await store.transact([], [Put(key, key) for key in keys])

        found, _ = await store.scan(b"k")

        assert [each.key for each in found] == keys
        assert [each.value for each in found] == keys
        await store.close()

    run(scenario())


def test_a_watch_that_is_silent_is_opened_again_without_a_gap(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.storage.metadata.store_limits.ETCD_WATCH_SILENCE_SECONDS", 0.05)

    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(etcd.endpoints), b"/silent/")
        begun = await put(store, b"first", b"")
        events: list[Event] = []
        async with aclosing(store.watch(b"k", begun + 1)) as watch:
            for number in range(20):
                await put(store, b"k", b"%d" % number)
                if number % 5 == 0:
                    while len(events) <= number:
                        events += (await anext(watch)).events
                    await asyncio.sleep(0.12)
            while len(events) < 20:
                events += (await anext(watch)).events

        assert [each.entry.value for each in events if each.entry] == [
            b"%d" % number for number in range(20)
        ]
        await store.close()

    run(scenario())
