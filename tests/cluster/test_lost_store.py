"""The metadata store loses changes while brokers run: emptied, restored from a backup, or deleted.

What it lacks was not deleted by anybody. The brokers stop, with a sentence, and touch no folder.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.test_restarts import PARTITIONS, TIMEOUT_S, write
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
    etcd.kill(0)
    etcd.copy(0, tmp_path / "copy")
    etcd.start(0)
    etcd.wait(0)
    make_topic(cluster, "kept")
    write(cluster, "kept", "before")
    before = folders(cluster)

    lose(etcd, tmp_path / "copy", cluster.prefix)

    for each in cluster.brokers.values():
        assert each.wait() == EXIT_STORAGE, each.stderr()
        last = each.stderr().splitlines()[-1]
        assert last.startswith("broker: the metadata store has lost what this broker knows"), last
    assert folders(cluster) == before
    if lose is not restored:
        for each in cluster.brokers.values():
            each.launch()
            assert each.wait() == EXIT_DATA_DIR, each.stderr()
        assert folders(cluster) == before


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
