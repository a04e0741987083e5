"""How jobs reach brokers: from their own process, and from the tasks of Spark, as options."""

from broker.client.metadata import Cluster
from broker.client.security import SecuritySettings
from broker.model.address import parse_addresses
from broker.model.limits import CLIENT_GIVE_UP_SECONDS
from broker.pipeline.options import KAFKA


def cluster_of(
    bootstrap: str, security: SecuritySettings | None, timeout_seconds: float | None
) -> Cluster:
    """Return the cluster of a job; nothing is connected yet.

    Args:
        bootstrap: bootstrap servers, HOST:PORT,HOST:PORT.
        security: TLS and the login; None: neither.
        timeout_seconds: of each answer, and after which a request that fails is not repeated.

    Raises:
        ConfigError: an address is invalid.
    """
    return Cluster(
        parse_addresses(bootstrap),
        give_up_seconds=CLIENT_GIVE_UP_SECONDS if timeout_seconds is None else timeout_seconds,
        answer_seconds=timeout_seconds,
        security=security,
    )


def options_of(
    bootstrap: str, security: SecuritySettings | None, timeout_seconds: float | None
) -> dict[str, str]:
    """Return the options of a source or a sink that say the same.

    A sink repeats for longer what fails (kafka.delivery.timeout.ms): a broker may be restarting.
    """
    found = {"bootstrap.servers": bootstrap}
    if security is not None:
        found |= security.properties
    if timeout_seconds is not None:
        timeout_ms = str(max(int(timeout_seconds * 1000), 1))
        found |= {"request.timeout.ms": timeout_ms, "default.api.timeout.ms": timeout_ms}
    return {KAFKA + name: text for name, text in found.items()}
