"""What anybody can send: the first bytes of every protocol, of TLS, and requests of the login.

The first option selects one of five:

    bytes     to a connection that needs a login, with the native part of every protocol
    TLS       to a connection that is encrypted
    kafka     frames to the gate of Kafka's protocol, as it is in a broker
    cursus    frames to the gate of Cursus
    http      the head of a request of a page

Nothing is served before a login, no log changes, and a connection keeps little memory.
"""

import socket
import ssl
import struct
import tempfile
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
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
from broker._native.wire.connection import NativeProtocol
from broker._native.wire.tls import TlsChannel
from broker.codec import messages
from broker.core.security import Security
from broker.core.security.failures import FailureDelays
from broker.core.security.login import Login, Stage
from broker.core.session import Session
from broker.model.config import Config
from broker.model.errors import CodecError, PeerError
from broker.model.sasl_limits import LOGIN_FRAME_BYTES_MAX
from broker.protocols.base import Answer, Immediate, Reply, WireProtocol
from broker.protocols.cursus.dispatch import PROTOCOL as CURSUS_PROTOCOL
from broker.protocols.cursus.login import LoginGate as CursusLoginGate
from broker.protocols.http.dispatch import PROTOCOL as HTTP_PROTOCOL
from broker.protocols.http.request import parse_head
from broker.protocols.http.table import PAGES
from broker.protocols.kafka.dispatch import Kafka
from broker.protocols.kafka.login_gate import LoginGate as KafkaLoginGate
from tests.fuzz import login_target
from tests.fuzz.connection_target import Wires, end, send
from tests.fuzz.inputs import OPTIONS_SIZE, Options
from tests.support.authority import Authority
from tests.support.fakes import FakeBroker
from tests.support.native_wire import PRODUCE, Client, Wire, api_row, fetch, produce, request

HANDSHAKE, VERSIONS, AUTHENTICATE = 17, 18, 36
ANSWER_BYTES_MAX = 16 << 10  # of a TLS handshake: certificates and an alert
HEAD = struct.Struct(">ihhih")
APIS = [api_row(key) for key in (PRODUCE, 1, 2, HANDSHAKE, VERSIONS, AUTHENTICATE)]
CURSUS_OPEN = (b"HELP", b"NEGOTIATE", b"PROTOCOL_INFO")


def before_login(data: bytes) -> None:
    """Feed one of the five."""
    options = Options(data)
    _KINDS[options.byte(0) % len(_KINDS)](options)


# ---- connections ---------------------------------------------------------------------------------


def _ignore(*_: object) -> None:
    pass


def _serve_guarded(wire: Wire) -> None:
    native_cursus = Cursus(None)
    native_cursus.guard_with(CursusGate(None, frame_bytes_max=LOGIN_FRAME_BYTES_MAX))
    native_http = Http(None)
    native_http.guard_with(Http(None))
    wire.kafka.guard_with(KafkaGate(None, APIS, frame_bytes_max=LOGIN_FRAME_BYTES_MAX))
    wire.poller.serve_with(
        {
            "v1": V1(None, b"ERR\n"),
            "cursus": native_cursus,
            "http": native_http,
            "rustlog": RustLog(None, RustLogCounters(), write_failed=b"failed"),
            "kafka": wire.kafka,
        },
        wire.slow.extend,
        _ignore,
    )


def _serve_encrypted(wire: Wire) -> None:
    wire.poller.serve_with({"kafka": wire.kafka}, wire.slow.extend, _ignore)


_GUARDED = Wires(_serve_guarded)
_ENCRYPTED = Wires(_serve_encrypted)


def _bytes(options: Options) -> None:
    """Send bytes at once or in pieces; nobody answers."""
    wire = _GUARDED.wire()
    client = _connect(wire, needs_login=True)
    send(client, options.content, is_in_pieces=options.flag(1, 0))
    assert client.frames() == []  # whatever it was, it was not served
    assert len(wire.slow) <= 1  # the next request waits for the answer to this one
    assert [wire.log(place).log_end_offset for place in (0, 1)] == [0, 0]
    end(wire, client)


def _tls(options: Options) -> None:
    """Send bytes to a listener with TLS."""
    wire = _ENCRYPTED.wire()
    secured: list[object] = []
    reasons: list[str] = []
    channel = TlsChannel(
        lambda incoming, outgoing: _CONTEXT.wrap_bio(incoming, outgoing, server_side=True),
        secured.append,
        lambda _, reason: reasons.append(reason),
    )
    client = _connect(wire, tls=channel)
    send(client, options.content, is_in_pieces=options.flag(1, 0))
    assert secured == []
    assert len(client.received()) <= ANSWER_BYTES_MAX
    assert all(len(reason) < 200 for reason in reasons)
    end(wire, client)


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
    client.connection = wire.poller.add(
        far.detach(), "here", _UNKNOWN, None, tls, needs_login=needs_login
    )
    wire.clients.append(client)
    return client


_UNKNOWN = SimpleNamespace(is_identified=False)


# ---- requests, in Python -------------------------------------------------------------------------


class _AtOnce:
    """The thread of logins, without a thread."""

    async def outcome(self, step: Any, _address: str) -> Any:
        """Return a step's outcome."""
        return step.run() if hasattr(step, "run") else step


class _Cached:
    """Answers that are kept, made anew each time."""

    async def get(self, _: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Make one."""
        return await make()


class _RefusesAll:
    """An authorizer."""

    def permissions(self, *_: object) -> None:
        """Nothing is known to native paths."""

    def allows(self, *_: object) -> bool:
        """Nobody may do anything."""
        return False


def _secured_broker() -> Any:
    fake = FakeBroker()
    logins = SimpleNamespace(work=_AtOnce(), failures=FailureDelays(fake.broker.clock.monotonic_ms))
    security = Security(
        cast("Any", _RefusesAll()), users=fake.broker.security.users, logins=cast("Any", logins)
    )
    return fake.broker._replace(security=security, response_cache=cast("Any", _Cached()))


_BROKER = _secured_broker()
_KAFKA_GATE = KafkaLoginGate(Kafka())
_HTTP = HTTP_PROTOCOL()
_RULES = login_target.RULES._replace(reauthentication_ms=0)


def _session() -> tuple[Session, Login]:
    session = Session(_BROKER, "127.0.0.1", "localhost", 9092)
    login = session.login = Login(_RULES)
    return session, login


def _immediate(reply: Reply) -> Immediate:
    """Return an answer; those of a login wait for nothing but their turn."""
    if isinstance(reply, (bytes, Answer)):
        return reply
    assert isinstance(reply, Awaitable)
    turns = reply.__await__()
    try:
        while True:
            assert next(turns) is None
    except StopIteration as done:
        return cast("Immediate", done.value)


def _check_principal(session: Session, content: bytes) -> bool:
    """Check that whoever is known has sent what only that user knows; return whether one is."""
    if not session.is_identified:
        return False
    assert session.principal.name == login_target.USER
    assert login_target.PASSWORD.encode() in content
    return True


def _kafka(options: Options) -> None:
    """Send frames to the gate until it gives the connection up or opens."""
    session, login = _session()
    content = options.content
    is_bare = False
    while len(content) >= HEAD.size and login.stage is not Stage.OPEN:
        size, key, version, _, client_size = HEAD.unpack_from(content)
        frame_end = max(0, min(size, LOGIN_FRAME_BYTES_MAX)) + 4
        frame, content = content[:frame_end], content[frame_end:]
        if key not in {HANDSHAKE, VERSIONS, AUTHENTICATE} and not is_bare:
            key = (HANDSHAKE, VERSIONS, AUTHENTICATE)[key % 3]
        operation = BARE_TOKEN if is_bare else key
        body = frame[4:] if is_bare else frame[HEAD.size + max(0, client_size) :]
        try:
            answer = _immediate(_KAFKA_GATE.handle(operation, version, None, body, session))
        except (CodecError, PeerError):
            break
        if isinstance(answer, Answer):
            if answer.is_last:
                break
            is_bare = is_bare or (answer.login is not None and answer.login.is_bare)
    is_open = login.stage is Stage.OPEN
    assert session.is_identified is is_open
    if login.mechanism == "PLAIN":
        _check_principal(session, options.content)


class _BehindTheGate(WireProtocol):
    """What Cursus serves; it must not be asked for anything else before a login."""

    name = "cursus"

    def native_protocol(self, config: Config) -> NativeProtocol:
        """Return that of what is behind."""
        return _CURSUS.native_protocol(config)

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve what needs no login; anything else only afterwards."""
        if session.is_identified:
            return b"OK"
        answer = _immediate(_CURSUS.handle(operation, version, client_id, body, session))
        assert any(word in body.upper() for word in CURSUS_OPEN)
        assert not session.broker.topics.names()
        return answer


_CURSUS = CURSUS_PROTOCOL()
_CURSUS_GATE = CursusLoginGate(_BehindTheGate())
SIZE = struct.Struct(">I")


def _cursus(options: Options) -> None:
    """Send frames to the gate until one of them logs in."""
    session, _ = _session()
    content = options.content
    while len(content) > SIZE.size and not session.is_identified:
        [size] = SIZE.unpack_from(content)
        frame, content = content[SIZE.size : SIZE.size + size], content[SIZE.size + size :]
        try:
            answer = _immediate(_CURSUS_GATE.handle(0, 0, None, frame, session))
        except PeerError:
            break
        if isinstance(answer, Answer) and answer.login is not None:
            assert session.is_identified
    _check_principal(session, options.content)


def _http(options: Options) -> None:
    """Send the head of a request."""
    session, _ = _session()
    answer = _immediate(_HTTP.handle(0, 0, None, options.content, session))
    assert isinstance(answer, Answer)
    assert answer.is_last
    assert answer.body is not None
    head, _, body = answer.body.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert head.count(b"HTTP/1.1 ") == 1
    if _is_known_by_field(session, options.content):
        assert status in {200, 403, 404, 405}
    elif status == 200:
        request = parse_head(options.content)
        assert request is not None
        assert PAGES[request.path].before_login is not None
        assert len(body) < 40
    else:
        assert status in {400, 401, 404, 405}


def _is_known_by_field(session: Session, content: bytes) -> bool:
    if not session.is_identified:
        return False
    assert session.principal.name == login_target.USER
    fields = content.replace(b"\n", b" ").split()
    assert any(_BASIC.rstrip(b"=") in each for each in fields), content
    return True


_KINDS = (_bytes, _tls, _kafka, _cursus, _http)
_BASIC = b64encode(f"{login_target.USER}:{login_target.PASSWORD}".encode())

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


def _frames(*texts: bytes) -> bytes:
    return b"".join(SIZE.pack(len(each)) + each for each in texts)


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
    words = f"principal={login_target.USER} token={login_target.PASSWORD}".encode()
    yield _head(3) + _frames(b"HELP", b"LIST", b"PROTOCOL_INFO", b"NEGOTIATE features=x")
    yield _head(3) + _frames(b"AUTH " + words, b"\0\5topicAUTH " + words)
    yield _head(3) + _frames(b"LIST " + words.replace(b"token", b"auth_token"), b"\xba\x7c\0")
    for path in ("/metrics", "/health/ready", "/health/cluster", "/clients?x=1"):
        yield _head(4) + f"GET {path} HTTP/1.1\r\nHost: x".encode()
        yield _head(4) + f"GET {path} HTTP/1.1\r\nAuthorization: Basic ".encode() + _BASIC
    yield _head(4) + b"HEAD / HTTP/1.0\r\nAccept: */*\r\nAuthorization: Bearer " + _BASIC
