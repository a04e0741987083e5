"""Addresses and classes that settings name: nobody makes the broker connect, or load anything.

What could be connected to is an attacker's listener, which counts who comes.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.broker_process import Broker, BrokerProcess
from tests.support.certificates import Authority
from tests.support.wire_client import WireClient

EXIT_USAGE = 2
BROKER = 4  # the type of a resource
NONE, INVALID_REQUEST = 0, 42
INVALID_CONFIG = 40
URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED = "polylog.sasl.oauthbearer.allowed.urls"
JNDI = "com.sun.security.auth.module.JndiLoginModule"
LDAP = "com.sun.security.auth.module.LdapLoginModule"
LISTENER = "listener.name.sasl_plaintext"


class Trap:
    """A listener that counts its connections; with a context it answers each with a redirect."""

    def __init__(self, context: ssl.SSLContext | None = None, redirect: str = "") -> None:
        """Listen on a free port."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._context = context
        self._redirect = redirect
        self.port: int = self._socket.getsockname()[1]
        self.came = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, suppress(OSError):
                self.came += 1
                client.settimeout(10)
                if self._context is not None:
                    with self._context.wrap_socket(client, server_side=True) as secure:
                        secure.recv(1 << 16)
                        head = f"HTTP/1.1 302 Found\r\nLocation: {self._redirect}\r\n"
                        secure.sendall(f"{head}Content-Length: 0\r\n\r\n".encode())

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@pytest.fixture
def trap() -> Iterator[Trap]:
    """A listener that nobody should connect to."""
    trap = Trap()
    yield trap
    trap.close()


def refusal(folder: Path, *settings: str, trusts: Path | None = None) -> str:
    """Start a broker that asks for tokens, which must be refused; return what it says."""
    broker = BrokerProcess(
        folder,
        settings=("sasl.enabled.mechanisms=OAUTHBEARER", *settings),
        listen="SASL_PLAINTEXT://127.0.0.1:0",
    )
    if trusts is not None:
        broker.environment["SSL_CERT_FILE"] = str(trusts)
    broker.launch()
    assert broker.wait() == EXIT_USAGE, broker.stderr()
    return broker.stderr()


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:{}/keys",
        "http://127.0.0.1:{}/keys",
        "ldap://127.0.0.1:{}/keys",
        "file://127.0.0.1:{}/etc/passwd",
    ],
)
def test_keys_of_tokens_are_asked_of_no_address_that_is_not_listed(
    tmp_path: Path, trap: Trap, url: str
) -> None:
    given = url.format(trap.port)

    said = refusal(tmp_path, f"{LISTENER}.oauthbearer.{URL}={given}")

    assert given in said
    assert "Traceback" not in said
    assert trap.came == 0


def test_a_listed_address_leads_to_no_other_one(tmp_path: Path, trap: Trap) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("issuer")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    issuer = Trap(context, redirect=f"http://127.0.0.1:{trap.port}/latest/meta-data")
    url = f"https://127.0.0.1:{issuer.port}/keys"

    said = refusal(
        tmp_path,
        f"{LISTENER}.oauthbearer.{URL}={url}",
        f"{ALLOWED}={url}",
        trusts=authority.own.certificate,
    )
    issuer.close()

    assert f"{url} answers 302" in said
    assert issuer.came == 1
    assert trap.came == 0


KNOWN = {
    "sasl.jaas.config": f'{JNDI} required user.provider.url="ldap://127.0.0.1:{{}}/x";',
    f"{LISTENER}.plain.sasl.jaas.config": f'{LDAP} required userProvider="ldap://127.0.0.1:{{}}";',
    f"{LISTENER}.oauthbearer.{URL}": "http://127.0.0.1:{}/x",
    URL: "file:///etc/passwd",
    "authorizer.class.name": "org.example.Authorizer",
    f"{LISTENER}.plain.sasl.server.callback.handler.class": "org.example.Handler",
}
UNKNOWN = {
    "principal.builder.class": "os.system",
    "metric.reporters": "org.example.Reporter",
    "config.providers.env.class": "org.example.Provider",
}


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
def test_a_running_broker_takes_no_class_and_no_address_from_a_client(
    broker: Broker, trap: Trap, name: str
) -> None:
    """CVE-2023-25194, CVE-2025-27817, CVE-2025-27818, CVE-2025-27819."""
    value, is_unknown = (KNOWN | UNKNOWN)[name].format(trap.port), name in UNKNOWN
    with WireClient(broker.address) as client:
        config = {"name": name, "config_operation": 0, "value": value}
        for resource in ("1", ""):
            row = {"resource_type": BROKER, "resource_name": resource, "configs": [config]}
            body = {"resources": [row], "validate_only": False}
            [answer] = client.request("IncrementalAlterConfigs", 1, body)["responses"]
            # As Kafka does it takes names that mean nothing to it, for plug-ins that it has not.
            assert answer["error_code"] in {NONE, INVALID_REQUEST, INVALID_CONFIG}, answer
            assert (answer["error_code"] == NONE) == is_unknown
        described = client.request(
            "DescribeConfigs",
            4,
            {"resources": [{"resource_type": BROKER, "resource_name": "1"}]},
        )

    shown = {each["name"]: each["value"] for each in described["results"][0]["configs"]}
    assert shown.get(name) != value
    assert trap.came == 0
