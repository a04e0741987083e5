"""The state of a connection, and the address by which its client reaches this broker."""

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.session import Session


class PatternRead(NamedTuple):
    """What a CONSUME of a pattern has returned.

    Attributes:
        asked: the pattern, the partition and the group.
        end: the offset after the last record of the response; None: another broker has added some.
        positions: the next offset to read of each topic that this broker has read.
    """

    asked: tuple[str, int, str]
    end: int | None
    positions: Mapping[str, int]


class ConnectionState:
    """What a client has negotiated, and has read of a pattern.

    Attributes:
        leader: this broker's address for the client, as acknowledgements have it; empty on a
            connection of another broker, which has an address of its own for the client.
    """

    __slots__ = ("has_structured_errors", "leader", "pattern_read")

    def __init__(self, leader: bytes = b"") -> None:
        """Start without any feature."""
        self.has_structured_errors = False
        self.leader = leader
        self.pattern_read: PatternRead | None = None


def state_of(session: Session) -> ConnectionState:
    """Return the state of a connection; create it with the first request."""
    if not isinstance(session.state, ConnectionState):
        session.state = ConnectionState(address_of(session).encode())
    return session.state


def host_of(session: Session) -> str:
    """Return the host by which the client reaches this broker.

    Some clients split an address at its first colon, so loopback addresses become `localhost`.
    """
    host = session.listener_host
    if host in {"::1", "::ffff:127.0.0.1"}:
        return "localhost"
    return f"[{host}]" if ":" in host else host.removeprefix("::ffff:")


def leader_address(session: Session, broker_id: int) -> str:
    """Return host:port of a broker of the cluster; this broker's if that one is not known."""
    broker = session.broker
    if broker.links is None or broker_id == broker.node_id:
        return address_of(session)
    found = broker.links.nodes.address_of(broker_id, "cursus")
    if found is None:
        return address_of(session)
    # A worker of this host is where the client has found this one.
    return f"{host_of(session)}:{found.port}" if found.is_wildcard else str(found)


def address_of(session: Session) -> str:
    """Return host:port, the format of leaders in responses."""
    return f"{host_of(session)}:{session.listener_port}"
