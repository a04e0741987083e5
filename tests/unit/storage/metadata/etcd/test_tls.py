"""etcd over TLS: its certificate, and one of ours."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from broker.storage.metadata import Put, Unavailable
from broker.storage.metadata.etcd.gateway import Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from tests.support.certificates import Authority
from tests.support.etcd import Etcd

pytestmark = pytest.mark.etcd
SECONDS = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def etcd(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """A member that demands a certificate of its clients."""
    server = authority.issue("server")
    options = ["--cert-file", str(server.certificate), "--key-file", str(server.key)]
    options += ["--trusted-ca-file", str(authority.own.certificate), "--client-cert-auth"]
    cluster = Etcd(
        tmp_path_factory.mktemp("etcd"),
        options=options,
        tls=authority.client_context(authority.issue("member")),
    )
    yield cluster
    cluster.close()


def test_calls_watches_and_leases_work_over_tls(authority: Authority, etcd: Etcd) -> None:
    async def scenario() -> None:
        tls = authority.client_context(authority.issue("client"))
        store = EtcdMetaStore(Gateway(etcd.endpoints, tls=tls), b"/c/")
        lease = await store.lease(10)
        revision = await store.transact([], [Put(b"key", b"value", lease.id)])
        assert revision is not None
        async with aclosing(store.watch(b"", revision)) as watch:
            assert (await anext(watch)).revision == revision
            await lease.revoke()
            assert (await anext(watch)).events[0].entry is None
        assert await store.get(b"key") is None
        await store.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


@pytest.mark.parametrize("client", ["untrusting", "without a certificate", "without TLS"])
def test_without_trust_of_both_sides_nothing_is_sent_or_read(
    authority: Authority,
    etcd: Etcd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
) -> None:
    if client != "untrusting":  # this one gets its answer
        monkeypatch.setattr("broker.storage.metadata.etcd.store.METADATA_CALL_SECONDS", 1)
    own = authority.issue("client")
    tls = {
        "untrusting": Authority(tmp_path, "other").client_context(own),
        "without a certificate": authority.client_context(),
        "without TLS": None,
    }[client]

    async def scenario() -> None:
        store = EtcdMetaStore(Gateway(etcd.endpoints, tls=tls), b"/c/")
        reason = "certificate" if client == "untrusting" else "etcd does not answer"
        with pytest.raises(Unavailable, match=reason):
            await store.get(b"key")
        await store.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))
