"""Listening sockets of an address."""

import socket

from broker.model import limits
from broker.model.address import Address
from broker.model.errors import ConfigError


def bind_all(
    address: Address, *, is_shared: bool = False, listens: bool = True
) -> list[socket.socket]:
    """Bind a socket per host, all on one port; for port 0 one that is free on all of them.

    Args:
        address: what to bind.
        is_shared: other processes of this user can bind the same address, if they share it, too.
        listens: connections are accepted; otherwise the sockets only keep the port.

    Raises:
        ConfigError: the address cannot be bound.
    """
    failure = OSError("no such address on this machine")
    for _ in range(limits.LISTEN_TRIES if address.port == 0 else 1):
        sockets: list[socket.socket] = []
        try:
            port = address.port
            for host in address.bind_hosts:
                bound = _bind(host, port, is_shared=is_shared, listens=listens)
                if bound is None:
                    continue
                sockets.append(bound)
                port = int(bound.getsockname()[1])
        except OSError as error:
            for bound in sockets:
                bound.close()
            failure = error
            continue
        if sockets:
            return sockets
    raise ConfigError(
        f"cannot listen on {address}: {failure.strerror or failure}; stop what uses that port,"
        " or choose another with --listen"
    )


def _bind(host: str, port: int, *, is_shared: bool, listens: bool) -> socket.socket | None:
    """Bind one host; None if this machine has no such address family (IPv6 disabled)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        if family == socket.AF_INET6 and not _has_ipv6():
            return None
        raise
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
        bound.setblocking(False)
        if listens:
            bound.listen(limits.LISTEN_BACKLOG)
    except OSError:
        bound.close()
        if family == socket.AF_INET6 and not _has_ipv6():
            return None
        raise
    return bound


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
