"""Compares the files of the replicas of a topic, once all brokers have stopped.

A replica may be in any of the directories of its broker.
"""

from tests.support.cluster_process import ClusterProcess


def differing(cluster: ClusterProcess, topic: str, partitions: int) -> list[str]:
    """Return the partitions whose replicas have not all the same bytes.

    A replica may begin its segments elsewhere than another one: all of them are compared as one.
    """
    found = []
    for partition in range(partitions):
        copies = {_content(cluster, each, f"{topic}-{partition}") for each in cluster.brokers}
        if len(copies) != 1:
            sizes = sorted(len(each) for each in copies)
            found.append(f"{topic}-{partition}: {sizes} bytes")
    return found


def _content(cluster: ClusterProcess, broker_id: int, folder: str) -> bytes:
    files = cluster.brokers[broker_id].data_dir.parent.glob(f"*/{folder}/*.log")
    return b"".join(each.read_bytes() for each in sorted(files))
