"""Contexts of key stores and settings: which are refused, and with what message."""

import ssl
from pathlib import Path

import pytest

from broker.core.tls.contexts import Secured, secured
from broker.model.config import load
from broker.model.errors import ConfigError
from tests.support.authority import Authority
from tests.support.private_file import write_private


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def made(*settings: str, client_auth: str = "none", is_of_brokers: bool = False) -> Secured:
    config = load(["listeners=SSL://127.0.0.1:1", *settings])
    values = config.of_listener(config.listeners[0])
    return secured(values, client_auth, "listener SSL", is_of_brokers=is_of_brokers)


def agreed(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, str]:
    """Return the version and the cipher of a handshake."""
    at_server, at_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(at_server, at_client, server_side=True),
        client.wrap_bio(at_client, at_server, server_hostname="localhost"),
    ]
    for _ in range(4):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    version, cipher = ends[1].version(), ends[1].cipher()
    assert version is not None
    assert cipher is not None
    return version, cipher[0]


def client_of(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.file))


def test_tls_1_3_is_preferred(authority: Authority) -> None:
    server = made(f"ssl.keystore.location={authority.key_store('server')}")

    assert agreed(server.of_clients, client_of(authority))[0] == "TLSv1.3"
    assert server.certificate.subject == "CN=server"


def test_an_rsa_key_and_an_encrypted_one_are_taken(authority: Authority) -> None:
    path = authority.key_store("rsa", is_rsa=True, password=b"secret")
    server = made(f"ssl.keystore.location={path}", "ssl.key.password=secret")

    assert agreed(server.of_clients, client_of(authority))[0] == "TLSv1.3"


@pytest.mark.parametrize("password", ["", "ssl.key.password=wrong"])
def test_an_encrypted_key_without_its_password_is_refused_and_nobody_is_asked_for_it(
    authority: Authority, password: str
) -> None:
    path = authority.key_store("encrypted", password=b"secret")
    settings = [f"ssl.keystore.location={path}", *([password] if password else [])]

    with pytest.raises(ConfigError, match="private key is not usable") as refused:
        made(*settings)

    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize("is_one_line", [False, True])
def test_keys_and_certificates_may_be_in_the_settings_themselves(
    authority: Authority, is_one_line: bool
) -> None:
    pem = authority.pem([("CN", "inline")]).decode()
    at = pem.index("-----BEGIN CERTIFICATE")
    key, chain, ca = pem[:at], pem[at:], authority.file.read_text()
    if is_one_line:
        key, chain, ca = (each.replace("\n", " ") for each in (key, chain, ca))
    server = made(
        f"ssl.keystore.key={key}",
        f"ssl.keystore.certificate.chain={chain}",
        f"ssl.truststore.certificates={ca}",
        client_auth="required",
    )

    assert server.of_clients.verify_mode is ssl.CERT_REQUIRED
    assert server.certificate.subject == "CN=inline"


@pytest.mark.parametrize(
    "kind", [["ssl.keystore.type=PKCS12"], ["ssl.keystore.type=JKS"], []], ids=["said", "jks", ""]
)
def test_pkcs12_stores_are_read_as_java_reads_them(
    authority: Authority, tmp_path: Path, kind: list[str]
) -> None:
    authority.pkcs12_store(tmp_path / "store.p12", "p12", b"pw")
    given = [f"ssl.keystore.location={tmp_path}/store.p12", *kind]

    assert made(*given, "ssl.keystore.password=pw").certificate.subject == "CN=p12"
    with pytest.raises(ConfigError, match="another password"):
        made(*given, "ssl.keystore.password=no")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "there is no certificate"),
        (b"\xff\xfe\x00", "neither PEM nor PKCS12"),
        (b"\xfe\xed\xfe\xed\x00\x00\x00\x02", "keytool -importkeystore"),
        (b"\x30\x80", "not a PKCS12 store"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no private key"),
        (
            (
                b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
            ),
            "damaged",
        ),
        (b"x" * (1 << 20) + b"x", "more than"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_key_store_is_refused(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "store.pem"
    if content is not None:
        write_private(path, content)

    with pytest.raises(ConfigError, match=reason) as refused:
        made(f"ssl.keystore.location={path}")

    assert f"listener SSL: ssl.keystore.location={path}" in str(refused.value)


def test_a_key_of_another_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    one, other = (authority.pem([("CN", each)]) for each in ("one", "other"))
    at = one.index(b"-----BEGIN CERTIFICATE")
    mixed = other[: other.index(b"-----BEGIN CERT")] + one[at:]
    write_private(tmp_path / "mixed.pem", mixed)

    with pytest.raises(ConfigError, match="private key is not usable"):
        made(f"ssl.keystore.location={tmp_path}/mixed.pem")


def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not a regular file"):
        made(f"ssl.keystore.location={tmp_path}")
    with pytest.raises(ConfigError, match="TLS needs a key and a certificate"):
        made()


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_client_certificates_need_an_authority(authority: Authority, client_auth: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location"):
        made(f"ssl.keystore.location={authority.key_store('s')}", client_auth=client_auth)


def test_brokers_need_an_authority_for_each_others_certificates(authority: Authority) -> None:
    keys = f"ssl.keystore.location={authority.key_store('s')}"
    trust = f"ssl.truststore.location={authority.file}"

    with pytest.raises(ConfigError, match="brokers check each other"):
        made(keys, is_of_brokers=True)
    both = made(keys, trust, is_of_brokers=True)
    assert both.to_brokers is not None
    assert both.to_brokers.check_hostname
    unchecked = made(keys, trust, "ssl.endpoint.identification.algorithm=", is_of_brokers=True)
    assert unchecked.to_brokers is not None
    assert not unchecked.to_brokers.check_hostname


@pytest.mark.parametrize(
    ("settings", "version", "cipher"),
    [
        (["ssl.enabled.protocols=TLSv1.2"], "TLSv1.2", "ECDHE-"),
        (
            ["ssl.cipher.suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"],
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        (["ssl.cipher.suites=ECDHE-ECDSA-CHACHA20-POLY1305"], "TLSv1.2", "ECDHE-ECDSA-CHACHA20"),
        (
            ["ssl.cipher.suites=TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"],
            "TLSv1.2",
            "ECDHE-ECDSA-CHACHA20",
        ),
        (["ssl.cipher.suites=TLS_AES_256_GCM_SHA384"], "TLSv1.3", "TLS_"),
    ],
)
def test_versions_and_ciphers_are_those_of_the_settings(
    authority: Authority, settings: list[str], version: str, cipher: str
) -> None:
    server = made(f"ssl.keystore.location={authority.key_store('server')}", *settings)

    found = agreed(server.of_clients, client_of(authority))
    assert found[0] == version
    assert found[1].startswith(cipher)


@pytest.mark.parametrize(
    "settings",
    [
        ["ssl.cipher.suites=TLS_NO_SUCH_THING"],
        ["ssl.cipher.suites=TLS_AES_256_GCM_SHA384", "ssl.enabled.protocols=TLSv1.2"],
    ],
)
def test_settings_that_leave_no_cipher_are_refused(
    authority: Authority, settings: list[str]
) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.cipher\.suites"):
        made(f"ssl.keystore.location={authority.key_store('server')}", *settings)


def test_a_client_with_old_versions_is_refused(authority: Authority) -> None:
    server = made(f"ssl.keystore.location={authority.key_store('server')}").of_clients

    assert server.minimum_version is ssl.TLSVersion.TLSv1_2
    assert server.options & ssl.OP_NO_RENEGOTIATION
