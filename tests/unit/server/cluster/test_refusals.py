"""Processes that cannot be brokers of a cluster end with a sentence and an exit code."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.model.address import Address
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.etcd import Etcd

pytestmark = pytest.mark.etcd
HOST = "127.0.0.1"
SECONDS = 60
_USAGE = 2
REGISTERED = "registered in the cluster: node_id=7"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member; each test has a prefix of its own."""
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    yield running
    running.close()


def broker(endpoint: Address | str, folder: Path, prefix: str) -> BrokerProcess:
    folder.mkdir()
    store = f"etcd://{endpoint}/{prefix}"
    settings = [f"polylog.metadata.store={store}", "broker.session.timeout.ms=2000", "node.id=7"]
    return BrokerProcess(folder, settings=settings)


def test_a_second_broker_with_a_node_id_ends_and_the_first_one_goes_on(
    etcd: Etcd, tmp_path: Path
) -> None:
    first, second = (broker(etcd.endpoints[0], tmp_path / each, "same") for each in "12")
    try:
        first.start()
        wait_until(lambda: REGISTERED in first.stderr(), "the first one is registered")
        second.launch()

        assert second.wait() == _USAGE

        last = second.stderr().splitlines()[-1]
        assert last.startswith("broker: node.id=7 is that of another broker of this cluster")
        assert first.address in last
        assert "by=another broker" in second.stderr()
        assert not second.stdout(), "it has never been ready"
        assert first.stop() == 0
    finally:
        for each in (first, second):
            if each.is_running:
                each.kill()


def test_the_banner_follows_the_registration_and_names_the_cluster(
    etcd: Etcd, tmp_path: Path
) -> None:
    killed = broker(etcd.endpoints[0], tmp_path / "1", "banner")
    key = "banner/broker/7"
    try:
        killed.start()
        before = etcd.entries(key)
        killed.kill()
        killed.start()

        assert etcd.entries(key).keys() == {key}
        assert etcd.entries(key) != before
        [founded, *_] = [line for line in killed.log_lines() if "cluster founded" in line]
        cluster_id = founded.rpartition("cluster_id=")[2]
        store = f"etcd://{etcd.endpoints[0]}/banner"
        assert f"  cluster     {cluster_id}, metadata in {store}\n" in killed.stdout()
        [waiting] = [line for line in killed.log_lines() if "is still registered" in line]
        assert "an earlier run of this broker" in waiting
        assert waiting.endswith(f"listeners={killed.address} at_most_seconds=6")
        assert killed.stop() == 0
    finally:
        if killed.is_running:
            killed.kill()


def test_a_broker_that_stops_unregisters_itself(etcd: Etcd, tmp_path: Path) -> None:
    stopping = broker(etcd.endpoints[0], tmp_path / "1", "stop")
    stopping.settings = (*stopping.settings[:1], "broker.session.timeout.ms=60000", "node.id=7")
    try:
        stopping.start()
        wait_until(lambda: REGISTERED in stopping.stderr(), "it is registered")

        stopping.restart()
        wait_until(lambda: stopping.stderr().count(REGISTERED) == 2, "it is again")

        assert "is still registered" not in stopping.stderr()
        stopping.stop()
    finally:
        if stopping.is_running:
            stopping.kill()


def test_a_start_that_waits_for_its_store_ends_at_a_signal(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as silent:
        silent.settimeout(SECONDS)
        waiting = broker(f"{HOST}:{silent.getsockname()[1]}", tmp_path / "1", "wait")
        waiting.launch()
        try:
            silent.accept()[0].close()  # the first attempt fails, others follow

            waiting.signal(signal.SIGTERM)

            assert waiting.wait() == 0
            assert "Traceback" not in waiting.stderr()
        finally:
            if waiting.is_running:
                waiting.kill()
