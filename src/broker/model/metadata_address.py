"""Where the metadata of a broker is stored: the value of polylog.metadata.store.

sqlite                                  metadata.db in the data directory
etcd://HOST:PORT[,HOST:PORT...]/PREFIX  the members of one etcd cluster, and what all keys of
the brokers' cluster begin with
"""

from typing import NamedTuple

from broker.model.address import Address, parse_addresses
from broker.model.errors import ConfigError

SQLITE = "sqlite"
_ETCD = "etcd://"
_EXAMPLE = "etcd://127.0.0.1:2379/polylog"


class EtcdAddress(NamedTuple):
    """The endpoints of etcd, and the prefix of a cluster's keys, without slashes around it."""

    endpoints: tuple[Address, ...]
    prefix: str


def parse_metadata_address(text: str) -> EtcdAddress | None:
    """Parse the setting; None stands for SQLite. Raises ConfigError."""
    if text == SQLITE:
        return None
    if not text.startswith(_ETCD):
        raise ConfigError(f"polylog.metadata.store={text!r}: expected {SQLITE} or {_EXAMPLE}")
    hosts, _, prefix = text.removeprefix(_ETCD).partition("/")
    prefix = prefix.strip("/")
    if "@" in hosts or "?" in prefix:
        raise ConfigError(
            f"polylog.metadata.store={text!r}: the address holds no credentials and no options;"
            " they are settings of their own (polylog.metadata.user and others)"
        )
    if not prefix:
        raise ConfigError(
            f"polylog.metadata.store={text!r}: name a prefix for this cluster's keys, as in"
            f" {_EXAMPLE}"
        )
    if not prefix.isascii() or not prefix.replace("/", "").isprintable():
        raise ConfigError(f"polylog.metadata.store={text!r}: the prefix must be ASCII text")
    return EtcdAddress(parse_addresses(hosts), prefix)
