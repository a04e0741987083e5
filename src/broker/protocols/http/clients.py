"""Who is connected: /clients, for those who may describe the cluster.

    {"broker":1,"connections":2,"clients":[
    {"address":"192.0.2.7:50000","protocol":"kafka","client_id":"loader",...},
    ...
    ],"is_complete":true}

The clients are those of the broker that is asked. A page has as many as fit into
CLIENTS_PAGE_BYTES_MAX; with more, it is not complete.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Final

from broker.core.scheduling.steps import in_parts
from broker.core.session import Session
from broker.model.address import Address
from broker.model.http_limits import CLIENTS_PAGE_BYTES_MAX, CLIENTS_PER_STEP
from broker.protocols.http.page import Content
from broker.protocols.http.request import Request

_COMPACT: Final = (",", ":")


def show_clients(_: Request, session: Session) -> Content:
    """List the connections that there are when it is asked."""
    return Content(_document(session.broker.node_id, session.broker.sessions()))


async def _document(node_id: int, sessions: Sequence[Session]) -> AsyncIterator[bytes]:
    yield b'{"broker":%d,"connections":%d,"clients":[\n' % (node_id, len(sessions))
    size, is_complete, comma = 0, True, ""
    async for some in in_parts(sessions, CLIENTS_PER_STEP):
        rows = ",\n".join(json.dumps(_client(each), separators=_COMPACT) for each in some)
        part = f"{comma}{rows}".encode()
        size += len(part)
        if size > CLIENTS_PAGE_BYTES_MAX:
            is_complete = False
            break
        yield part
        comma = ",\n"
    yield b'\n],"is_complete":%s}\n' % (b"true" if is_complete else b"false")


def _client(session: Session) -> dict[str, object]:
    name, version = session.software or (None, None)
    return {
        "address": str(Address(session.client_host, session.client_port)),
        "protocol": session.wire,
        "client_id": session.client_id,
        "software": name,
        "software_version": version,
        "principal": str(session.principal),
        "listener": session.listener.name,
        "connected_ms": session.connected_ms,
    }
