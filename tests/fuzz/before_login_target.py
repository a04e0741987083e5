"""What anybody can send: the first bytes of every protocol, of TLS, and requests of the login.

The first option selects one of three:

    bytes     to a connection that needs a login, with the native part of every protocol
    TLS       to a connection that is encrypted
    requests  frames to the gate of Kafka's protocol, as it is in a broker

Nothing is served before a login, no log changes, and a connection keeps little memory.
"""

import asyncio
import logging
import socket
import ssl
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker._native.protocols.cursus.login import CursusGate
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.http.protocol import Http
from broker._native.protocols.kafka.login import BARE_TOKEN, KafkaGate
from broker._native.protocols.rustlog.counters import RustLogCounters
from broker._native.protocols.rustlog.protocol import RustLog
from broker._native.protocols.v1.protocol import V1
from broker._native.wire.tls import TlsChannel
from broker.codec import messages
from broker.core.metrics.measured import Measured
from broker.core.security.login import Login, Stage
from broker.core.session import Session
from broker.model.clock import SystemClock
from broker.model.config import load
from broker.model.errors import CodecError, PeerError
from broker.model.sasl_limits import LOGIN_FRAME_BYTES_MAX
from broker.protocols.base import Answer
from broker.protocols.kafka.dispatch import Kafka
from broker.protocols.kafka.login_gate import LoginGate
from tests.fuzz import login_target
from tests.fuzz.connection_target import PIECE_SIZE, broker
from tests.fuzz.inputs import OPTIONS_SIZE, Options
from tests.support.authority import Authority
from tests.support.native_wire import PRODUCE, Client, Wire, api_row, fetch, produce, request

KINDS = 3
HANDSHAKE, VERSIONS, AUTHENTICATE = 17, 18, 36
ANSWER_BYTES_MAX = 16 << 10  # of a TLS handshake: certificates and an alert
HEAD = struct.Struct(">ihhih")
APIS = [api_row(key) for key in (PRODUCE, 1, 2, HANDSHAKE, VERSIONS, AUTHENTICATE)]


def before_login(data: bytes) -> None:
    """Feed one of the three."""
    options = Options(data)
    (_bytes, _tls, _requests)[options.byte(0) % KINDS](options)


def _ignore(*_: object) -> None:
    pass


def _bytes(options: Options) -> None:
    """Send bytes at once or in pieces; nobody answers."""
    wire = broker.wire()
    cursus = Cursus(None)
    cursus.guard_with(CursusGate(None, frame_bytes_max=LOGIN_FRAME_BYTES_MAX))
    wire.kafka.guard_with(KafkaGate(None, APIS, frame_bytes_max=LOGIN_FRAME_BYTES_MAX))
    wire.poller.serve_with(
        {
            "v1": V1(None, b"ERR\n"),
            "cursus": cursus,
            "http": Http(None),
            "rustlog": RustLog(None, RustLogCounters(), write_failed=b"failed"),
            "kafka": wire.kafka,
        },
        wire.slow.extend,
        _ignore,
    )
    before = [wire.log(place).log_end_offset for place in (0, 1)]
    client = _connect(wire, needs_login=True)
    _send(client, options)
    assert client.frames() == []  # whatever it was, it was not served
    assert len(wire.slow) <= 1  # the next request waits for the answer to this one
    assert [wire.log(place).log_end_offset for place in (0, 1)] == before
    _end(wire, client)


def _tls(options: Options) -> None:
    """Send bytes to a listener with TLS."""
    wire = broker.wire()
    wire.poller.serve_with({"kafka": wire.kafka}, wire.slow.extend, _ignore)
    secured: list[object] = []
    reasons: list[str] = []
    channel = TlsChannel(
        lambda incoming, outgoing: _CONTEXT.wrap_bio(incoming, outgoing, server_side=True),
        secured.append,
        lambda _, reason: reasons.append(reason),
    )
    client = _connect(wire, tls=channel)
    _send(client, options)
    assert secured == []
    assert len(client.received()) <= ANSWER_BYTES_MAX
    assert all(len(reason) < 200 for reason in reasons)
    _end(wire, client)


class _Raw(Client):
    """A client whose answers are no frames."""

    def received(self) -> bytes:
        """Return all bytes that have come."""
        self._receive()
        return bytes(self._received)


def _connect(wire: Wire, *, needs_login: bool = False, tls: TlsChannel | None = None) -> _Raw:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    client = object.__new__(_Raw)
    client.wire, client.socket, client._received = wire, near, bytearray()
    session = SimpleNamespace(is_identified=False)
    client.connection = wire.poller.add(
        far.detach(), "here", session, None, tls, needs_login=needs_login
    )
    wire.clients.append(client)
    return client


def _send(client: Client, options: Options) -> None:
    size = PIECE_SIZE if options.flag(1, 0) else max(1, len(options.content))
    for start in range(0, len(options.content), size):
        client.send(options.content[start : start + size])


def _end(wire: Wire, client: Client) -> None:
    client.close()
    wire.run()
    wire.slow.clear()
    wire.closed.clear()
    wire.clients.clear()


# ---- requests of the login, in Python ------------------------------------------------------------


class _AtOnce:
    """The thread of logins, without a thread."""

    async def outcome(self, step: Any) -> Any:
        """Return a step's outcome."""
        return step.run() if hasattr(step, "run") else step


_BROKER = SimpleNamespace(
    metrics=Measured(),
    security=SimpleNamespace(
        audit=None, authorizer=None, logins=SimpleNamespace(work=_AtOnce()), tokens=None
    ),
    clock=SystemClock(),
    config=load(),
)
_GATE = LoginGate(Kafka())
logging.getLogger("broker.core.authentication").setLevel(logging.CRITICAL)  # of each failed login
_LOOP = asyncio.new_event_loop()
_RULES = login_target.RULES._replace(reauthentication_ms=0)


def _requests(options: Options) -> None:
    """Send frames to the gate until it gives the connection up or opens."""
    session = Session(cast("Any", _BROKER), "127.0.0.1", "localhost", 9092)
    session.login = Login(_RULES)
    asyncio.set_event_loop(_LOOP)
    content = options.content
    is_bare = False
    while len(content) >= HEAD.size and session.login.stage is not Stage.OPEN:
        size, key, version, _, client_size = HEAD.unpack_from(content)
        end = max(0, min(size, LOGIN_FRAME_BYTES_MAX)) + 4
        frame, content = content[:end], content[end:]
        if key not in {HANDSHAKE, VERSIONS, AUTHENTICATE} and not is_bare:
            key = (HANDSHAKE, VERSIONS, AUTHENTICATE)[key % 3]
        operation = BARE_TOKEN if is_bare else key
        body = frame[4:] if is_bare else frame[HEAD.size + max(0, client_size) :]
        try:
            reply = _GATE.handle(operation, version, None, body, session)
            answer = (
                reply
                if isinstance(reply, (bytes, Answer))
                else _LOOP.run_until_complete(cast("Any", reply))
            )
        except (CodecError, PeerError):
            break
        if isinstance(answer, Answer):
            if answer.is_last:
                break
            is_bare = is_bare or (answer.login is not None and answer.login.is_bare)
    is_open = session.login.stage is Stage.OPEN
    assert (session.principal.name == login_target.USER) is is_open
    if is_open and session.login.mechanism == "PLAIN":
        assert login_target.PASSWORD.encode() in options.content


# ---- seeds ---------------------------------------------------------------------------------------


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(Authority(Path(folder)).key_store("server"))
    return context


_CONTEXT = _context()


def _head(kind: int, pieces: int = 0) -> bytes:
    return bytes([kind, pieces]).ljust(OPTIONS_SIZE, b"\0")


def seeds() -> Iterator[bytes]:
    """Return the beginnings of every protocol, a ClientHello, and whole logins."""
    versions = request(VERSIONS, 4, {})
    chosen = request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    token = f"\0{login_target.USER}\0{login_target.PASSWORD}".encode()
    proven = request(AUTHENTICATE, 2, {"auth_bytes": token})
    bare = request(HANDSHAKE, 0, {"mechanism": "PLAIN"}) + len(token).to_bytes(4, "big") + token
    for pieces in (0, 1):
        yield _head(0, pieces) + versions + chosen + proven
        yield _head(0, pieces) + produce(9, (0, b"")) + fetch(12, (0, 0))
        for data in (b"V1|1|PING|\n", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\4AUTH", b"\0\0\0\1\0"):
            yield _head(0, pieces) + data
        yield _head(1, pieces) + _client_hello()
    yield _head(1) + b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + bytes(100)
    yield _head(1) + b"\x15\x03\x03\x00\x02\x02\x50"
    yield _head(2) + versions + chosen + proven
    yield _head(2) + bare
    yield _head(2) + messages.request_frame(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
