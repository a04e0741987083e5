"""Makes the quotas of clients and the limits of connections."""

from typing import TYPE_CHECKING, cast

from broker._native.wire.connection import Connection
from broker.core.configs.broker_configs import BrokerConfigs
from broker.core.metadata import Metadata
from broker.core.security.quotas.client_quotas import ClientQuotas
from broker.core.security.quotas.connections import ConnectionLimits
from broker.core.security.quotas.windows import Windows
from broker.model.clock import Clock
from broker.model.config import Config

if TYPE_CHECKING:
    from broker.core.session import Session


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


def count_closed(limits: ConnectionLimits, connection: Connection) -> None:
    """Forget a connection that has closed, at the address that it was counted at.

    That is its own one, whatever a mark of forwarding says.
    """
    session = cast("Session", connection.session)
    limits.closed(session.listener, connection.peer_host)
