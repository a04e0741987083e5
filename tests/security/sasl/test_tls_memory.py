"""A login over TLS: what a connection takes before it has logged in."""

import socket
import ssl
import struct
from contextlib import ExitStack
from pathlib import Path

from broker.model.sasl_limits import LOGIN_FRAME_BYTES_MAX
from tests.support.locked_broker import LISTENER, LockedBroker

CONNECTIONS = 300
BYTES_MAX = 64 << 10
AUTHENTICATE = struct.pack(">hhih", 36, 1, 1, -1)


def connect(broker: LockedBroker, context: ssl.SSLContext, held: ExitStack) -> ssl.SSLSocket:
    host, _, port = broker.of_listener[LISTENER].rpartition(":")
    raw = socket.create_connection((host, int(port)), 60.0)
    return held.enter_context(context.wrap_socket(raw, server_hostname=host))


def test_a_connection_takes_64_kib_at_most_before_its_login_with_tls(tmp_path: Path) -> None:
    """The longest frame that is taken, all but its last byte, in the longest records."""
    broker = LockedBroker(tmp_path)
    broker.start()
    context = broker.context
    frame = struct.pack(">i", LOGIN_FRAME_BYTES_MAX) + AUTHENTICATE
    frame += bytes(LOGIN_FRAME_BYTES_MAX + 3 - len(frame))
    with ExitStack() as held:
        connect(broker, context, held)
        broker.admin().close()  # what the first ones allocate is not counted
        before = broker.private_memory()
        for _ in range(CONNECTIONS):
            connect(broker, context, held).sendall(frame)
        broker.admin().close()  # everything has arrived by now
        used = broker.private_memory() - before
    assert broker.stop() == 0
    broker.check()

    assert CONNECTIONS * LOGIN_FRAME_BYTES_MAX < used < CONNECTIONS * BYTES_MAX
