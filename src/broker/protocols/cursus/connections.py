"""What is remembered of a connection, and the address that its client can reach."""

from broker.core.session import Session


class ConnectionState:
    """What a client has negotiated."""

    __slots__ = ("has_structured_errors",)

    def __init__(self) -> None:
        """Nothing yet."""
        self.has_structured_errors = False


def state_of(session: Session) -> ConnectionState:
    """What is remembered of a connection."""
    if not isinstance(session.state, ConnectionState):
        session.state = ConnectionState()
    return session.state


def host_of(session: Session) -> str:
    """The host by which the client reaches this broker; some clients end it at the first colon."""
    host = session.listener_host
    if host in {"::1", "::ffff:127.0.0.1"}:
        return "localhost"
    return f"[{host}]" if ":" in host else host.removeprefix("::ffff:")


def address_of(session: Session) -> str:
    """Host and port, as leaders are written."""
    return f"{host_of(session)}:{session.listener_port}"
