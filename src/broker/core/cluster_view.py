"""What a broker tells clients of its cluster: its brokers, its controller, who leads what.

A standalone broker is all of it. In a cluster the image of the metadata tells; whether this broker
itself can serve a partition that it leads, its log tells.
"""

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, Replicas
from broker.core.logs.log import Log
from broker.core.logs.partition import check_epoch
from broker.core.topics.lookup import log_of
from broker.core.topics.topic import Topic
from broker.model.address import WILDCARDS

_KAFKA = "kafka"
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

    def brokers(self, host: str, port: int) -> list[KnownBroker]:
        """Return all brokers; host and port are those of this broker for who asks."""

    def leadership(self, topic: Topic, partition: int) -> Leadership:
        """Return who leads a partition that the topic has."""


class Alone:
    """The cluster of a standalone broker."""

    revision = None
    controller_epoch = 1  # of the first election, which is the only one

    def __init__(self, broker_id: int, rack: str | None) -> None:
        """Keep what clients see of it."""
        self.controller_id = broker_id
        self._rack = rack
        self._replicas = (broker_id,)

    def brokers(self, host: str, port: int) -> list[KnownBroker]:
        """Return this broker."""
        return [KnownBroker(self.controller_id, host, port, self._rack)]

    def leadership(self, topic: Topic, partition: int) -> Leadership:
        """Return this broker as the leader, unless the partition's log is offline."""
        log = topic.log(partition)
        if log is None or log.is_offline:
            epoch = RECOVERING if log is None else log.leader_epoch
            return Leadership(NO_LEADER, epoch, self._replicas, ())
        epoch = RECOVERING if log.is_loading else log.leader_epoch
        return Leadership(self.controller_id, epoch, self._replicas, self._replicas)


class Clustered:
    """The cluster of a broker that is one of several."""

    def __init__(self, broker_id: int, rack: str | None, image: ClusterImage) -> None:
        """Keep the image, which changes; the rack is that of this broker."""
        self._broker_id = broker_id
        self._rack = rack
        self._image = image

    @property
    def controller_id(self) -> int:
        """The broker that holds the controller's office."""
        in_office = self._image.controller
        return NO_LEADER if in_office is None else in_office.claim.broker

    @property
    def controller_epoch(self) -> int:
        """The controller epoch."""
        in_office = self._image.controller
        return -1 if in_office is None else in_office.epoch

    @property
    def revision(self) -> Hashable:
        """The revision of the image."""
        return self._image.revision

    def brokers(self, host: str, port: int) -> list[KnownBroker]:
        """Return the registered brokers, and this one, which answers before it is registered.

        A client that is told of no broker has nobody left to ask: librdkafka gives up for good.
        """
        found = []
        for broker_id, broker in sorted(self._image.brokers.items()):
            registration = broker.registration
            address = (host, port)
            if broker_id != self._broker_id:
                endpoint = registration.endpoint(_KAFKA) or registration.endpoints[0]
                # A worker of this host is where the client has found this one.
                address = host if endpoint.host in WILDCARDS else endpoint.host, endpoint.port
            found.append(KnownBroker(broker_id, *address, registration.rack))
        if self._broker_id not in self._image.brokers:
            found.append(KnownBroker(self._broker_id, host, port, self._rack))
            found.sort()
        return found

    def leader_of(self, name: str, partition: int) -> int | None:
        """Return the leader of a partition by the image alone: NO_LEADER while there is none.

        None: the metadata has no such partition. What this broker has registered may be behind.
        """
        topic = self._image.topic(name)
        state = None if topic is None else self._image.state(topic.record.topic_id, partition)
        if state is None:
            return None
        is_there = self._image.is_registered(state.leader, state.broker_epoch)
        return state.leader if is_there else NO_LEADER

    def leadership(self, topic: Topic, partition: int) -> Leadership:
        """Return what the image has; no leader if its incarnation is gone."""
        state = self._image.state(topic.topic_id, partition)
        if state is None:
            return Leadership(NO_LEADER, RECOVERING, (), ())
        leader = state.leader
        if not self._image.is_registered(leader, state.broker_epoch):
            leader = NO_LEADER
        elif leader == self._broker_id:
            log = topic.log(partition)
            leader = NO_LEADER if log is not None and log.is_offline else leader
        return Leadership(leader, state.leader_epoch, state.replicas, state.isr)


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
