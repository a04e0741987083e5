"""What a broker that is one of several tells clients of its cluster (cluster_view.py).

The image of the metadata tells; whether this broker itself can serve a partition that it leads, its
log tells.
"""

from collections.abc import Hashable

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, Replicas
from broker.core.cluster_view import RECOVERING, KnownBroker, Leadership
from broker.core.topics.topic import Topic
from broker.model.address import WILDCARDS
from broker.model.listener import UNSECURED, ListenerConfig

_KAFKA = "kafka"


class Clustered:
    """The cluster of a broker that is one of several."""

    def __init__(
        self,
        broker_id: int,
        rack: str | None,
        image: ClusterImage,
        *,
        reads_by_rack: bool = False,
    ) -> None:
        """Keep the image, which changes; the rack is that of this broker.

        With `reads_by_rack`, consumers read from a replica in their rack.
        """
        self._reads_by_rack = reads_by_rack
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

    @property
    def reader_racks(self) -> dict[int, bytes]:
        """The racks of other brokers from whose replicas consumers of that rack read.

        Consumers of this broker's rack read from this broker what it leads.
        """
        if not self._reads_by_rack:
            return {}
        found = self._image.brokers.items()
        racks = {each: broker.registration.rack for each, broker in found}
        return {
            each: rack.encode()
            for each, rack in racks.items()
            if rack and rack != self._rack and each != self._broker_id
        }

    def brokers(
        self, host: str, port: int, listener: ListenerConfig = UNSECURED
    ) -> list[KnownBroker]:
        """Return the registered brokers; if there are none, this one, which answers all the same.

        A client that is told of no broker has nobody left to ask: librdkafka gives up for good. Nor
        is it told of a broker that the next answer may not have: librdkafka loses what it has asked
        a broker that is not named any more, and may wait for that for minutes.
        """
        found = []
        for broker_id, broker in sorted(self._image.brokers.items()):
            registration = broker.registration
            address = (host, port)
            if broker_id != self._broker_id:
                endpoint = registration.endpoint(_KAFKA, listener) or registration.endpoints[0]
                # A worker of this host is where the client has found this one.
                address = host if endpoint.host in WILDCARDS else endpoint.host, endpoint.port
            found.append(KnownBroker(broker_id, *address, registration.rack))
        return found or [KnownBroker(self._broker_id, host, port, self._rack)]

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
        return Leadership(
            *(leader, state.leader_epoch, state.replicas, state.isr),
            *(self._offline(state.replicas), state.elr, state.adding, state.removing),
            last_known=state.last_known,
        )

    def _offline(self, replicas: Replicas) -> Replicas:
        """Return those whose broker is not registered."""
        brokers = self._image.brokers
        return tuple([each for each in replicas if each not in brokers])
