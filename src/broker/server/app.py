"""The broker process: starts its services, runs until it is asked to stop, stops them."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.core.broker import Broker
from broker.core.health import Stage
from broker.core.session import Session
from broker.model import limits
from broker.model.address import Address
from broker.model.config import Config
from broker.model.errors import PolylogError, StorageError
from broker.model.listener import ListenerConfig
from broker.model.principal import ANONYMOUS, Principal, parse_principal
from broker.server import descriptors
from broker.server.composition import Variant, compose, services_of
from broker.server.listener import Acceptor, Listener, Throttled
from broker.server.loop import Loop
from broker.server.opening import Opened, open_metadata
from broker.server.reporting import Reporting
from broker.server.service_manager import STOPPING, of_environment
from broker.storage.log_dir import LogDir
from broker.storage.more_directories import open_more
from broker.storage.reserve import Reserve

if TYPE_CHECKING:
    from broker.core.service import Service
    from broker.server.cluster.cluster import Cluster
    from broker.server.tls import ListenerTls
    from broker.server.workers.worker import Worker

EXIT_OK = 0
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits(3)
EXIT_STORAGE = 74
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # nohup ignores SIGHUP

_STANDARD = Variant()

_log = logging.getLogger(__name__)

# Prints where the broker listens, its configuration, and the id of its cluster; None: standalone.
Announce: TypeAlias = Callable[[Sequence[ListenerConfig], Config, str | None], None]


def run(config: Config, announce: Announce, variant: Variant = _STANDARD) -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP; return the exit code.

    Raises DataDirError, ConfigError (an address that cannot be bound) or StorageError when it
    cannot start.
    """
    log_dir = LogDir(config.data_dir, config.integer("node.id"))
    try:
        is_standalone = config.metadata_address is None
        open_more(log_dir, config.more_dirs, is_standalone=is_standalone)
    except BaseException:
        log_dir.close()
        raise
    return _run(config, log_dir, announce, None, variant)


def run_worker(config: Config, log_dir: LogDir, worker: "Worker", announce: Announce) -> int:
    """Run one of the brokers that share a data directory until it is stopped; raise as `run`."""
    return _run(config, log_dir, announce, worker)


def _run(
    config: Config,
    log_dir: LogDir,
    announce: Announce,
    worker: "Worker | None",
    variant: Variant = _STANDARD,
) -> int:
    loop = Loop()
    asyncio.set_event_loop(loop)
    try:
        Reserve(log_dir.own).free_disk_space(limits.START_FREE_BYTES)
        opened = _open_metadata(config, log_dir, loop, () if worker is None else worker.node_ids)
        if opened is None:
            return EXIT_OK
        process = _Process(config, log_dir, opened, loop, worker, variant)
        return loop.run_until_complete(process.run(announce))
    finally:
        log_dir.close()
        loop.close()


def _open_metadata(
    config: Config, log_dir: LogDir, loop: Loop, node_ids: Sequence[int]
) -> Opened | None:
    """Open the metadata; None: a signal has ended the wait for the store of a cluster."""
    opening = loop.create_task(open_metadata(config, log_dir, node_ids))
    if config.metadata_address is None:
        return loop.run_until_complete(opening)
    handled = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, opening.cancel)
    try:
        return loop.run_until_complete(opening)
    except asyncio.CancelledError:
        return None
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _principals(config: Config) -> dict[str, Principal]:
    """Return who connects to a listener without a login or certificate; raises ConfigError."""
    named = {
        each.name: config.of_listener(each).text_or_none("polylog.principal")
        for each in config.listeners
    }
    return {name: parse_principal(text) if text else ANONYMOUS for name, text in named.items()}


def _session(
    broker: Broker,
    principals: Mapping[str, Principal],
    client: Address,
    reached: Address,
    listener: ListenerConfig,
) -> Session:
    """Make the session of a connection, which begins with a login if its listener has one."""
    principal = principals[listener.name]
    session = Session(broker, client.host, reached.host, reached.port, listener, principal)
    session.client_port = client.port
    session.connected_ms = broker.clock.wall_ms()
    if broker.security.logins is not None:
        session.login = broker.security.logins.begin(listener)
    return session


class _Process:
    """One run of the broker."""

    def __init__(
        self,
        config: Config,
        log_dir: LogDir,
        opened: Opened,
        loop: Loop,
        worker: "Worker | None",
        variant: Variant,
    ) -> None:
        self._worker = worker
        self._is_alone = False  # all workers stop: nobody takes over what this one leads
        self._is_signalled = False
        self._log_dir = log_dir
        self._loop = loop
        self._stop: asyncio.Future[int] = loop.create_future()
        self._descriptors = descriptors.of_this_process()
        self._manager = of_environment()
        self._reporting: Reporting | None = None
        lost = partial(self._end, EXIT_STORAGE)
        self._parts = compose(config, log_dir, opened, loop, self._descriptors, lost, variant)
        self._cluster = opened.cluster
        self._configs = self._parts.broker.configs
        self._tls: dict[str, ListenerTls] = {}  # by the names of listeners
        watches: list[Service] = []
        if any(each.security.has_tls for each in self._configs.current.listeners):
            from broker.server.tls import open_tls  # noqa: PLC0415 - without TLS nothing needs it

            dialer = None if opened.cluster is None else opened.cluster.dialer
            self._tls, watch = open_tls(
                self._configs,
                loop.time,
                dialer,
                opened.io_thread,
                self._parts.broker.security.audit,
            )
            watches.append(watch)
            self._parts.broker.metrics.listeners_with_tls = lambda: {
                name: each.measured for name, each in self._tls.items()
            }
        if self._manager is not None:
            self._reporting = Reporting(self._manager, self._parts.broker, self._parts.poller)
            watches.append(self._reporting)
        more = [*watches, *variant.services(self._parts)]
        self._services = services_of(self._parts, loop, more)

    async def run(self, announce: Announce) -> int:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._on_signal)
        if self._worker is not None:
            self._loop.add_reader(self._worker.stop_fd, self._on_end_of_all)
        listeners = self._listen()
        services = self._services
        services.start()
        if not await self._prepare():
            await services.stop()
            return self._stop.result()
        self._serve(listeners)
        self._parts.broker.health.stage = Stage.SERVING
        bound = [
            listener.config._replace(address=address)
            for listener in listeners
            for address in listener.bound
        ]
        if self._worker is None:
            self._log_dir.write_holder(each.address for each in bound)
        if self._cluster is not None:
            self._cluster.advertise(self._advertised(listeners))
            self._cluster.member.when_refused(self._refused)
            self._cluster.node.metadata.when_replaced(self._store_replaced)
        services.run(partial(self._end, EXIT_INTERNAL))
        try:
            await self._announce(announce, bound)
            return await self._stop
        finally:
            self._parts.broker.health.stage = Stage.STOPPING
            if self._manager is not None:
                self._manager.tell(STOPPING, "STATUS=stopping")
            if self._cluster is not None and not self._is_alone:
                await self._cluster.leave(limits.DRAIN_SECONDS)
            services.cancel()
            for listener in listeners:
                listener.close(self._loop)
            await services.stop()

    async def _announce(self, announce: Announce, bound: Sequence[ListenerConfig]) -> None:
        """Announce that this broker is ready; one of a cluster is when it is registered."""
        cluster_id = None
        if self._cluster is not None:
            await self._join(self._cluster)
            cluster_id = self._log_dir.cluster_id
        if not self._stop.done():
            announce(bound, self._configs.current, cluster_id)
            if self._reporting is not None:
                self._reporting.is_announced = True

    async def _join(self, cluster: "Cluster") -> None:
        """Wait until this broker is registered, but not for one that does not start, or for etcd.

        Workers wait until all of them know each other.
        """
        seconds = cluster.member.join_seconds + float(limits.METADATA_CALL_SECONDS)
        if self._worker is not None:
            seconds = 2 * limits.WORKERS_TOGETHER_MS / 1000
        joining = asyncio.ensure_future(cluster.joined())
        either: list[asyncio.Future[Any]] = [joining, self._stop]
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not joining.done() and not self._stop.done():
            _log.warning("not registered in the cluster yet, or no controller: seconds=%d", seconds)
        joining.cancel()
        if self._worker is not None:
            self._worker.report_ready()

    def _advertised(self, listeners: Sequence[Listener]) -> list[tuple[Address, ListenerConfig]]:
        """Return where other brokers and their clients reach this one, and over which listener."""
        if self._worker is not None:
            return [(self._worker.advertised or self._worker.reached, listeners[0].config)]
        found = []
        for listener in listeners:
            known, protocol = listener.config.advertised, listener.config.address.protocol
            reached = listener.bound if known is None else (known._replace(protocol=protocol),)
            found += [(each, listener.config) for each in reached]
        return found

    def _listen(self) -> list[Listener]:
        config = self._configs.current
        worker = self._worker
        if worker is None:
            return [
                Listener(each.address, each.advertised, None, each, self._tls.get(each.name))
                for each in config.listeners
            ]
        from broker.server.workers.ports import first_of_kafka  # noqa: PLC0415 - of workers only

        place = first_of_kafka(config.listeners)
        assert place is not None  # else the supervisor has not started
        listeners = (config.listeners[place], *config.listeners)
        return [
            Listener(address, worker.advertised, worker.own.port, each, self._tls.get(each.name))
            for address, each in zip((worker.own, *worker.shared), listeners, strict=True)
        ]

    def _serve(self, listeners: list[Listener]) -> None:
        parts = self._parts
        acceptor = Acceptor(
            self._loop,
            parts.poller,
            partial(_session, parts.broker, _principals(self._configs.current)),
            self._connections_max,
            parts.waiting_logins,
            parts.connection_limits,
            Throttled(self._loop),
            parts.broker.metrics.counters,
        )
        for listener in listeners:
            listener.serve(acceptor)

    def _connections_max(self) -> int:
        links = self._parts.broker.links
        descriptors = self._descriptors.connections - (0 if links is None else links.count)
        return min(self._configs.current.integer("max.connections"), descriptors)

    async def _prepare(self) -> bool:
        """Do what protocols need before; False when the broker is stopped before that is done."""
        preparing = asyncio.ensure_future(self._parts.before_serving())
        either: list[asyncio.Future[Any]] = [preparing, self._stop]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not preparing.done():
            preparing.cancel()
            await asyncio.wait([preparing])
            return False
        try:
            preparing.result()
        except StorageError:
            await self._services.stop()
            raise
        return True

    def _on_signal(self) -> None:
        # A service manager signals each process: this one, and the supervisor that stops it.
        is_second = self._is_signalled or (self._stop.done() and not self._is_alone)
        self._is_signalled = True
        if is_second:
            _log.warning("second signal: stopping at once, the next start recovers the logs")
            os._exit(EXIT_OK)
        if self._stop.done():
            return
        _log.info("stopping")
        self._end(EXIT_OK)

    def _refused(self, error: PolylogError) -> None:
        if not self._stop.done():
            self._stop.set_exception(error)

    def _store_replaced(self, error: PolylogError) -> None:
        """Stop without moving leaderships: this broker must not write to the store any more."""
        assert self._cluster is not None
        self._cluster.member.leave()
        self._refused(error)

    def _on_end_of_all(self) -> None:
        """Stop because all workers do, or because their supervisor has ended."""
        assert self._worker is not None
        self._loop.remove_reader(self._worker.stop_fd)
        if not self._stop.done():
            _log.info("stopping with all workers")
            self._is_alone = True
            self._end(EXIT_OK)

    def _end(self, exit_code: int) -> None:
        if not self._stop.done():
            self._stop.set_result(exit_code)
