"""The metadata store loses changes: emptied, restored from a backup, or deleted.

What it lacks was not deleted by anybody. The brokers stop, or do not start, with a sentence, and
touch no folder.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.cli import main
from tests.cluster.test_restarts import PARTITIONS, TIMEOUT_S, write
from tests.compatibility.committed import committed_values
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.etcd import Etcd

EXIT_DATA_DIR, EXIT_STORAGE = 73, 74


def emptied(etcd: Etcd, _copy: Path, _prefix: str) -> None:
    etcd.kill(0)
    etcd.replace(0, None)
    etcd.start(0)
    etcd.wait(0)


def restored(etcd: Etcd, copy: Path, _prefix: str) -> None:
    etcd.kill(0)
    etcd.replace(0, copy)
    etcd.start(0)
    etcd.wait(0)


def keys_deleted(etcd: Etcd, _copy: Path, prefix: str) -> None:
    etcd.delete_below(f"{prefix}/")


@pytest.mark.parametrize("lose", [emptied, restored, keys_deleted])
def test_brokers_whose_store_loses_changes_stop_and_keep_all_folders(
    own_three_brokers: ClusterProcess,
    tmp_path: Path,
    lose: Callable[[Etcd, Path, str], None],
) -> None:
    cluster, etcd = own_three_brokers, own_three_brokers.etcd
    back_up(cluster, tmp_path / "copy")
    make_topic(cluster, "kept")
    write(cluster, "kept", "before")
    before = folders(cluster)

    lose(etcd, tmp_path / "copy", cluster.prefix)

    for each in cluster.brokers.values():
        assert each.wait() == EXIT_STORAGE, each.stderr()
        last = each.stderr().splitlines()[-1]
        assert last.startswith("broker: the metadata store has lost what this broker knows"), last
    assert folders(cluster) == before
    for each in cluster.brokers.values():
        each.launch()
        assert each.wait() == EXIT_DATA_DIR, each.stderr()
    assert folders(cluster) == before


def test_a_store_that_was_restored_while_brokers_were_stopped_is_refused_until_it_is_declared(
    own_three_brokers: ClusterProcess, tmp_path: Path
) -> None:
    cluster, etcd = own_three_brokers, own_three_brokers.etcd
    make_topic(cluster, "kept")
    written = write(cluster, "kept", "before")
    back_up(cluster, tmp_path / "copy")
    make_topic(cluster, "newer")
    written += write(cluster, "kept", "after")
    for broker_id in cluster.brokers:
        cluster.drain(broker_id)
    before = folders(cluster)

    restored(etcd, tmp_path / "copy", cluster.prefix)

    for each in cluster.brokers.values():
        each.launch()
        assert each.wait() == EXIT_DATA_DIR, each.stderr()
        assert "run `broker metadata bump-epochs`" in each.stderr().splitlines()[-1]
    assert folders(cluster) == before
    store = f"etcd://{etcd.endpoints[0]}/{cluster.prefix}"
    wait_until(lambda: not etcd.entries(f"{cluster.prefix}/broker/"), "leases of the copy end")
    assert main(["metadata", "bump-epochs", "--set", f"polylog.metadata.store={store}"]) == 0
    cluster.restart(*cluster.brokers)
    cluster.wait_for_leaders("kept", PARTITIONS)
    written += write(cluster, "kept", "restored")
    found = committed_values(
        cluster.bootstrap, "kept", at_least=len(written), partitions=PARTITIONS
    )
    assert sorted(found) == sorted(written)


def back_up(cluster: ClusterProcess, copy: Path) -> None:
    """Copy the data of etcd, which is stopped meanwhile; a lease may end before it is back."""
    for each in cluster.brokers.values():
        each.expected_complaints.append("lease lost")
    cluster.etcd.kill(0)
    cluster.etcd.copy(0, copy)
    cluster.etcd.start(0)
    cluster.etcd.wait(0)
    cluster.wait_for_brokers()


def make_topic(cluster: ClusterProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    cluster.wait_for_leaders(topic, PARTITIONS)


def folders(cluster: ClusterProcess) -> list[list[str]]:
    """Return the names of the partitions' folders of each broker, also of those put aside."""
    return [
        sorted(each.name for each in broker.data_dir.glob("*-*") if each.is_dir())
        for broker in cluster.brokers.values()
    ]
