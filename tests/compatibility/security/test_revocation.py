"""Revoked certificates: a list of them counts where a setting names its file."""

import ssl
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.support.authority import Authority
from tests.support.broker_process import wait_until
from tests.support.secure_broker import SecureBroker

PROBE = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"
SECONDS = 60
SETTING = "polylog.ssl.crl.location"
Start = Callable[..., SecureBroker]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


@pytest.fixture
def start(tmp_path: Path, authority: Authority) -> Iterator[Start]:
    """Start the broker, which asks for certificates."""
    broker = SecureBroker(tmp_path, settings=["ssl.client.auth=required"], authority=authority)
    broker.expected_complaints = ["TLS handshakes failed"]

    def start(*settings: str) -> SecureBroker:
        broker.settings = (*broker.settings, *settings)
        broker.start()
        return broker

    yield start
    assert broker.stop() == 0
    broker.check()


def is_let_in(
    broker: SecureBroker, key_store: Path, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> bool:
    """Return whether a client is answered; what the broker tells it otherwise is a TLS alert."""
    context = broker.client_context(key_store)
    context.maximum_version = version
    try:
        with broker.open(context) as client:
            client.sendall(PROBE)
            return client.recv(100).startswith(b"HTTP/1.1 200")
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
        return False


def test_a_revoked_certificate_is_refused_as_soon_as_a_list_names_it(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    alice, bob = authority.key_store("alice"), authority.key_store("bob")
    lists = authority.revocation_list(tmp_path / "crl.pem", bob)
    broker = start(f"{SETTING}={lists}")

    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        assert is_let_in(broker, alice, version)
        assert not is_let_in(broker, bob, version)
    wait_until(lambda: "certificate revoked" in broker.stderr(), "logged")
    with broker.open(broker.client_context(alice)) as client:
        authority.revocation_list(lists, alice)
        wait_until(lambda: not is_let_in(broker, alice), "the changed file counts")
        client.sendall(PROBE)
        assert client.recv(100).startswith(b"HTTP/1.1 200")  # it came before that
    assert is_let_in(broker, bob)
    broker.kill()
    broker.start()
    assert [is_let_in(broker, each) for each in (alice, bob)] == [False, True]


@pytest.mark.parametrize("kind", ["of another authority", "of the past", "of the future"])
def test_without_a_list_in_force_nobody_is_let_in(
    start: Start, authority: Authority, tmp_path: Path, kind: str
) -> None:
    day = timedelta(days=1)
    times = {
        "of another authority": {},
        "of the past": {"issued": -2 * day, "expires": -day},
        "of the future": {"issued": day, "expires": 2 * day},
    }
    by = Authority(tmp_path / "others") if kind == "of another authority" else authority
    lists = by.revocation_list(tmp_path / "crl.pem", **times[kind])
    alice = authority.key_store("alice")

    broker = start(f"{SETTING}={lists}")
    broker.expected_complaints.append("revocation list expires")

    assert not is_let_in(broker, alice)
    if kind == "of the past":
        wait_until(lambda: "revocation list expires: listener=SSL" in broker.stderr(), "logged")
        authority.revocation_list(lists)
        wait_until(lambda: is_let_in(broker, alice), "the renewed file counts")


def test_no_list_is_asked_unless_a_setting_names_one_and_a_damaged_one_is_refused(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    alice = authority.key_store("alice")
    lists = authority.revocation_list(tmp_path / "crl.pem", alice)
    damaged = authority.revocation_list(tmp_path / "damaged.pem")
    damaged.write_bytes(damaged.read_bytes().replace(b"\nMI", b"\nAA", 1))
    broker = start()

    assert is_let_in(broker, alice)
    assert altered(broker, str(damaged)) == KafkaError.INVALID_REQUEST
    assert altered(broker, str(authority.file)) == KafkaError.INVALID_REQUEST  # not a list
    assert is_let_in(broker, alice)
    assert altered(broker, str(lists)) == KafkaError.NO_ERROR
    assert not is_let_in(broker, alice)
    assert altered(broker, None) == KafkaError.NO_ERROR
    assert is_let_in(broker, alice)


def altered(broker: SecureBroker, path: str | None) -> int:
    """Set or delete the setting over the plain listener; return the error."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    kind = AlterConfigOpType.DELETE if path is None else AlterConfigOpType.SET
    name = f"listener.name.ssl.{SETTING}"
    resource.add_incremental_config(ConfigEntry(name, path, incremental_operation=kind))
    try:
        admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    except KafkaException as refused:
        code: int = refused.args[0].code()
        return code
    return KafkaError.NO_ERROR
