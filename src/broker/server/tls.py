"""The TLS of the listeners: their contexts, which follow files and settings while the broker runs.

    a file changes ----------.                         .-- refused: logged, the old one stays
    IncrementalAlterConfigs --'--> read, check, compare --
                                                       '-- new connections of the listener get it

Open connections stay as they are. A renewed certificate must have the names of the one before,
unless ssl.allow.dn.changes or ssl.allow.san.changes says otherwise.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from broker._native.wire.connection import Connection
from broker._native.wire.tls import TlsChannel
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.dialing import Dialer
from broker.core.metrics.measured import MeasuredTls
from broker.core.scheduling.io_thread import IoThread
from broker.core.security.audit import Audit, Login, Peer
from broker.core.service import Service
from broker.core.tls.certificates import parse_certificate
from broker.core.tls.contexts import Secured, secured
from broker.core.tls.principal_rules import PrincipalRules
from broker.model.config import Config, Values, inter_broker_listener
from broker.model.errors import CodecError, ConfigError, PeerError
from broker.model.listener import ListenerConfig
from broker.model.principal import ANONYMOUS, USER, Principal
from broker.model.tls_limits import (
    TLS_EXPIRY_LOOK_SECONDS,
    TLS_EXPIRY_WARNING_DAYS,
    TLS_FAILURES_LOGGED_SECONDS,
    TLS_FILES_LOOK_SECONDS,
)
from broker.server.counting import Counting

if TYPE_CHECKING:
    from broker.core.session import Session

_log = logging.getLogger(__name__)
_FILES = ("ssl.keystore.location", "ssl.truststore.location", "polylog.ssl.crl.location")
_State: TypeAlias = tuple[int, ...] | None  # of a file; None: there is none


class ListenerTls:
    """The TLS of one listener."""

    def __init__(
        self,
        listener: ListenerConfig,
        config: Config,
        monotonic: Callable[[], float],
        *,
        is_of_brokers: bool = False,
        audit: Audit | None = None,
    ) -> None:
        """Read its keys; ConfigError if they cannot be used.

        With `is_of_brokers` this broker reaches others with the same keys. The audit is told of
        certificates.
        """
        self._audit = audit
        self._listener = listener
        self._is_of_brokers = is_of_brokers
        self._settings = config.of_listener(listener)
        self._rules = PrincipalRules(self._settings.text("ssl.principal.mapping.rules"))
        self._seen = _seen(self._settings)
        self._secured = self._load(config)
        self._warned_days: int | None = None
        self._has_warned_of_lists = False
        self._failed = 0
        self._failures = Counting(monotonic, TLS_FAILURES_LOGGED_SECONDS)

    def channel(self) -> TlsChannel:
        """Return the TLS of a new connection."""
        return TlsChannel(self._wrap, self._on_secured, self._on_failed)

    def check(self, config: Config) -> None:
        """Raise ConfigError if altered settings cannot be in force."""
        if self._is_other(config.of_listener(self._listener)):
            self._check_names(self._load(config))

    def apply(self, config: Config) -> None:
        """Put altered settings into force, and what their files have now."""
        settings = config.of_listener(self._listener)
        if self._is_other(settings):
            seen = _seen(settings)
            self._take(self._loaded(config), settings, seen)

    async def look(self, config: Config, io_thread: IoThread) -> None:
        """Use the files again if they have changed; an error is logged, and the old keys stay."""
        settings = self._settings
        seen = await io_thread.run(partial(_seen, settings))
        if seen == self._seen:
            return
        loaded = await io_thread.run(partial(self._loaded, config))
        if self._settings is settings:  # else they have been altered, and read, meanwhile
            self._take(loaded, settings, seen)

    def warn_of_expiry(self, now: datetime) -> None:
        """Log once for each number of days before the certificate ends that is reached.

        And once when a revocation list ends soon: without one in force nobody is let in.
        """
        left = (self._secured.certificate.expires - now).days
        days = min((each for each in TLS_EXPIRY_WARNING_DAYS if left < each), default=None)
        if days is not None and days != self._warned_days:
            _log.warning(
                "certificate expires: listener=%s expires=%s days=%d subject=%s",
                self._listener.name,
                self._secured.certificate.expires.isoformat(),
                left,
                self._secured.certificate.subject,
            )
        self._warned_days = days
        lists = self._secured.revoked
        expires = None if lists is None else lists.renewal_due(now)
        if lists is not None and expires is not None and not self._has_warned_of_lists:
            self._has_warned_of_lists = True
            _log.warning(
                "revocation list expires: listener=%s expires=%s file=%s",
                *(self._listener.name, expires.isoformat(), lists.location),
            )

    @property
    def measured(self) -> MeasuredTls:
        """What its metrics are."""
        return MeasuredTls(self._secured.certificate.expires.timestamp(), self._failed)

    def _is_other(self, settings: Values) -> bool:
        return not settings.has_values_of(self._settings) or _seen(settings) != self._seen

    @property
    def to_brokers(self) -> ssl.SSLContext:
        """The context of a new connection to another broker."""
        assert self._secured.to_brokers is not None
        return self._secured.to_brokers

    def _load(self, config: Config) -> Secured:
        settings = config.of_listener(self._listener)
        client_auth = settings.text("ssl.client.auth")
        name = f"{self._listener.prefix}ssl.client.auth"
        if self._listener.security.has_sasl and name not in config.names:
            client_auth = (
                "none"  # as in Kafka: who logs in needs a certificate if that is asked for
            )
        where = f"listener {self._listener.name}"
        return secured(settings, client_auth, where, is_of_brokers=self._is_of_brokers)

    def _loaded(self, config: Config) -> Secured | ConfigError:
        try:
            renewed = self._load(config)
            self._check_names(renewed)
        except ConfigError as error:
            return error
        return renewed

    def _take(
        self, renewed: Secured | ConfigError, settings: Values, seen: tuple[_State, ...]
    ) -> None:
        if isinstance(renewed, ConfigError):
            _log.error("keys are not renewed: listener=%s error=%s", self._listener.name, renewed)
        else:
            self._secured, self._settings, self._warned_days = renewed, settings, None
            self._has_warned_of_lists = False
            _log.info(
                "keys are renewed: listener=%s expires=%s subject=%s",
                self._listener.name,
                renewed.certificate.expires.isoformat(),
                renewed.certificate.subject,
            )
        self._seen = seen

    def _check_names(self, renewed: Secured) -> None:
        old, new = self._secured.certificate, renewed.certificate
        if new.subject != old.subject and not self._settings.flag("ssl.allow.dn.changes"):
            raise ConfigError(
                f"{renewed.keys.origin}: the certificate is of {new.subject} and was of"
                f" {old.subject}: ssl.allow.dn.changes=false"
            )
        lacks = old.alternative_names - new.alternative_names
        if lacks and not self._settings.flag("ssl.allow.san.changes"):
            raise ConfigError(
                f"{renewed.keys.origin}: the certificate lacks {len(lacks)} alternative names of"
                " the one before: ssl.allow.san.changes=false"
            )

    def _wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self._secured.of_clients.wrap_bio(incoming, outgoing, server_side=True)

    def _on_secured(self, connection: Connection) -> None:
        """Let the connection act for the subject of its certificate, if it has shown one."""
        assert connection.tls is not None
        assert connection.tls.ssl_object is not None
        der = connection.tls.ssl_object.getpeercert(binary_form=True)
        if der is None:
            return
        session = cast("Session", connection.session)
        try:
            principal = Principal(USER, self._rules.name(parse_certificate(der).subject))
        except (CodecError, PeerError) as error:
            self._on_failed(connection.peer_host, str(error))
            connection.abort("its certificate is of no principal")
            return
        if self._is_recorded(connection.peer_host, principal):
            session.principal = principal
        else:
            connection.abort("the audit cannot record it")

    def _on_failed(self, peer: str, reason: str) -> None:
        """Count a failed handshake."""
        self._is_recorded(peer, ANONYMOUS, reason)
        self._failed += 1
        count = self._failures.add()
        if count:
            _log.warning(
                "TLS handshakes failed: listener=%s count=%d peer=%s reason=%s",
                *(self._listener.name, count, peer, reason),
            )

    def _is_recorded(self, peer: str, principal: Principal, failure: str = "") -> bool:
        """Tell the audit of a certificate or of a failure; return whether the client may go on."""
        if self._audit is None:
            return True
        came = Peer(peer, self._listener.name, "tls")
        return self._audit(Login(came, str(principal), "TLS", failure))


class TlsWatch(Service):
    """Looks at the files of keys, and warns before certificates expire."""

    name = "tls"

    def __init__(
        self,
        listeners: Iterable[ListenerTls],
        config: Callable[[], Config],
        io_thread: IoThread,
    ) -> None:
        """Keep the listeners; their files are read in the thread."""
        self._listeners = tuple(listeners)
        self._config = config
        self._io_thread = io_thread

    async def run(self) -> None:
        """Look at them again and again."""
        seconds = 0
        while True:
            for listener in self._listeners:
                await listener.look(self._config(), self._io_thread)
                if seconds % TLS_EXPIRY_LOOK_SECONDS == 0:
                    listener.warn_of_expiry(datetime.now(UTC))
            await asyncio.sleep(TLS_FILES_LOOK_SECONDS)
            seconds += TLS_FILES_LOOK_SECONDS


def open_tls(
    configs: BrokerConfigs,
    monotonic: Callable[[], float],
    dialer: Dialer | None,
    io_thread: IoThread,
    audit: Audit | None = None,
) -> tuple[dict[str, ListenerTls], TlsWatch]:
    """Read the keys of all listeners with TLS, which follow the configuration from here on.

    Connections of `dialer` to other brokers are encrypted if their listener is.

    Raises:
        ConfigError: keys cannot be used.
    """
    config = configs.current
    listeners = config.listeners
    of_brokers = None if dialer is None else inter_broker_listener(config, listeners)
    name_of_brokers = None if of_brokers is None else of_brokers.name
    found = {
        each.name: ListenerTls(
            each, config, monotonic, is_of_brokers=each.name == name_of_brokers, audit=audit
        )
        for each in listeners
        if each.security.has_tls
    }
    for each in found.values():
        configs.checked_by(each.check)
        configs.when_altered(each.apply)
    if dialer is not None and name_of_brokers in found:
        dialed = found[name_of_brokers]
        dialer.secure_with(lambda: dialed.to_brokers)
    return found, TlsWatch(found.values(), lambda: configs.current, io_thread)


def _seen(settings: Values) -> tuple[_State, ...]:
    """Return what tells a changed file from the one before, of each file."""
    return tuple(map(_state, (settings.text_or_none(each) for each in _FILES)))


def _state(location: str | None) -> _State:
    try:
        status = None if location is None else Path(location).stat()
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
