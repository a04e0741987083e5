"""What every driver of a broker in a cluster uses."""

from typing import NamedTuple

from broker.model.clock import Clock
from broker.server.cluster.member import Member
from broker.server.cluster.metadata import ClusterMetadata
from broker.storage.metadata import MetaStore


class Node(NamedTuple):
    """This broker, its store and what it knows of the cluster."""

    broker_id: int
    store: MetaStore
    metadata: ClusterMetadata
    member: Member
    clock: Clock
    is_shared: bool  # all brokers share one data directory
