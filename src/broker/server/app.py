"""The broker process: makes all parts, runs until it is asked to stop, closes them in order."""

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.topic_table import TopicTable
from broker._native.log.turn import BROKEN, OFFLINE, ROLLED, Turn
from broker._native.protocols.cursus.batch import SEQUENCE, sequence_of
from broker._native.protocols.kafka.fetch import FetchSessions
from broker._native.wire.poller import Poller
from broker.codec import compression
from broker.core.broker import Broker
from broker.core.configs.broker_configs import BrokerConfigs, Commit
from broker.core.configs.group_configs import GroupConfigs
from broker.core.logs.log_loader import LogLoader
from broker.core.logs.partition import LogWaiters
from broker.core.logs.recompression import Recompression
from broker.core.maintenance.cleaner import Cleaner
from broker.core.maintenance.cleaner import Settings as CleanerSettings
from broker.core.maintenance.disk_space import Level
from broker.core.maintenance.retention import Retention
from broker.core.maintenance.scrub import Scrub
from broker.core.maintenance.scrub import Settings as ScrubSettings
from broker.core.named_producers.loading import SequenceHeaders
from broker.core.named_producers.tables import NamedProducers
from broker.core.producer_ids import ProducerIds
from broker.core.scheduling.admission import Admission
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.response_cache import ResponseCache
from broker.core.session import Session
from broker.core.topics.deletion import Deletions
from broker.core.topics.topics import Topics
from broker.model import limits
from broker.model.address import Address
from broker.model.clock import SystemClock
from broker.model.config import Config
from broker.model.errors import StorageError
from broker.protocols import PROTOCOLS, v1
from broker.server import descriptors
from broker.server.checkpoints import Checkpoints
from broker.server.clock_watch import ClockWatch
from broker.server.coordinators import Coordinators
from broker.server.disk_watch import DiskWatch
from broker.server.listener import Listener
from broker.server.loop import Loop
from broker.server.requests import Requests
from broker.server.v1_copies import V1Copies
from broker.server.v1_import import V1Import
from broker.storage import metadata
from broker.storage.files.deletion import DeletedFolders
from broker.storage.log_dir import LogDir
from broker.storage.metadata.sqlite import FILE_NAME as METADATA_FILE
from broker.storage.metadata.sqlite import SqliteMetaStore
from broker.storage.recovery.log_settings import configure_log
from broker.storage.recovery.partitions import Partitions
from broker.storage.reserve import Reserve

EXIT_OK = 0
EXIT_STORAGE = 74
_DISK_IS_GONE = (errno.EIO, errno.EROFS, errno.ENODEV)

_log = logging.getLogger(__name__)

# Prints where the broker listens, and which of its settings are not defaults.
Announce: TypeAlias = Callable[[Sequence[Address], Config], None]


def run(config: Config, announce: Announce) -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP; return the exit code.

    Raises DataDirError, ConfigError (an address that cannot be bound) or StorageError when it
    cannot start.
    """
    loop = Loop()
    asyncio.set_event_loop(loop)
    log_dir = LogDir(config.data_dir, config.integer("node.id"))
    try:
        Reserve(log_dir.path).free_disk_space(limits.START_FREE_BYTES)
        return loop.run_until_complete(_Process(config, log_dir, loop).run(announce))
    finally:
        log_dir.close()
        loop.close()


class _Process:
    """All parts of the broker, and the order in which they start and stop."""

    def __init__(self, config: Config, log_dir: LogDir, loop: Loop) -> None:
        self._log_dir = log_dir
        self._loop = loop
        self._io_thread = IoThread()
        self._store = SqliteMetaStore(log_dir.path / METADATA_FILE)
        self._configs = BrokerConfigs(
            config,
            self._store,
            self._io_thread,
            self._alter_defaults,
        )
        config = self._config = self._configs.current
        self._clock_watch = ClockWatch(
            log_dir.path, SystemClock(), self._on_disk, config.integer("polylog.clock.confirmed.ms")
        )
        self._clock = self._clock_watch.clock
        self._group_configs = GroupConfigs(
            lambda: self._configs.current, self._store, self._io_thread
        )
        self._commit = CommitThread(limits.SYNC_THREADS)
        self._turn = Turn(self._commit)
        self._descriptors = descriptors.of_this_process()
        self._turn.files.count_max = self._descriptors.segments
        self._turn.decompress = compression.decompress_into
        self._turn.decompress_sent = compression.decompress_sent_into
        self._turn.decompressed_bytes_max = limits.decompressed_bytes_max(
            config.integer("message.max.bytes")
        )
        self._table = TopicTable()
        self._poller = self._make_poller()
        self._partitions = Partitions(
            log_dir.path,
            self._store,
            self._turn,
            config.integer("node.id"),
            config.integer("producer.id.expiration.ms"),
        )
        self._log_loader = LogLoader(
            loop, self._partitions.load, self._partitions.settle, self._log_is_ready
        )
        self._deletions = Deletions(self._store, self._io_thread, DeletedFolders(log_dir.path))
        self._topics = Topics(
            config,
            self._store,
            self._io_thread,
            self._table,
            self._partitions.open_topic,
            self._partitions.delete,
            configure_log=configure_log,
            announce_logs=self._partitions.announce_topic,
            until_loaded=self._log_loader.until_loaded,
            deletions=self._deletions,
            is_read_only=lambda: self._turn.is_read_only,
            log_changes=lambda: self._turn.log_changes,
        )
        self._coordinators = Coordinators(
            config, loop, self._clock, self._topics, self._group_configs
        )
        self._recompression = Recompression()
        named_producers = NamedProducers(
            self._clock,
            self._io_thread,
            lambda: self._configs.current.integer("producer.id.expiration.ms"),
            SequenceHeaders(SEQUENCE, sequence_of),
            self._recompression.run,
        )
        self._checkpoints = Checkpoints(
            self._partitions,
            self._topics,
            named_producers,
            self._io_thread,
            self._on_disk,
        )
        self._broker = Broker(
            self._configs,
            self._clock,
            log_dir.cluster_id,
            self._io_thread,
            self._topics,
            LogWaiters(),
            self._coordinators.groups,
            self._coordinators.transactions,
            ProducerIds(self._store),
            self._recompression,
            self._checkpoints.persist_log_starts,
            self._group_configs,
            self._metadata_revision,
            named_producers,
            Admission(limits.LONG_ANSWERS_BYTES_MAX, 0),
            ResponseCache(lambda: self._topics.revision, limits.RESPONSE_CACHE_BYTES_MAX),
        )
        self._retention = Retention(
            self._topics.logs, self._clock, self._on_disk, self._checkpoints.save_log_starts
        )
        self._cleaner = Cleaner(
            self._topics.logs,
            self._clock,
            self._on_disk,
            self._checkpoints.write,
            log_dir.path,
            _cleaner_settings(config),
        )
        self._scrub = Scrub(
            self._topics.logs,
            self._clock,
            self._io_thread,
            self._on_disk,
            self._cleaner.is_swapping,
            lambda: _scrub_settings(self._configs.current),
        )
        self._disk_watch = DiskWatch(
            log_dir.path, self._turn, self._io_thread, self._apply_disk_level
        )
        self._v1_copies = V1Copies(
            log_dir.path, self._coordinators.groups, self._clock, self._on_disk
        )
        self._configs.when_altered(self._apply_config)
        self._topics.when_deleted(self._cleaner.topic_deleted)
        self._topics.when_deleted(v1.PROTOCOL.replicas.forget_topic)
        self._topics.when_deleted(named_producers.forget_topic)
        self._stop: asyncio.Future[int] = loop.create_future()

    # ---- start -------------------------------------------------------------------------------

    async def run(self, announce: Announce) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                self._loop.add_signal_handler(number, self._on_signal)
        listeners = self._listen()
        self._disk_watch.begin()
        self._load()
        self._loop.add_reader(self._poller.epoll_fd, self._poller)
        if not await self._take_over_v1():
            await self._shut_down()
            return self._stop.result()
        for listener in listeners:
            listener.serve(
                self._loop,
                self._poller,
                partial(Session, self._broker),
                self._connections_max,
            )
        bound = [address for listener in listeners for address in listener.bound]
        self._log_dir.write_holder(bound)
        announce(bound, self._configs.current)
        background = self._begin_background()
        try:
            return await self._stop
        finally:
            for task in background:
                task.cancel()
            for listener in listeners:
                listener.close(self._loop)
            await asyncio.wait(background, timeout=limits.STOP_SECONDS)  # ends the compactor, too
            await self._shut_down()

    def _begin_background(self) -> list[asyncio.Task[None]]:
        """Start the periodic work; an error that ends one of the tasks is logged."""
        check_ms = self._config.integer("log.retention.check.interval.ms")
        work = [
            self._clock_watch.run(),
            self._housekeep(),
            self._checkpoints.run(),
            self._retention.run(check_ms),
            self._disk_watch.run(),
            self._v1_copies.run(),
            self._scrub.follow(),
            self._scrub.run(),
        ]
        if self._config.flag("log.cleaner.enable"):
            work.append(self._cleaner.run())
        tasks = [asyncio.ensure_future(each) for each in work]
        for task in tasks:
            task.add_done_callback(_log_failure)
        return tasks

    def _make_poller(self) -> Poller:
        sessions = FetchSessions(
            self._config.integer("max.incremental.fetch.session.cache.slots"),
            limits.FETCH_SESSION_IDLE_MS,
            self._config.integer("fetch.max.bytes"),
        )
        poller = Poller(self._turn, self._table, sessions)
        native_protocols = {each.name: each.native_protocol(self._config) for each in PROTOCOLS}
        requests = Requests(self._loop)
        poller.serve_with(native_protocols, requests.dispatch, requests.closed)
        self._turn.schedule = partial(self._loop.call_next, poller.end)
        return poller

    def _listen(self) -> list[Listener]:
        advertised = self._config.advertised_listeners
        return [
            Listener(address, advertised[i] if advertised else None)
            for i, address in enumerate(self._config.listeners)
        ]

    def _load(self) -> None:
        """Register all topics and begin to recover their logs, before the first connection."""
        logs = self._topics.load()
        self._deletions.remove(self._partitions.rename_strays())
        self._coordinators.expect()
        self._log_loader.start(logs, limits.RECOVERY_THREADS)

    async def _take_over_v1(self) -> bool:
        """Import V1's groups into the log; False when the broker is stopped before that is done."""
        groups = self._coordinators.groups
        folder = self._log_dir.path
        work = V1Import(folder, groups, self._topics, self._io_thread, self._clock).run()
        importing = asyncio.ensure_future(work)
        either: list[asyncio.Future[Any]] = [importing, self._stop]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not importing.done():
            importing.cancel()
            await asyncio.wait([importing])
            return False
        try:
            importing.result()
        except StorageError:
            await self._shut_down()
            raise
        return True

    def _connections_max(self) -> int:
        return min(self._configs.current.integer("max.connections"), self._descriptors.connections)

    def _log_is_ready(self, log: PartitionLog) -> None:
        self._coordinators.log_is_ready(log)

    # ---- while it runs -----------------------------------------------------------------------

    async def _alter_defaults(self, config: Config, commit: Commit | None) -> None:
        await self._topics.alter_defaults(config, commit)

    def _apply_config(self, config: Config) -> None:
        """Pass an altered configuration to the parts that keep a copy of its values."""
        self._config = config
        self._turn.decompressed_bytes_max = limits.decompressed_bytes_max(
            config.integer("message.max.bytes")
        )
        self._cleaner.alter_settings(_cleaner_settings(config))
        self._clock.confirm(config.integer("polylog.clock.confirmed.ms"))

    def _apply_disk_level(self, level: Level) -> None:
        """Free disk space sooner, and pause compaction, as the level of the disk asks."""
        self._retention.is_urgent = level >= Level.TRIM
        self._deletions.set_urgent(is_urgent=level >= Level.TRIM)
        self._cleaner.is_paused = level >= Level.REFUSE

    async def _metadata_revision(self) -> int:
        read = partial(self._store.scan, metadata.PRODUCER_ID_BLOCK)
        _, revision = await self._io_thread.run(read)
        return revision

    async def _housekeep(self) -> None:
        """Do periodic work: close stale connections and idle files, sync, write snapshots."""
        seconds = 0
        while True:
            await asyncio.sleep(limits.HOUSEKEEPING_SECONDS)
            seconds += limits.HOUSEKEEPING_SECONDS
            self._poller.sweep(
                self._config.integer("connections.max.idle.ms"),
                limits.STALLED_SECONDS * 1000,
                limits.FIRST_REQUEST_SECONDS * 1000,
            )
            self._poller.close_stalled_frames(limits.CONTENDED_FRAME_SECONDS * 1000)
            await self._take_events()
            if seconds % limits.OPEN_SEGMENT_TICK_SECONDS == 0:
                self._turn.files.begin_tick()
            self._turn.files.close_idle(limits.CLOSE_IDLE_MICROSECONDS)
            self._poller.read_clocks()
            self._turn.sync_aged(self._turn.steady_ms)

    async def _take_events(self) -> None:
        events, self._turn.events = self._turn.events, []
        self._scrub.rolled(log for kind, log in events if kind == ROLLED)
        self._scrub.broken(log for kind, log in events if kind == BROKEN)
        for kind, log in events:
            if kind == ROLLED:
                offset, content = log.producer_snapshot()
                await self._on_disk(partial(self._partitions.write_snapshot, log, offset, content))
            elif kind == OFFLINE:
                self._coordinators.tick()  # requests that wait for this log are refused now
                await self._on_disk(self._log_dir.probe)

    async def _on_disk(self, work: Callable[[], None]) -> bool:
        """Run work in the I/O thread; return whether it succeeded. A lost disk ends the broker."""
        try:
            await self._io_thread.run(work)
        except (StorageError, FileNotFoundError) as error:
            if _is_of_a_lost_disk(error) and await self._is_directory_lost():
                _log.critical("the data directory has failed: error=%s", error)
                self._end(EXIT_STORAGE)
            else:
                _log.warning("small file not written: error=%s", error)
            return False
        return True

    async def _is_directory_lost(self) -> bool:
        """Whether no file of the data directory can be written, not just one of some log."""
        try:
            await self._io_thread.run(self._log_dir.probe)
        except (StorageError, FileNotFoundError) as error:
            return _is_of_a_lost_disk(error)
        return False

    # ---- stop --------------------------------------------------------------------------------

    def _on_signal(self) -> None:
        if self._stop.done():
            _log.warning("second signal: stopping at once, the next start recovers the logs")
            os._exit(EXIT_OK)
        _log.info("stopping")
        self._end(EXIT_OK)

    def _end(self, exit_code: int) -> None:
        if not self._stop.done():
            self._stop.set_result(exit_code)

    async def _shut_down(self) -> None:
        """Wait for syncs and replies of accepted requests, then close all parts in reverse."""
        deadline_ms = self._clock.monotonic_ms() + limits.STOP_SECONDS * 1000
        self._poller.stop_streams()
        while (  # noqa: ASYNC110 (nothing to await: the replies are the native side's)
            self._poller.has_pending_replies and self._clock.monotonic_ms() < deadline_ms
        ):
            await asyncio.sleep(0.005)
        self._log_loader.stop()
        self._deletions.stop()
        await self._v1_copies.write()
        await self._clock_watch.write()
        self._coordinators.close()
        self._poller.close()
        await asyncio.sleep(0)  # the tasks of their requests end
        self._loop.remove_reader(self._poller.epoll_fd)
        self._poller.end()
        self._commit.stop()
        self._turn.poll_synced()
        self._recompression.stop()
        self._io_thread.stop()
        self._disk_watch.stop()  # frees the reserve, for what is still to be written
        self._partitions.close()
        self._store.close()


def _is_of_a_lost_disk(error: Exception) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _DISK_IS_GONE


def _log_failure(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("background work has failed and is not restarted", exc_info=error)


def _cleaner_settings(config: Config) -> CleanerSettings:
    return CleanerSettings(
        config.integer("log.cleaner.backoff.ms"), config.integer("log.cleaner.dedupe.buffer.size")
    )


def _scrub_settings(config: Config) -> ScrubSettings:
    return ScrubSettings(
        config.integer("polylog.scrub.interval.ms"),
        config.integer("polylog.scrub.bytes.per.second"),
    )
