"""Makes the quotas of clients and the limits of connections."""

from collections.abc import Callable

from broker._native.wire.connection import Connection
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.metadata import Metadata
from broker.core.security.quotas.client_quotas import ClientQuotas
from broker.core.security.quotas.connections import ConnectionLimits
from broker.core.security.quotas.windows import Windows
from broker.core.session import Session
from broker.model.clock import Clock
from broker.model.config import Config


def make_quotas(config: Config, known: Metadata, clock: Clock) -> ClientQuotas:
    """Make the quotas of clients, as they are stored."""
    return ClientQuotas(
        known,
        Windows.of_rates(config),
        Windows.of_mutations(config),
        clock.monotonic_ms,
    )


def limit_connections(
    configs: BrokerConfigs, quotas: ClientQuotas, clock: Clock
) -> ConnectionLimits:
    """Make the limits of connections; they follow the configuration and the quotas."""
    limits = ConnectionLimits(configs.current, quotas.connection_rate, clock.monotonic_ms)
    configs.when_altered(limits.alter)
    return limits


def when_closed(
    limits: ConnectionLimits, then: Callable[[Connection, str], None]
) -> Callable[[Connection, str], None]:
    """Return what the poller has to call with each connection that has closed."""

    def closed(connection: Connection, reason: str) -> None:
        if isinstance(connection.session, Session):
            # At the address that it was counted at, whatever a mark of forwarding says.
            limits.closed(connection.session.listener, connection.peer_host)
        then(connection, reason)

    return closed
