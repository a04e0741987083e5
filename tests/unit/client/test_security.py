"""The settings of a client's security, as they are kept, compared and passed on."""

import pickle
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from broker.client.connection import Client
from broker.client.pool import Pool
from broker.client.secured import Secured, checking_context
from broker.client.security import SETTINGS, SecuritySettings, read_security
from broker.model.address import Address
from broker.model.errors import ConfigError, TimedOut, Unreachable
from tests.support.certificates import Authority
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import scripted_broker

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
GIVEN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{MODULE} required username="alice" password="a secret";',
}


def test_they_pass_to_another_process_and_show_no_value() -> None:
    made = SecuritySettings(GIVEN | {"linger.ms": "5"})
    assert made.secured().credentials is not None  # what is made of them stays here

    passed = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own

    assert passed == made
    assert hash(passed) == hash(made)
    assert passed != SecuritySettings(GIVEN | {"sasl.mechanism": "PLAIN"})
    assert passed.secured().credentials == made.secured().credentials
    assert (
        repr(made) == f"SecuritySettings({', '.join(each for each in SETTINGS if each in GIVEN)})"
    )


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.truststore.certificates"])
def test_a_store_without_its_type_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected PEM"):
        SecuritySettings({"security.protocol": "SSL", name: "x"}).secured()


def test_an_idle_connection_is_not_lent_to_somebody_else() -> None:
    with scripted_broker(lambda *_: None) as broker:
        pool = Pool(ManualClock())
        plain = SecuritySettings({"security.protocol": "PLAINTEXT"})
        for security in (None, plain, None, plain):
            with pool.lease(broker.address, "a", security) as client:
                client.request("ApiVersions", 0, {})
        pool.close()
        assert broker.connections == 2


def test_a_handshake_that_is_not_answered_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address("127.0.0.1", cast("Any", silent.getsockname())[1])
        secured = Secured(ssl.create_default_context())
        with pytest.raises(Unreachable):
            Client(address, timeout_seconds=0.2, secured=secured)


def test_an_authority_without_extensions_is_accepted_under_every_python() -> None:
    context = checking_context(None)

    assert not context.verify_flags & ssl.VERIFY_X509_STRICT  # the default since 3.13
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_an_answer_over_tls_that_does_not_come_is_a_timeout(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with context.wrap_socket(connection, server_side=True) as reader:
                while reader.recv(1 << 16):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        address = Address("127.0.0.1", listening.getsockname()[1])
        secured = Secured(authority.client_context())
        with (
            Client(address, timeout_seconds=0.5, secured=secured) as client,
            pytest.raises(TimedOut, match="timed out"),
        ):
            client.request("ApiVersions", 0, {})
        thread.join(10)


def test_a_line_of_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=x\nclient.rack=\\u12\n")

    with pytest.raises(ConfigError, match=r"client\.properties:2: \\u is followed"):
        read_security(file)
