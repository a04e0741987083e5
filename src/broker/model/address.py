"""HOST:PORT, as in listeners, log lines and advertised addresses.

PROTOCOL://HOST:PORT is a listener for that protocol only; without it the protocol is detected from
the first bytes of each connection.
"""

import socket
from typing import NamedTuple

from broker.model.errors import ConfigError
from broker.model.protocol_names import PINNABLE

PORT_MAX = 65_535
DEFAULT_PORT = 9092
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
_BOTH_FAMILIES = {"localhost": ("127.0.0.1", "::1"), "": ("0.0.0.0", "::")}  # noqa: S104
_LOOPBACK_V6 = bytes(15) + b"\x01"
_MAPPED_V4 = bytes(10) + b"\xff\xff"
_NETWORK_V6_BYTES = 8


class Address(NamedTuple):
    """A host (name, IPv4 or IPv6 without brackets) and a port; port 0 asks for a free one."""

    host: str
    port: int
    protocol: str = ""  # of PINNABLE; empty: detected

    def __str__(self) -> str:
        """HOST:PORT with IPv6 in brackets, after PROTOCOL:// if it is pinned."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = f"{self.protocol}://" if self.protocol else ""
        return f"{scheme}{host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether this is the wildcard address."""
        return self.host in WILDCARDS

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; of names only localhost counts."""
        if self.host == "localhost":
            return True
        if ":" in self.host:
            packed = _packed(socket.AF_INET6, self.host)
            return packed == _LOOPBACK_V6 or packed.startswith(_MAPPED_V4 + b"\x7f")
        return _packed(socket.AF_INET, self.host).startswith(b"\x7f")

    @property
    def bind_hosts(self) -> tuple[str, ...]:
        """The hosts to bind; localhost means both address families, as clients try either first."""
        return _BOTH_FAMILIES.get(self.host, (self.host,))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse HOST:PORT,HOST:PORT, the format of bootstrap.servers."""
    return tuple(parse_address(each) for each in text.split(","))


def parse_address(text: str) -> Address:
    """Parse HOST:PORT, also in Kafka's form PLAINTEXT://HOST:PORT; a missing host means all."""
    scheme, separator, rest = text.strip().rpartition("://")
    protocol = "" if scheme.upper() == "PLAINTEXT" else scheme.lower()
    if separator and protocol and protocol not in PINNABLE:
        known = ", ".join(f"{each}://" for each in PINNABLE)
        raise ConfigError(f"{text!r}: {scheme}:// is not known; {known} or PLAINTEXT:// are")
    host, colon, port_text = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{text!r}: write an IPv6 address in brackets, [::1]:{DEFAULT_PORT}")
    if not colon or not (port_text.isascii() and port_text.isdigit()):
        raise ConfigError(f"{text!r}: expected HOST:PORT, for example 127.0.0.1:{DEFAULT_PORT}")
    if int(port_text) > PORT_MAX:
        raise ConfigError(f"{text!r}: a port is 0 .. {PORT_MAX}")
    return Address(host, int(port_text), protocol)


def origin(host: str) -> str:
    """Return whom an address counts for where clients share something by address.

    That is the address itself, of IPv6 its network of 64 bits: one host may use any address of its
    network (RFC 4291, section 2.5.4; RFC 8981).
    """
    packed = _packed(socket.AF_INET6, host.partition("%")[0]) if ":" in host else b""
    if not packed or packed.startswith(_MAPPED_V4):
        return host
    network = packed[:_NETWORK_V6_BYTES] + bytes(len(packed) - _NETWORK_V6_BYTES)
    return f"{socket.inet_ntop(socket.AF_INET6, network)}/64"


def _packed(family: int, host: str) -> bytes:
    """Return the address in bytes, empty for a name."""
    try:
        return socket.inet_pton(family, host)
    except OSError:
        return b""
