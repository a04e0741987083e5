"""A broker in a cluster: its store, what it knows, and the services that make it one of several."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from broker._native.log.partition_log import PartitionLog
from broker._native.log.topic_table import TopicTable
from broker._native.log.turn import Turn
from broker._native.wire.poller import Poller
from broker.core.broker_login import login_to_brokers
from broker.core.cluster.controller import ControllerSettings
from broker.core.cluster.handover import could_be_led_by_others
from broker.core.cluster.image import Delta
from broker.core.cluster.membership import Membership, Phase
from broker.core.cluster.records import NO_EPOCH, BrokerState, Endpoint, Registration
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.core.clustered_view import Clustered as View
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.configs.group_configs import GroupConfigs
from broker.core.dialing import Dialer
from broker.core.health import Health
from broker.core.health import Membership as State
from broker.core.links import Links
from broker.core.logs.log import TransactionalLog
from broker.core.metrics.remote_ends import RemoteEnds
from broker.core.partition_changes import PartitionChanges
from broker.core.peers import Peers
from broker.core.remote_appends import RemoteAppends
from broker.core.replica_ends import ReplicaEnds
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.steps import complete_in_steps
from broker.core.service import Service
from broker.core.topics.cluster_placing import Clustered as Placing
from broker.core.topics.roles import Role, role_of
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.core.topics.topics import Topics
from broker.core.transactions.other_brokers import OtherBrokers
from broker.core.transactions.records import TopicPartition
from broker.core.transactions.remote_admission import RemoteAdmission
from broker.core.transactions.remote_markers import RemoteMarkers
from broker.model.address import Address
from broker.model.clock import Clock, SystemClock, monotonic_ns
from broker.model.config import Config, inter_broker_listener
from broker.model.identifiers import id_to_text, random_id
from broker.model.limits import FORWARDING_CONNECTIONS_MAX
from broker.model.listener import ListenerConfig, SecurityProtocol
from broker.model.settings import RACK_AWARE
from broker.server.cluster.controller import Office
from broker.server.cluster.failed_logs import GivingUp
from broker.server.cluster.following import Following, FollowingConfigs
from broker.server.cluster.handover import HandingOver
from broker.server.cluster.intactness import Intactness
from broker.server.cluster.isr import InSync
from broker.server.cluster.logs import Logs
from broker.server.cluster.member import Member
from broker.server.cluster.metadata import ClusterMetadata
from broker.server.cluster.node import Node
from broker.server.cluster.nodes import Nodes
from broker.server.cluster.probing import Probing
from broker.server.cluster.replica_link import Fetching
from broker.server.cluster.replicating import Cutting, Replicating
from broker.server.descriptors import of_this_process
from broker.storage.checkpoints.intact import Intact
from broker.storage.metadata import MetaStore

_MARGIN_SECONDS = 1.0


class Directory(NamedTuple):
    """The data directory of a broker that shares it with none."""

    intact: Intact
    io_thread: IoThread

    async def lose(self) -> None:
        """Note that durable records are gone. StorageError: that is not durable."""
        await self.io_thread.run(self.intact.lost)


class _Known(NamedTuple):
    """What is made of this broker's topics and of its settings."""

    topics: Topics
    configs: BrokerConfigs
    logs: Logs
    settings: TopicSettings
    ends: ReplicaEnds | None  # None: no partition has several replicas


class Cluster:
    """One broker's part of a cluster."""

    def __init__(
        self,
        config: Config,
        store: MetaStore,
        metadata: ClusterMetadata,
        workers: Collection[int] = (),
        directory: Directory | None = None,
    ) -> None:
        """Join nothing yet; `workers` are all brokers of a data directory that is shared.

        None of them has replicas that others have, too: `directory` is that of any other broker.
        """
        self._directory = directory
        clock = SystemClock()
        self._workers = frozenset(workers)
        self._config = config
        self._broker_id = config.integer("node.id")
        registration = Registration(
            "",
            (),
            config.text_or_none("broker.rack"),
            socket.gethostname(),
            BrokerState.RUNNING,
        )
        process = f"{id_to_text(random_id())}-{os.getpid()}"
        self._membership = Membership(self._broker_id, registration, process, _MARGIN_SECONDS)
        session_seconds = config.integer("broker.session.timeout.ms") // 1000
        self.member = Member(store, self._membership, session_seconds)
        is_shared = bool(workers)
        self.node = Node(self._broker_id, store, metadata, self.member, clock, is_shared=is_shared)
        self.view = View(
            *(self._broker_id, config.text_or_none("broker.rack"), metadata.image),
            reads_by_rack=config.text("replica.selector.class") == RACK_AWARE,
        )
        self.placing = Placing(
            *(self._broker_id, metadata.image, clock.wall_ms, _random_start()), is_shared=is_shared
        )
        self._in_sync: InSync | None = None
        self._giving_up: GivingUp | None = None
        self._replicating: Replicating | None = None
        self._table: TopicTable | None = None
        self._known: _Known | None = None
        self.dialer = Dialer()
        listener = inter_broker_listener(config, config.listeners)
        assert listener is not None  # else the configuration is refused
        if listener.security.has_sasl:
            self.dialer.log_in_with(login_to_brokers(config, listener))
        self._listener = listener
        self._nodes = Nodes(metadata, clock.monotonic_ms, listener=listener)
        self.links = Links(self._nodes, _links_max, self.dialer, listener)
        address_of = partial(self._nodes.address_of, protocol="kafka")
        # An answer waits for those before it on its connection: requests that wait for the other
        # broker's disk have one of their own, as in Kafka.
        self._asking = Peers(address_of, self.dialer)
        self._writing = Peers(address_of, self.dialer)
        metadata.when_changed(self._brokers_changed)
        self._something = asyncio.Event()  # has changed: the image, or the phase of the member
        metadata.when_changed(lambda _: self._something.set())
        self.member.when_phase_changes(self._something.set)

    def is_named(self, topic: str, partition: int) -> bool:
        """Return whether an earlier run of this broker, which is starting, is named as a leader."""
        return self.member.is_starting and self.view.leader_of(topic, partition) == self._broker_id

    def other_brokers(
        self,
        find_log: Callable[[TopicPartition], TransactionalLog | None],
        partition_for: Callable[[str], int],
    ) -> OtherBrokers:
        """Return what transactions need of the other brokers.

        `find_log` returns the log of a partition that this broker leads; `partition_for` the
        partition of `__transaction_state` of a transactional id.
        """

        def coordinator_of(transactional_id: str) -> int | None:
            return self.view.leader_of(TRANSACTIONS_TOPIC, partition_for(transactional_id))

        def when_leaders_change(callback: Callable[[], None]) -> None:
            self.node.metadata.when_changed(lambda delta: callback() if delta.partitions else None)

        return OtherBrokers(
            RemoteMarkers(
                self._broker_id, lambda place: self.view.leader_of(*place), self._writing
            ),
            RemoteAdmission(self._broker_id, find_log, coordinator_of, self._asking),
            when_leaders_change,
        )

    def remote_appends(self) -> RemoteAppends:
        """Return what appends records of this broker to what others lead."""
        return RemoteAppends(self.view.leader_of, self._writing)

    def remote_ends(self, clock: Clock) -> RemoteEnds:
        """Return what looks up ends of partitions that others lead."""
        return RemoteEnds(self._broker_id, self.view.leader_of, self._asking, clock)

    def _brokers_changed(self, delta: Delta) -> None:
        if delta.brokers:
            self._name_brokers()
            known = self.node.metadata.image.brokers.keys()
            for each in (self._asking, self._writing, self.links):
                each.retain(known)
        if self._broker_id in delta.brokers:
            image, own = self.node.metadata.image, (self._broker_id, self.member.epoch)
            # An image that is older than the registration does not have it yet.
            is_known = image.is_registered(*own) or image.is_fenced(*own)
            if image.revision >= self.member.epoch != NO_EPOCH and not is_known:
                self.member.registration_missed()

    def disconnect(self) -> None:
        """Close the connections to other brokers; requests on them fail."""
        for each in (self._asking, self._writing, self.links):
            each.close()

    def role(self, topic_id: bytes, partition: int) -> Role | None:
        """Return what this broker is for a partition (Leadership).

        It leads nothing while it is fenced: whatever the image says, others may lead by now. When
        it is not any more, the member reports a change, and all topics are looked at again.
        """
        state = self.node.metadata.image.state(topic_id, partition)
        if state is None:
            return None
        return role_of(
            state,
            (self._broker_id, self.member.epoch),
            self._in_sync.pending((topic_id, partition)) if self._in_sync is not None else (),
            may_serve=self.member.may_serve,
        )

    def epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return the leader epoch with which this broker leads a partition, None if it does not."""
        role = self.role(topic_id, partition)
        return role.epoch if role is not None and role.leads else None

    def keeps(self, topic_id: bytes, partition: int) -> bool:
        """Return whether a partition's files belong here (Leadership)."""
        state = self.node.metadata.image.state(topic_id, partition)
        return state is None or self.node.is_shared or self._broker_id in state.replicas

    def log_failed(self, log: PartitionLog) -> None:
        """Give up what this broker is for a partition: its log is offline."""
        if self._giving_up is not None:
            self._giving_up.log_failed(log)

    def log_damaged(self, log: PartitionLog) -> None:
        """Repair a copy in which damage was found."""
        if self._replicating is not None:
            self._replicating.damaged(log)

    def know_brokers(self, table: TopicTable) -> None:
        """Let the native path know the brokers: their racks, and the epochs of their registrations.

        A follower of an older epoch is refused.
        """
        self._table = table
        self._name_brokers()

    def _name_brokers(self) -> None:
        if self._table is not None:
            brokers = self.node.metadata.image.brokers
            self._table.brokers = {each: broker.epoch for each, broker in brokers.items()}
            self._table.racks = self.view.reader_racks

    def know_topics(self, topics: Topics, configs: BrokerConfigs) -> None:
        """Keep the topics and the settings, before `services` and `partition_changes`."""
        logs, image = Logs(topics), self.node.metadata.image
        ends = None
        if not self.node.is_shared:
            ends = ReplicaEnds(self._broker_id, image, logs.held, self._asking)
        settings = TopicSettings(image, partial(_replica_settings, configs))
        self._known = _Known(topics, configs, logs, settings, ends)

    def advertise(self, found: Iterable[tuple[Address, ListenerConfig]]) -> None:
        """Set the addresses that others see, before `run` of the member."""
        self._membership.advertise(tuple([_endpoint(*each) for each in found]))

    def fence(self, turn: Turn) -> None:
        """Let the logs accept and acknowledge writes only while this broker is not fenced."""
        turn.serves_until_ns = 0
        self.member.when_bound_moves(partial(self._move_bound, turn))

    def _move_bound(self, turn: Turn, fenced_from: float) -> None:
        if self.member.epoch != NO_EPOCH:
            # Of a later registration: the logs that it had led before have to be elected again.
            turn.broker_epoch = self.member.epoch
        if monotonic_ns() >= turn.serves_until_ns:
            turn.unfenced_ms = turn.steady_ms
        turn.serves_until_ns = int(fenced_from * 1e9)  # rounded down: never later than it is

    def services(
        self,
        cutting: Cutting,
        native: tuple[Turn, Poller],
        group_configs: GroupConfigs,
        until_loaded: Callable[[], Awaitable[None]],
    ) -> tuple[Service, ...]:
        """Return what has to run, in order.

        Args:
            cutting: truncates logs that follow.
            native: what drives all logs and all connections.
            group_configs: the configurations of groups.
            until_loaded: waits until the logs of the start are loaded.
        """
        node, known = self.node, self._known
        assert known is not None
        following = self._nodes.following = Following(node, known.topics)
        return (
            node.metadata,
            following,
            FollowingConfigs(node.metadata, known.configs, group_configs),
            Office(
                *(node, partial(self._controller_settings, known.configs), self._workers),
                known.ends,
            ),
            HandingOver(node, known.logs),
            *(() if node.is_shared else self._of_replicas(known, cutting, native)),
            *self._intactness(until_loaded),
            self.member,
        )

    def _of_replicas(
        self, known: _Known, cutting: Cutting, native: tuple[Turn, Poller]
    ) -> tuple[Service, ...]:
        """Return what a broker needs whose partitions may have copies on others.

        Workers of one host have none: a log that one of them has open is led by no other one, and
        that another one leads does not repair it.
        """
        node, logs, settings = self.node, known.logs, known.settings
        lag_ms = self._config.integer("replica.lag.time.max.ms")
        self._in_sync = InSync(node, logs.led, native[0], settings, lag_ms)
        self._giving_up = GivingUp(node, logs.held, settings)
        probing = Probing(node, self._listener, self.dialer)
        _throttle(native[0], known.configs.current)
        known.configs.when_altered(partial(_throttle, native[0]))
        address_of = partial(self._nodes.address_of, protocol="kafka")
        fetching = Fetching.by(self._config, native, address_of, probing.suspect, self.dialer)
        lose = None if self._directory is None else self._directory.lose
        self._replicating = Replicating(node, known.topics, cutting, fetching, lose)
        is_fencing_early = self._config.flag("polylog.early.fencing.enable")
        return (
            self._in_sync,
            self._giving_up,
            *((probing,) if is_fencing_early else ()),
            self._replicating,
        )

    def _intactness(self, until_loaded: Callable[[], Awaitable[None]]) -> tuple[Service, ...]:
        if self._directory is None:
            return ()
        intact, io_thread = self._directory
        intactness = Intactness(intact, self._membership, self.member, io_thread)
        self.member.join_after(lambda: intactness.recovered(until_loaded))
        return (intactness,)

    async def leave(self, seconds: float) -> None:
        """Depart: others lead what this broker has led, if they can, within this time."""
        is_member = self.member.phase is not Phase.JOINING and self.member.epoch != NO_EPOCH
        if is_member and self._config.flag("controlled.shutdown.enable"):
            self.member.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._handed_over()
        self.member.leave()

    async def close(self) -> None:
        """Unregister and close the store, after everything else has stopped."""
        await self.member.release()
        await self.node.store.close()

    def health(self) -> Health:
        """Return what tells whether this broker is ready as a member of its cluster."""
        health = Health()
        health.membership = self._state_of_membership
        health.is_store_reachable = lambda: self.node.metadata.is_followed and self.member.may_serve
        return health

    def _state_of_membership(self) -> State:
        if self.member.phase not in (Phase.JOINING, Phase.ACTIVE):
            return State.LEAVING
        if not self.node.metadata.image.is_registered(self._broker_id, self.member.epoch):
            return State.JOINING
        return State.JOINED if self.member.may_serve else State.FENCED

    async def joined(self) -> None:
        """Wait until this broker, all workers that share its data and a controller are known."""
        await self._until(self._has_joined)

    def _has_joined(self) -> bool:
        image = self.node.metadata.image
        known = self._workers <= image.brokers.keys() and image.controller is not None
        return known and image.is_registered(self._broker_id, self.member.epoch)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; one caller at a time."""
        while not condition():
            self._something.clear()
            await self._something.wait()

    async def _handed_over(self) -> None:
        """Wait while this broker leads a partition that another one could lead."""
        while await self._must_wait():
            await self._something.wait()

    async def _must_wait(self) -> bool:
        self._something.clear()  # what changes during the look is looked at again
        image = self.node.metadata.image
        if self.node.is_shared:
            others = [each for number, each in image.brokers.items() if number != self._broker_id]
            is_alone = all(each.is_draining for each in others)
            return self._broker_id in image.counts.leaders and not is_alone
        return await complete_in_steps(could_be_led_by_others(image, self._broker_id))

    def partition_changes(self) -> PartitionChanges:
        """Return what changes partitions when an operator asks for it."""
        node, known = self.node, self._known
        assert known is not None
        return PartitionChanges(
            *(node.metadata, self._broker_id, known.settings, known.ends), is_shared=node.is_shared
        )

    def _controller_settings(self, configs: BrokerConfigs) -> ControllerSettings:
        config = configs.current

        return ControllerSettings(
            is_shared=self.node.is_shared,
            is_balancing=config.flag("auto.leader.rebalance.enable"),
            imbalance_interval_ms=config.integer("leader.imbalance.check.interval.seconds") * 1000,
            imbalance_percentage=config.integer("leader.imbalance.per.broker.percentage"),
            defaults=_replica_settings(configs),
            internal_factors=(
                (OFFSETS_TOPIC, config.integer("offsets.topic.replication.factor")),
                (
                    TRANSACTIONS_TOPIC,
                    config.integer("transaction.state.log.replication.factor"),
                ),
            ),
        )


def _replica_settings(configs: BrokerConfigs) -> ReplicaSettings:
    """Return what elections and ISRs go by in topics without own settings."""
    return ReplicaSettings(
        configs.current.integer("min.insync.replicas"),
        configs.current.flag("unclean.leader.election.enable"),
    )


def _throttle(turn: Turn, config: Config) -> None:
    """Set how much replicas that are not in sync may copy."""
    turn.leader_throttle.rate = config.integer("leader.replication.throttled.rate")
    turn.follower_throttle.rate = config.integer("follower.replication.throttled.rate")


def _links_max() -> int:
    return min(FORWARDING_CONNECTIONS_MAX, of_this_process().connections // 2)


def _random_start() -> int:
    return int.from_bytes(random_id()[:2], "big")


def _endpoint(address: Address, listener: ListenerConfig) -> Endpoint:
    if listener.security is SecurityProtocol.PLAINTEXT and address.protocol:
        # Restricted to a wire protocol, which is its name but no other place for clients.
        return Endpoint(address.protocol, address.host, address.port)
    named = listener.name, listener.security.name
    return Endpoint(address.protocol, address.host, address.port, *named)
