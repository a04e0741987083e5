"""Makes the parts of a broker, in layers: each uses those before it.

    Storage       the data directory, its threads and small files, the configuration in it
    Logs          native logs, their recovery, topics
    Broker        coordinators, checkpoints and what else handlers use (core/broker.py)
    protocols     one object of each, attached to the broker
    Maintenance   retention, compaction, scrubbing, levels of the disk
    Poller        sockets, with the native path of each protocol

Nothing is started here: `services_of` returns what starts, in order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.topic_table import TopicTable
from broker._native.log.turn import Turn
from broker._native.wire.connection import Connection, NativeProtocol
from broker._native.wire.poller import Poller
from broker.codec import compression
from broker.core.broker import Broker
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.configs.group_configs import GroupConfigs
from broker.core.health import Health
from broker.core.logs.log_loader import LogLoader
from broker.core.logs.partition import LogWaiters
from broker.core.logs.recompression import Recompression
from broker.core.maintenance.cleaner import Cleaner
from broker.core.maintenance.cleaner import Settings as CleanerSettings
from broker.core.maintenance.disk_space import Level
from broker.core.maintenance.retention import Retention
from broker.core.maintenance.scrub import Scrub
from broker.core.maintenance.scrub import Settings as ScrubSettings
from broker.core.metrics.counters import Counters
from broker.core.metrics.measured import Measured
from broker.core.producer_ids import ProducerIds
from broker.core.scheduling.admission import Admission
from broker.core.scheduling.response_cache import ResponseCache
from broker.core.scheduling.tasks import Tasks
from broker.core.security import Security
from broker.core.security.quotas.connections import ConnectionLimits
from broker.core.service import Service
from broker.core.topics.deletion import Deletions
from broker.core.topics.local_topics import LocalTopics
from broker.core.topics.topics import Topics
from broker.model import limits
from broker.model.clock import Clock, SystemClock
from broker.model.config import Config
from broker.model.guarded_clock import MachineClock
from broker.protocols.base import Additions, WireProtocol
from broker.protocols.registry import PROTOCOLS, log_flags
from broker.server.checkpoints import Checkpoints
from broker.server.clock_watch import ClockWatch
from broker.server.connections import Connections
from broker.server.coordinators import Coordinators
from broker.server.descriptors import Shares
from broker.server.disk_watch import DiskWatch
from broker.server.housekeeping import Housekeeping, LogEvents
from broker.server.limiting import count_closed, limit_connections, make_quotas
from broker.server.loop import Loop
from broker.server.measuring import make_pages
from broker.server.opening import Opened
from broker.server.partition_logs import NativeLogs
from broker.server.requests import Requests
from broker.server.securing import make_security
from broker.server.services import Part, Services
from broker.server.small_files import SmallFiles
from broker.server.stall_watch import StallWatch
from broker.server.waiting_logins import WaitingLogins
from broker.storage.files.deletion import DeletedFolders
from broker.storage.log_dir import LogDir
from broker.storage.recovery.partitions import Partitions

if TYPE_CHECKING:
    from broker.core.maintenance.moves import Moves
    from broker.core.security.audit import Audit
    from broker.core.session import Session
    from broker.server.cluster.cluster import Cluster


class Variant(NamedTuple):
    """What a broker is made with; `broker.testing` gives one whose clock and requests tests steer.

    Attributes:
        clock: the machine's.
        protocols: in the order in which they are offered a connection.
        services: returns what starts after all other services of a composition.
    """

    clock: MachineClock = SystemClock()
    protocols: Sequence[Callable[[], WireProtocol]] = PROTOCOLS
    services: "Callable[[Composition], Iterable[Service]]" = lambda _: ()


class Storage(NamedTuple):
    """The data directory."""

    log_dir: LogDir
    opened: Opened
    small_files: SmallFiles
    configs: BrokerConfigs
    group_configs: GroupConfigs
    clock_watch: ClockWatch


class Logs(NamedTuple):
    """The logs of all topics."""

    turn: Turn
    commit: CommitThread
    table: TopicTable
    partitions: Partitions
    loader: LogLoader[PartitionLog]
    deletions: Deletions
    topics: Topics
    files: NativeLogs


class Maintenance(NamedTuple):
    """Periodic work on logs."""

    retention: Retention
    cleaner: Cleaner
    scrub: Scrub
    disk_watch: DiskWatch


def open_storage(
    config: Config,
    log_dir: LogDir,
    opened: Opened,
    when_lost: Callable[[], None],
    clock: MachineClock,
) -> Storage:
    """Read the configuration; `when_lost` is called when the data directory has failed."""
    small_files = SmallFiles(log_dir, opened.io_thread, when_lost)
    configs = BrokerConfigs(config, opened.metadata)
    confirmed_ms = configs.current.integer("polylog.clock.confirmed.ms")
    clock_watch = ClockWatch(log_dir.own, clock, small_files.write, confirmed_ms)
    configs.when_altered(
        lambda altered: clock_watch.clock.confirm(altered.integer("polylog.clock.confirmed.ms"))
    )
    group_configs = GroupConfigs(lambda: configs.current, opened.metadata)
    return Storage(log_dir, opened, small_files, configs, group_configs, clock_watch)


def make_logs(storage: Storage, descriptors: Shares, loop: Loop) -> Logs:
    """Make the native logs' parts and topics; no log is opened yet."""
    config, path, opened = storage.configs.current, storage.log_dir.path, storage.opened
    commit = CommitThread(limits.SYNC_THREADS)
    turn = Turn(commit)
    turn.files.count_max = descriptors.segments
    turn.decompress = compression.decompress_into
    turn.decompress_sent = compression.decompress_sent_into
    _bound_batches(turn, config)
    storage.configs.when_altered(partial(_bound_batches, turn))
    partitions = Partitions(
        path,
        storage.opened.epochs,
        turn,
        config.integer("producer.id.expiration.ms"),
        log_flags,
        opened.folders,
        opened.when_lost,
        storage.log_dir.directories,
    )
    loader = LogLoader(loop, partitions)
    shared = opened.folders
    if shared is None:
        folders = DeletedFolders(path, others=list(storage.log_dir.directories)[1:])
    else:
        folders = DeletedFolders(path, shared.held)
    deletions = Deletions(opened.metadata, opened.io_thread, folders, opened.placing)
    table = TopicTable()
    logs = NativeLogs(partitions, loader, turn, opened.io_thread, deletions)
    local = LocalTopics(config, opened.metadata, table, logs, deletions, opened.leadership)
    topics = Topics(opened.metadata, local, logs, opened.placing)
    loader.before_ready(topics.prepare)
    loader.when_ready(topics.is_ready)
    storage.configs.inherited_by(topics.alter_defaults)
    return Logs(turn, commit, table, partitions, loader, deletions, topics, logs)


def make_broker(
    storage: Storage,
    logs: Logs,
    coordinators: Coordinators,
    checkpoints: Checkpoints,
    security: Security,
    connections: Callable[[], Sequence[Connection]],
) -> Broker:
    """Make what handlers use."""
    cluster = storage.opened.cluster
    return Broker(
        configs=storage.configs,
        clock=storage.clock_watch.clock,
        cluster_id=storage.log_dir.cluster_id,
        io_thread=storage.opened.io_thread,
        topics=logs.topics,
        log_waiters=LogWaiters(),
        groups=coordinators.groups,
        transactions=coordinators.transactions,
        producer_ids=ProducerIds(storage.opened.metadata),
        recompression=Recompression(),
        persist_log_starts=checkpoints.persist_log_starts,
        group_configs=storage.group_configs,
        metadata=storage.opened.metadata,
        cluster=storage.opened.view,
        appends=Tasks(limits.DISCONNECTED_APPENDS_BYTES_MAX),
        long_answers=Admission(limits.LONG_ANSWERS_BYTES_MAX, 0),
        response_cache=ResponseCache(
            lambda: (logs.topics.revision, storage.opened.view.revision),
            limits.RESPONSE_CACHE_BYTES_MAX,
        ),
        links=None if cluster is None else cluster.links,
        partition_changes=None if cluster is None else cluster.partition_changes(),
        security=security,
        metrics=Measured(
            None if cluster is None else cluster.remote_ends(storage.clock_watch.clock)
        ),
        health=Health() if cluster is None else cluster.health(),
        connections=connections,
        more_directories=storage.log_dir.directories,
        moves=_moves(storage, logs),
    )


def _moves(storage: Storage, logs: Logs) -> "Moves | None":
    """Make the moves between directories, if there are several."""
    directories, configs = storage.log_dir.directories, storage.configs
    if len(list(directories)) == 1:
        return None
    from broker.core.maintenance.moves import Moves  # noqa: PLC0415 - most brokers have one

    moves = Moves(
        directories,
        logs.topics,
        storage.opened.io_thread,
        storage.clock_watch.clock,
        logs.partitions.switch,
        logs.deletions.remove,
        lambda: configs.current.integer("replica.alter.log.dirs.io.max.bytes.per.second"),
    )
    logs.loader.when_ready(moves.loaded)
    return moves


def attach_protocols(
    broker: Broker,
    small_files: SmallFiles,
    checkpoints: Checkpoints,
    protocols: Sequence[Callable[[], WireProtocol]],
) -> dict[WireProtocol, Additions]:
    """Make every protocol, in the order of the list; return what each adds to the broker."""
    attached = {}
    for make in protocols:
        protocol = make()
        added = attached[protocol] = protocol.attach(broker, small_files)
        if added.topic_deleted is not None:
            broker.topics.when_deleted(added.topic_deleted)
        checkpoints.cover_first(added.derived_state)
        if broker.moves is not None:
            broker.moves.take_along(added.moving_state)
    return attached


def make_maintenance(
    storage: Storage, logs: Logs, checkpoints: Checkpoints, broker: Broker
) -> Maintenance:
    """Make the periodic work on logs; it follows the configuration and the level of the disk."""
    configs, clock, topics = storage.configs, storage.clock_watch.clock, logs.topics
    path, write = storage.log_dir.own, storage.small_files.write
    retention = Retention(topics.logs, clock, write, checkpoints.save_log_starts)
    settings = _cleaner_settings(configs.current)
    cleaner = Cleaner(topics.logs, clock, write, checkpoints.write, path, settings)
    configs.when_altered(lambda altered: cleaner.alter_settings(_cleaner_settings(altered)))
    topics.when_deleted(cleaner.topic_deleted)
    logs.files.when_removed(cleaner.partition_removed)
    logs.files.before_release(cleaner.leave)
    logs.files.before_cut(cleaner.cut)
    scrub = Scrub(
        topics.logs,
        clock,
        storage.opened.io_thread,
        write,
        cleaner.is_swapping,
        lambda: _scrub_settings(configs.current),
    )
    if storage.opened.cluster is not None:
        scrub.when_damaged(storage.opened.cluster.log_damaged)
    logs.files.before_cut(scrub.cut)
    logs.loader.when_ready(scrub.loaded)
    broker.health.damaged = scrub.damaged
    if broker.moves is not None:
        broker.moves.around(cleaner.rest, cleaner.resume)

    def apply_level(level: Level) -> None:
        """Free disk space sooner, and pause compaction, as the level of the disk asks."""
        retention.is_urgent = level >= Level.TRIM
        logs.deletions.set_urgent(is_urgent=level >= Level.TRIM)
        cleaner.is_paused = level >= Level.REFUSE

    disk_watch = DiskWatch(
        path,
        logs.turn,
        storage.opened.io_thread,
        apply_level,
        broker.health,
        logs.partitions.other_disks,
    )
    return Maintenance(retention, cleaner, scrub, disk_watch)


def make_poller(
    config: Config,
    logs: Logs,
    protocols: Iterable[WireProtocol],
    loop: Loop,
    limited: tuple[ConnectionLimits, WaitingLogins],
    measure: Callable[[Poller, Mapping[str, NativeProtocol], Requests], Counters],
) -> Poller:
    """Make the native side of all connections, whose ends are told to `limited`.

    `measure` is told of its parts, and returns what counts the ends, too.
    """
    connection_limits, waiting_logins = limited
    poller = Poller(logs.turn, logs.table)
    native_protocols = {each.name: each.native_protocol(config) for each in protocols}
    requests = Requests(loop)

    def closed(connection: Connection, reason: str) -> None:
        count_closed(connection_limits, connection)
        counters.closed.add(cast("Session", connection.session).listener.name, reason)
        waiting_logins.remove(connection)
        requests.closed(connection, reason)

    counters = measure(poller, native_protocols, requests)
    poller.serve_with(native_protocols, requests.dispatch, closed)
    logs.turn.schedule = partial(loop.call_next, poller.end)
    return poller


class Composition(NamedTuple):
    """All parts of a broker."""

    storage: Storage
    logs: Logs
    coordinators: Coordinators
    checkpoints: Checkpoints
    broker: Broker
    protocols: Mapping[WireProtocol, Additions]
    maintenance: Maintenance
    poller: Poller
    connection_limits: ConnectionLimits
    waiting_logins: WaitingLogins
    guards: Sequence[Service]  # services of access control

    async def before_serving(self) -> None:
        """Do what protocols need before the first connection, one after another."""
        for added in self.protocols.values():
            if added.before_serving is not None:
                await added.before_serving()


def compose(  # noqa: PLR0913, PLR0917 - what the process has before any part
    config: Config,
    log_dir: LogDir,
    opened: Opened,
    loop: Loop,
    descriptors: Shares,
    when_lost: Callable[[], None],
    variant: Variant,
) -> Composition:
    """Make all parts; `when_lost` is called when the data directory has failed.

    Raises StorageError when the metadata store or a checkpoint cannot be read.
    """
    storage = open_storage(config, log_dir, opened, when_lost, variant.clock)
    config, small_files = storage.configs.current, storage.small_files
    logs = make_logs(storage, descriptors, loop)
    if opened.cluster is not None:
        opened.cluster.fence(logs.turn)
        opened.cluster.know_brokers(logs.table)
        opened.cluster.know_topics(logs.topics, storage.configs)
    clock = storage.clock_watch.clock
    cluster = opened.cluster
    coordinators = Coordinators(
        config,
        loop,
        clock,
        logs.topics,
        storage.group_configs,
        *(() if cluster is None else (cluster.other_brokers, cluster.is_named)),
    )
    logs.loader.when_ready(coordinators.log_is_ready)
    checkpoints = Checkpoints(
        logs.partitions, logs.topics, storage.opened.io_thread, small_files.write
    )
    audit, guards = _audit(config, log_dir, logs.topics, clock, cluster)
    quotas = make_quotas(config, opened.metadata, clock)
    security = make_security(config, opened.metadata, clock, logs.table)._replace(
        audit=audit, quotas=quotas
    )
    broker = make_broker(
        storage,
        logs,
        coordinators,
        checkpoints,
        security,
        lambda: list(poller.connections.values()),
    )
    protocols = attach_protocols(broker, small_files, checkpoints, variant.protocols)
    maintenance = make_maintenance(storage, logs, checkpoints, broker)
    connection_limits = limit_connections(storage.configs, quotas, clock)
    waiting_logins = WaitingLogins(loop)
    measure = partial(make_pages, broker, maintenance.disk_watch, clock)
    limited = connection_limits, waiting_logins
    poller = make_poller(config, logs, protocols, loop, limited, measure)
    poller.authorizes = security.authorizer is not None
    quotas.limit(poller.limit_clients)
    return Composition(
        *(storage, logs, coordinators, checkpoints, broker, protocols, maintenance, poller),
        *(connection_limits, waiting_logins, guards),
    )


def _audit(
    config: Config, log_dir: LogDir, topics: Topics, clock: Clock, cluster: "Cluster | None"
) -> tuple["Audit | None", Sequence[Service]]:
    """Make the audit, and what writes it, if there is one."""
    if not config.words("polylog.audit.events"):
        return None, ()
    from broker.server.auditing import make_audit  # noqa: PLC0415 - hashes cost a start 10 ms

    others = None if cluster is None else cluster.remote_appends()
    return make_audit(config, log_dir, topics, clock, others)


def services_of(parts: Composition, loop: Loop, more: Iterable[Service] = ()) -> Services:
    """Return what starts, runs and stops, each after what it uses; `more` comes last."""
    storage, logs, coordinators, checkpoints, broker, protocols, maintenance, poller, *_ = parts
    config, small_files = storage.configs.current, storage.small_files
    cluster = storage.opened.cluster
    loading: list[PartitionLog] = []  # from the start of topics to that of the loader
    connections = Connections(poller, storage.clock_watch.clock, loop)
    events = LogEvents(logs.turn, logs.partitions, small_files, coordinators, maintenance.scrub)
    if cluster is not None:
        from broker.server.cluster.failed_directories import (  # noqa: PLC0415 - only replicas need it
            FailedDirectories,
        )

        failed = FailedDirectories(
            storage.log_dir.directories, storage.opened.io_thread, logs.topics.logs
        )
        events = events._replace(when_failed=cluster.log_failed, look_further=failed.logs_failed)
        logs.loader.before_ready(failed.loaded)
    check_ms = config.integer("log.retention.check.interval.ms")
    clean = maintenance.cleaner.run if config.flag("log.cleaner.enable") else None

    def load_logs() -> None:
        logs.loader.start(loading, limits.RECOVERY_THREADS)
        loading.clear()

    def remove_strays() -> None:
        moved = logs.partitions.rename_strays(
            logs.topics.id_of_partition, storage.opened.leadership.keeps
        )
        logs.deletions.remove(moved)

    return Services(
        (
            StallWatch(config.integer("polylog.stall.seconds"), loop.time),
            Part("metadata store", stop=storage.opened.close),
            Part("partitions", stop=logs.partitions.close),
            maintenance.disk_watch,  # its stop frees the reserve, for what is still to be written
            Part("I/O thread", stop=storage.opened.io_thread.stop),
            Part("recompression", stop=broker.recompression.stop),
            *_security_services(broker.security),
            Part("sync threads", stop=partial(_end_syncs, logs)),
            Part("appends", stop=broker.appends.stop),
            Part("topics", start=lambda: loading.extend(logs.topics.load())),
            *parts.guards,
            Part("connections", start=connections.open, stop=connections.close),
            *(() if cluster is None else (Part("peers", stop=cluster.disconnect),)),
            Part("coordinators", start=coordinators.expect, stop=coordinators.close),
            storage.clock_watch,
            *(service for added in protocols.values() for service in added.services),
            Part("deletions", start=remove_strays, stop=logs.deletions.stop),
            Part("log loader", start=load_logs, stop=logs.loader.stop),
            Part("replies", stop=connections.drain),
            *_cluster_services(cluster, logs, storage, poller),
            *_remote_ends(broker),
            *_exports(broker),
            Housekeeping(storage.configs, poller, logs.turn, events),
            Part("checkpoints", run=checkpoints.run),
            Part("retention", run=partial(maintenance.retention.run, check_ms)),
            Part("digests", run=maintenance.scrub.follow),
            Part("scrub", run=maintenance.scrub.run),
            Part("cleaner", run=clean),
            *(() if broker.moves is None else (broker.moves,)),
            *more,
        )
    )


def _security_services(security: Security) -> Iterable[Service]:
    if security.logins is not None:
        yield Part("logins", stop=security.logins.work.stop)
    if security.tokens is not None:
        yield Part("delegation tokens", run=security.tokens.run)


def _cluster_services(
    cluster: "Cluster | None", logs: Logs, storage: Storage, poller: Poller
) -> Iterable[Service]:
    if cluster is None:
        return ()
    native, until_loaded = (logs.turn, poller), logs.loader.until_all_loaded
    return cluster.services(logs.files, native, storage.group_configs, until_loaded)


def _remote_ends(broker: Broker) -> Iterable[Service]:
    remote = broker.metrics.remote_ends
    return () if remote is None else (Part("ends of remote logs", run=remote.run),)


def _exports(broker: Broker) -> Iterable[Service]:
    config, measured = broker.config, broker.metrics
    if not config.text_or_none("polylog.otlp.endpoint"):
        return ()
    from broker.server.otlp.exporting import OtlpExport  # noqa: PLC0415 - rarely used

    assert measured.pages is not None
    counted = measured.counters.exports
    return (OtlpExport(config, measured.pages, counted, broker.clock, broker.cluster_id),)


def _end_syncs(logs: Logs) -> None:
    logs.commit.stop()
    logs.turn.poll_synced()


def _bound_batches(turn: Turn, config: Config) -> None:
    turn.decompressed_bytes_max = limits.decompressed_bytes_max(config.integer("message.max.bytes"))


def _cleaner_settings(config: Config) -> CleanerSettings:
    return CleanerSettings(
        config.integer("log.cleaner.backoff.ms"), config.integer("log.cleaner.dedupe.buffer.size")
    )


def _scrub_settings(config: Config) -> ScrubSettings:
    return ScrubSettings(
        config.integer("polylog.scrub.interval.ms"),
        config.integer("polylog.scrub.bytes.per.second"),
    )
