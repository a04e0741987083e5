"""What a broker tells clients of its cluster: its brokers, its controller, who leads what.

A standalone broker is all of it. What a broker of several tells is in clustered_view.py.
"""

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from broker.core.cluster.records import NO_LEADER, Replicas
from broker.core.logs.log import Log
from broker.core.logs.partition import check_epoch
from broker.core.topics.lookup import log_of
from broker.core.topics.topic import Topic
from broker.model.listener import UNSECURED, ListenerConfig

RECOVERING = -1  # a leader epoch that is not known yet: clients keep the epoch that they have


class KnownBroker(NamedTuple):
    """A broker, at the address that clients use."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class Leadership(NamedTuple):
    """Who leads a partition, and who has copies of it."""

    leader: int  # or NO_LEADER
    leader_epoch: int
    replicas: Replicas
    isr: Replicas
    offline: Replicas = ()  # replicas whose broker is not registered
    elr: Replicas = ()  # eligible to lead although they are not in the ISR (KIP-966)
    adding: Replicas = ()  # by a reassignment that is under way; they are replicas, too
    removing: Replicas = ()  # likewise
    last_known: Replicas = ()  # the last members of ISR and ELR, who have lost records since

    @property
    def wanted(self) -> int:
        """How many replicas are to be in sync; as in Kafka, those being added are not yet."""
        return max(len(self.replicas) - len(self.adding), 1)


class ClusterView(Protocol):
    """The cluster of a broker."""

    @property
    def controller_id(self) -> int:
        """The broker that is the controller; -1 if there is none now."""

    @property
    def controller_epoch(self) -> int:
        """A number that grows with each controller; -1 if there is none now."""

    @property
    def revision(self) -> Hashable:
        """Another value after each change of what this describes."""

    @property
    def reader_racks(self) -> dict[int, bytes]:
        """The racks of other brokers from whose replicas consumers of that rack read (KIP-392)."""

    def brokers(
        self, host: str, port: int, listener: ListenerConfig = UNSECURED
    ) -> list[KnownBroker]:
        """Return all brokers, as who asks over a listener reaches them.

        Host and port are those of this broker for who asks.
        """

    def leadership(self, topic: Topic, partition: int) -> Leadership:
        """Return who leads a partition that the topic has."""


class Alone:
    """The cluster of a standalone broker."""

    revision = None
    controller_epoch = 1  # of the first election, which is the only one
    reader_racks: dict[int, bytes] = {}  # noqa: RUF012 (it stays empty)

    def __init__(self, broker_id: int, rack: str | None) -> None:
        """Keep what clients see of it."""
        self.controller_id = broker_id
        self._rack = rack
        self._replicas = (broker_id,)

    def brokers(
        self, host: str, port: int, _listener: ListenerConfig = UNSECURED
    ) -> list[KnownBroker]:
        """Return this broker."""
        return [KnownBroker(self.controller_id, host, port, self._rack)]

    def leadership(self, topic: Topic, partition: int) -> Leadership:
        """Return this broker as the leader, unless the partition's log is offline."""
        log = topic.log(partition)
        if log is None or log.is_offline:
            epoch = RECOVERING if log is None else log.leader_epoch
            return Leadership(NO_LEADER, epoch, self._replicas, (), self._replicas)
        epoch = RECOVERING if log.is_loading else log.leader_epoch
        return Leadership(self.controller_id, epoch, self._replicas, self._replicas)


def log_at_epoch(cluster: ClusterView, topic: Topic, partition: int, client_epoch: int) -> Log:
    """Return the log of one partition, for a client that knows a leader epoch of it (KIP-320).

    A partition that another broker leads has the epoch of this broker's image: a client that is
    behind it has to look for the leader again, and one that is ahead of it waits until this broker
    has heard of the election, too. -1: the client knows no epoch.
    """
    if topic.log(partition) is None and topic.has_partition(partition):
        check_epoch(cluster.leadership(topic, partition).leader_epoch, client_epoch)
    log = log_of(topic, partition)
    check_epoch(log.leader_epoch, client_epoch)
    return log
