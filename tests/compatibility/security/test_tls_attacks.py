"""What breaks, delays or abuses TLS must not concern anyone else, and costs little memory."""

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from broker.core.tls.certificate_sizes import control
from broker.model.tls_limits import TLS_HANDSHAKE_MS_MAX
from tests.compatibility.programs import needs
from tests.support.authority import Authority
from tests.support.broker_process import wait_until
from tests.support.line_client import LineClient
from tests.support.secure_broker import SecureBroker
from tests.support.wire_client import WireClient

SET_MAX_SEND_FRAGMENT = 52  # of SSL_CTX_ctrl
ALERT = bytes.fromhex("15030300020250")
PROBE = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"
S_CLIENT = ("openssl", "s_client", "-connect")
CONNECTIONS = 300
FLOODING = 8  # clients at once
PRE_AUTHENTICATION_BYTES_MAX = 64 << 10
FLOOD_SECONDS = 60  # as long as it is let
SOON_S = 20  # longer than a loaded machine takes for an answer, shorter than a flood


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    broker = SecureBroker(
        tmp_path_factory.mktemp("secure"),
        settings=["ssl.client.auth=requested", "ssl.principal.mapping.rules=DEFAULT"],
    )
    broker.expected_complaints = ["TLS handshakes failed"]
    broker.start()
    yield broker
    assert broker.stop() == 0
    broker.check()


@pytest.fixture(autouse=True)
def _serves_others(secure: SecureBroker) -> Iterator[None]:
    yield
    assert answers(secure)


def answers(broker: SecureBroker, context: ssl.SSLContext | None = None) -> bool:
    """Return whether a client is answered."""
    with broker.open(context) as client:
        client.sendall(PROBE)
        return client.recv(100).startswith(b"HTTP/1.1 200")


def received(connection: socket.socket) -> bytes:
    """Return everything until the end of the connection."""
    data = b""
    try:
        while piece := connection.recv(4096):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize(
    "first",
    [PROBE, b"HELLO\n", bytes.fromhex("00000017001200030000000100016100"), b"\x80\x2e\x01\x03\x01"],
)
def test_plain_bytes_on_a_tls_listener_get_one_alert(secure: SecureBroker, first: bytes) -> None:
    with secure.open_raw() as client:
        client.sendall(first)

        assert received(client) == ALERT


def test_tls_on_a_plain_listener_is_closed_without_an_answer(secure: SecureBroker) -> None:
    host, port = secure.address.split(":")
    with socket.create_connection((host, int(port)), 30) as plain:
        context = secure.client_context()

        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            context.wrap_socket(plain, server_hostname="localhost")


def hello() -> bytes:
    """Return the first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("size", [1, 2, 6, 11, 100, -1])
def test_a_handshake_that_ends_early_is_over(secure: SecureBroker, size: int) -> None:
    with secure.open_raw() as client:
        client.sendall(hello()[:size])
        client.shutdown(socket.SHUT_WR)

        assert received(client) == b""


def test_every_changed_byte_of_a_first_message_ends_or_delays_only_its_connection(
    secure: SecureBroker,
) -> None:
    first = hello()
    for at in range(0, len(first), 7):
        changed = bytearray(first)
        changed[at] ^= 0xFF
        with secure.open_raw() as client:
            client.sendall(bytes(changed))
            client.shutdown(socket.SHUT_WR)
            received(client)


def test_a_handshake_may_arrive_byte_by_byte(secure: SecureBroker) -> None:
    with secure.open_raw() as client:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = secure.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    client.sendall(bytes([byte]))
                incoming.write(client.recv(65536))
        tls.write(PROBE)
        for byte in outgoing.read():
            client.sendall(bytes([byte]))
        answer = b""
        while not answer:  # tickets of TLS 1.3 may come first
            incoming.write(client.recv(65536))
            with suppress(ssl.SSLWantReadError):
                answer = tls.read(100)
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.slow("waits for the time that a handshake may take")
def test_silent_and_slow_handshakes_delay_nobody_have_little_memory_and_end(
    secure: SecureBroker,
) -> None:
    assert answers(secure)
    before, begun = secure.private_memory(), time.monotonic()
    with ExitStack() as stack:
        slow = [stack.enter_context(secure.open_raw()) for _ in range(CONNECTIONS)]
        for number, each in enumerate(slow):
            each.sendall((b"", hello()[:40], hello())[number % 3])
        started = time.monotonic()
        assert answers(secure)
        assert time.monotonic() - started < TLS_HANDSHAKE_MS_MAX / 1000 - 1, "it waited for one"
        used = secure.private_memory() - before
        assert used < CONNECTIONS * PRE_AUTHENTICATION_BYTES_MAX
        # All of them end when their time is over, whatever they have sent.
        for each in slow:
            each.settimeout(2 * TLS_HANDSHAKE_MS_MAX / 1000 + 30)
            received(each)
    assert time.monotonic() - begun > TLS_HANDSHAKE_MS_MAX / 1000 - 1


def test_a_flood_of_handshakes_leaves_time_for_others(secure: SecureBroker) -> None:
    """Another client is answered at least once while each flooding client makes a connection."""
    with (
        ThreadPoolExecutor(FLOODING) as pool,
        WireClient(secure.address) as other,
    ):
        floods = [pool.submit(answers, secure) for _ in range(CONNECTIONS)]
        answered = 0
        while not all(each.done() for each in floods):
            assert other.request("ApiVersions", 0, {})["api_keys"]
            answered += 1

        assert all(each.result() for each in floods)
    assert answered > CONNECTIONS / FLOODING


@pytest.mark.parametrize("version", ["tls1", "tls1_1"])
def test_old_versions_are_refused(secure: SecureBroker, version: str) -> None:
    needs("openssl", "speak old versions of TLS")
    done = subprocess.run(
        [*S_CLIENT, secure.secure, f"-{version}", "-cipher", "ALL:@SECLEVEL=0"],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode != 0
    assert "alert" in done.stderr.lower()


def test_a_client_that_only_renews_its_keys_is_closed_and_delays_nobody(
    secure: SecureBroker,
) -> None:
    """Each time costs the broker more than the client, and brings no data that ends a read."""
    command = [sys.executable, "-m", "tests.support.key_updates"]
    command += [str(secure.secure_port), str(FLOOD_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == "begun\n"
        begun = time.monotonic()
        assert answers(secure)
        assert time.monotonic() - begun < SOON_S
        flood.wait(2 * FLOOD_SECONDS)
        # (`communicate` would not see what the file object has read ahead.)
        assert int(flood.stdout.read()) < 50_000
    wait_until(
        lambda: any("records without data" in each for each in secure.log_lines()),
        "the end of its connection in the log",
    )


def test_a_client_cannot_renegotiate(secure: SecureBroker) -> None:
    needs("openssl", "renegotiate")
    with subprocess.Popen(
        [*S_CLIENT, secure.secure, "-tls1_2", "-CAfile", str(secure.authority.file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as client:
        assert client.stdin is not None
        client.stdin.write("R\n")
        client.stdin.flush()
        time.sleep(1)  # it reads its standard input when it likes
        output, _ = client.communicate("Q\n", timeout=60)

    assert "RENEGOTIATING" in output
    assert "no renegotiation" in output


def other_key(folder: Path, name: str) -> Path:
    return Authority(folder / name, "Other CA").key_store("stranger")


@pytest.mark.parametrize("kind", ["stranger", "expired"])
def test_a_wrong_certificate_is_refused_where_none_is_needed_too(
    secure: SecureBroker, tmp_path: Path, kind: str
) -> None:
    key_store = (
        other_key(tmp_path, "other")
        if kind == "stranger"
        else secure.authority.key_store("expired", days=-1)
    )

    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        answers(secure, secure.client_context(key_store))


def test_a_certificate_of_another_authority_with_a_trusted_name_is_refused(
    secure: SecureBroker, tmp_path: Path
) -> None:
    impostor = Authority(tmp_path / "impostor", "Test CA").key_store("alice")

    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        answers(secure, secure.client_context(impostor))


def test_a_certificate_may_be_missing_where_it_is_only_requested(secure: SecureBroker) -> None:
    assert answers(secure)
    assert answers(secure, secure.client_context(secure.authority.key_store("alice")))


def with_many_names(secure: SecureBroker, count: int) -> ssl.SSLContext:
    """Return the context of a client whose certificate has 24 bytes for each name."""
    names = [f"host-{number:05}.example.org" for number in range(count)]
    return secure.client_context(secure.authority.key_store(f"names-{count}", names))


def with_fragments(context: ssl.SSLContext, size: int) -> bool:
    """Let OpenSSL make records of this size."""
    return control(context, SET_MAX_SEND_FRAGMENT, size) == 1


def test_certificates_that_are_only_announced_take_little_memory(secure: SecureBroker) -> None:
    """All but the last bytes of the longest ones, in records that are small."""
    context = with_many_names(secure, 640)  # 15.5 KiB
    assert with_fragments(context, 2_000)
    assert answers(secure, context)
    before = secure.private_memory()
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            raw = stack.enter_context(secure.open_raw())
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(1 << 16))
            raw.sendall(outgoing.read()[:15_000])
        assert answers(secure)  # everything has arrived by now

        used = secure.private_memory() - before
    assert used < CONNECTIONS * PRE_AUTHENTICATION_BYTES_MAX


def test_certificates_of_more_than_16_kib_are_refused(secure: SecureBroker) -> None:
    with pytest.raises((ssl.SSLError, ConnectionResetError, BrokenPipeError)):
        answers(secure, with_many_names(secure, 700))


def test_a_line_that_was_cut_by_someone_else_is_not_served(secure: SecureBroker) -> None:
    """V1 serves the last line before an EOF without a newline: not if TLS has not ended."""
    with secure.open() as client:
        client.sendall(b"V1|1|PRODUCE|cut k:whole\n")
        assert client.recv(100).startswith(b"V1|1|OK")
        client.sendall(b"V1|2|PRODUCE|cut k:half of a lin")
        raw = socket.socket(fileno=client.detach())
        raw.settimeout(30)
        raw.shutdown(socket.SHUT_WR)
        received(raw)
        raw.close()

    with LineClient(secure.address) as plain:
        assert "half" not in plain.command("CONSUME cut 0 0")


def test_failures_are_counted_and_logged_at_a_limited_rate(secure: SecureBroker) -> None:
    for _ in range(50):
        with secure.open_raw() as client:
            client.sendall(b"x" * 20)
            received(client)

    lines = [each for each in secure.log_lines() if "TLS handshakes failed" in each]
    assert len(lines) < 20


def test_a_listener_that_requires_a_certificate_lets_nobody_in_without(tmp_path: Path) -> None:
    broker = SecureBroker(tmp_path, settings=["listener.name.ssl.ssl.client.auth=required"])
    broker.expected_complaints = ["TLS handshakes failed"]
    broker.start()
    try:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = broker.client_context()
            context.maximum_version = version
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                answers(broker, context)
        assert answers(broker, broker.client_context(broker.authority.key_store("alice")))
        wait_until(lambda: "peer did not return a certificate" in broker.stderr(), "logged")
    finally:
        assert broker.stop() == 0
    broker.check()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["ssl.keystore.location=/no/such/file"], "No such file"),
        (["ssl.keystore.location=/etc/hostname"], "other users may read or change it"),
        (["ssl.client.auth=required"], "ssl.truststore.location"),
        (["ssl.cipher.suites=NONE"], "ssl.cipher.suites"),
        (["ssl.principal.mapping.rules=RULE:("], "ssl.principal.mapping.rules"),
    ],
)
def test_a_broker_without_usable_keys_does_not_start(
    tmp_path: Path, settings: list[str], reason: str
) -> None:
    keys = Authority(tmp_path / "keys").key_store("server")
    command = [sys.executable, "-m", "broker", "start", "--data-dir", str(tmp_path / "data")]
    command += ["--listen", "SSL://127.0.0.1:0", "--set", f"ssl.keystore.location={keys}"]
    for each in settings:
        command += ["--set", each]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert "PRIVATE" not in done.stderr
