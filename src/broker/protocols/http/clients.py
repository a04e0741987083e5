"""Who is connected: /clients, for those who may describe the cluster.

    {"broker":1,"clients":[
    {"address":"192.0.2.7:50000","protocol":"kafka","client_id":"loader",...},
    ...
    ],"connections":2,"is_complete":true}

The clients are those of the broker that is asked. A page has as many as fit into
CLIENTS_PAGE_BYTES_MAX; with more, it is not complete.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from broker._native.wire.connection import Connection
from broker.core.scheduling.steps import in_parts
from broker.core.session import Session
from broker.model.address import Address
from broker.model.http_limits import CLIENTS_PAGE_BYTES_MAX, CLIENTS_PER_STEP
from broker.protocols.http.page import Content
from broker.protocols.http.request import Request

if TYPE_CHECKING:
    from broker.protocols.base import WireProtocol

_COMPACT: Final = (",", ":")


def show_clients(_: Request, session: Session) -> Content:
    """List the connections that there are when it is asked."""
    return Content(_document(session.broker.node_id, session.broker.connections))


async def _document(
    node_id: int, connections: Callable[[], Sequence[Connection]]
) -> AsyncIterator[bytes]:
    yield b'{"broker":%d,"clients":[' % node_id
    count = size = 0
    async for some in in_parts(connections(), CLIENTS_PER_STEP):
        clients = [each for each in some if isinstance(each.session, Session)]
        comma = ",\n" if count else "\n"
        count += len(clients)
        if size > CLIENTS_PAGE_BYTES_MAX or not clients:
            continue  # the others are only counted
        rows = ",\n".join(json.dumps(_client(each), separators=_COMPACT) for each in clients)
        part = f"{comma}{rows}".encode()
        size += len(part)
        if size <= CLIENTS_PAGE_BYTES_MAX:
            yield part
    is_complete = b"true" if size <= CLIENTS_PAGE_BYTES_MAX else b"false"
    yield b'\n],"connections":%d,"is_complete":%s}\n' % (count, is_complete)


def _client(connection: Connection) -> dict[str, object]:
    session = cast("Session", connection.session)
    protocol = cast("WireProtocol | None", connection.served_by)
    name, version = session.software or (None, None)
    return {
        "address": str(Address(session.client_host, session.client_port)),
        "protocol": "" if protocol is None else protocol.name,
        "client_id": session.client_id,
        "software": name,
        "software_version": version,
        "principal": str(session.principal),
        "listener": session.listener.name,
        "connected_ms": session.connected_ms,
    }
