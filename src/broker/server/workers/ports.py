"""The addresses of workers: the listeners, which all of them have, and one of its own for each.

The own ports follow that of the first listener that speaks Kafka's protocol: clients learn them
from Metadata. The supervisor keeps all ports bound, without listening, until it ends: a worker that
is restarted has the same port again, and a connection meanwhile is refused and not left waiting.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.model.address import PORT_MAX, Address
from broker.model.config import Config
from broker.model.errors import ConfigError
from broker.model.listener import ListenerConfig
from broker.server.sockets import bind_all

if TYPE_CHECKING:
    import socket

_OF_KAFKA = ("", "kafka")


class Addresses(NamedTuple):
    """Where workers listen."""

    shared: Sequence[Address]
    own: Sequence[Address]  # of each worker
    advertised: Sequence[Address | None]  # of each worker; None: where a client has connected


class Plan(NamedTuple):
    """The addresses as they are configured; ports of 0 are chosen when they are bound."""

    shared: Sequence[Address]
    first: int  # the place of the listener after which the own ports come
    own: Sequence[Address]
    advertised: Sequence[Address | None]


def first_of_kafka(listeners: Sequence[ListenerConfig]) -> int | None:
    """Return the place of the first listener that speaks Kafka's protocol, None if none does."""
    places = [place for place, each in enumerate(listeners) if each.address.protocol in _OF_KAFKA]
    return places[0] if places else None


def plan(config: Config, count: int) -> Plan:
    """Return the addresses of workers; ConfigError when they would clash."""
    shared = tuple(each.address for each in config.listeners)
    place = first_of_kafka(config.listeners)
    if place is None:
        raise ConfigError(
            "polylog.workers needs a listener for Kafka clients: they find the workers' own ports"
        )
    first = shared[place]
    of_kafka = [each for each in config.listeners if each.address.protocol in _OF_KAFKA]
    if len({each.security for each in of_kafka}) > 1:
        raise ConfigError(
            "polylog.workers needs listeners for Kafka clients of one security protocol: the"
            " workers' own ports, which all clients find, have that of the first"
        )
    ports = [first.port + 1 + index if first.port else 0 for index in range(count)]
    taken = {each.port for each in shared if each.port}
    clash = next((port for port in ports if port > PORT_MAX or port in taken), None)
    if clash is not None:
        raise ConfigError(
            f"polylog.workers={count}: the workers' own ports are {ports[0]} to {ports[-1]}, and"
            f" {clash} is {'a listener' if clash in taken else 'no port'}: choose another port with"
            " --listen"
        )
    own = [first._replace(port=port) for port in ports]
    advertised: list[Address | None] = [None] * count
    known = config.listeners[place].advertised
    if known is not None:
        if known.port + count > PORT_MAX:
            raise ConfigError(f"advertised.listeners: no ports for {count} workers after {known}")
        advertised = [known._replace(port=known.port + 1 + index) for index in range(count)]
    return Plan(shared, place, own, advertised)


class Ports:
    """The ports of all workers, kept by the supervisor."""

    def __init__(self, planned: Plan) -> None:
        """Bind them; ConfigError when another process uses one."""
        self._sockets: list[socket.socket] = []
        try:
            shared = [self._keep(each) for each in planned.shared]
            own = [self._keep(each) for each in planned.own]
        except BaseException:
            self.close()
            raise
        self.addresses = Addresses(shared, own, planned.advertised)

    def close(self) -> None:
        """Free them."""
        for each in self._sockets:
            each.close()

    def _keep(self, address: Address) -> Address:
        if address.port:
            # Another supervisor of this user could share the port.
            for each in bind_all(address):
                each.close()
        sockets = bind_all(address, is_shared=True, listens=False)
        self._sockets += sockets
        return address._replace(port=int(sockets[0].getsockname()[1]))
