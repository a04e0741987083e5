"""The combinations of the security matrix, and a broker that has a listener for each.

    listener name      TLS of the connection          login
    NONE, TLS, MTLS    none, server, both sides       none
    SASL_NONE, ...     the same                       by every mechanism

The same broker is started twice: without an authorizer, and with one that allows each client only
what it needs.
"""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from joserfc import jwk, jwt

from tests.support.acl_broker import create_acls
from tests.support.application_acls import application_acls
from tests.support.certificates import Authority
from tests.support.configured_broker import AUTHORIZER, ConfiguredBroker, joined, plain_users
from tests.support.login_client import LoginClient

TLS_KINDS = ("NONE", "TLS", "MTLS")
MECHANISMS = ("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PROTOCOLS = {"NONE": "PLAINTEXT", "TLS": "SSL", "MTLS": "SSL"}
SASL_PROTOCOLS = {"PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SASL_SSL"}
ADMIN, ADMIN_PASSWORD = "admin", "of-admin"
USER, PASSWORD = "alice", "of-alice, with \u00e4"
CERTIFICATE_NAME = "matrix"
AUDIENCE, ISSUER = "polylog", "https://issuer.example"
TOKEN_SECONDS = 3600


class Combination(NamedTuple):
    """How one client connects."""

    tls: str
    mechanism: str  # empty: it does not log in
    has_acls: bool

    def __str__(self) -> str:
        """Its name in messages."""
        return f"{self.tls} {self.mechanism or 'no login'} {'ACLs' if self.has_acls else 'open'}"

    @property
    def listener(self) -> str:
        """The name of its listener."""
        return f"SASL_{self.tls}" if self.mechanism else self.tls

    @property
    def protocol(self) -> str:
        """Kafka's security protocol."""
        plain = PROTOCOLS[self.tls]
        return SASL_PROTOCOLS[plain] if self.mechanism else plain

    @property
    def principal(self) -> str:
        """Who the client is to the broker."""
        if self.mechanism:
            return f"User:{USER}"
        return f"User:CN={CERTIFICATE_NAME}" if self.tls == "MTLS" else "User:ANONYMOUS"


ALL = [
    Combination(tls, mechanism, has_acls)
    for tls in TLS_KINDS
    for mechanism in MECHANISMS
    for has_acls in (False, True)
]


class Access(NamedTuple):
    """What a client needs for a combination; files are absent ("") where it has no use of them."""

    address: str
    protocol: str
    trust_store: str
    key_store: str
    mechanism: str
    user: str
    password: str
    token: str
    token_file: str


class Matrix:
    """Two brokers, their keys, and tokens for their users."""

    def __init__(self, folder: Path) -> None:
        """Start them."""
        folder.mkdir()
        self._authority = Authority(folder)
        self._server = joined(self._authority.issue("server"), folder / "server.pem")
        self._client = joined(self._authority.issue(CERTIFICATE_NAME), folder / "client.pem")
        key = jwk.generate_key("EC", "P-256", {"kid": "of-the-tests", "use": "sig"})
        assert isinstance(key, jwk.ECKey)
        self._key = key
        self._keys = folder / "keys.json"
        self._keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
        self._token = jwt.encode({"alg": "ES256", "kid": "of-the-tests"}, claims(), key)
        self._token_file = folder / "token"
        self._token_file.write_text(self._token)
        self._brokers = {has_acls: self._start(folder, has_acls=has_acls) for has_acls in (0, 1)}

    def _start(self, folder: Path, *, has_acls: int) -> ConfiguredBroker:
        own = folder / ("with-acls" if has_acls else "open")
        own.mkdir()
        names = [*TLS_KINDS, *(f"SASL_{each}" for each in TLS_KINDS)]
        settings = self._settings(names) | (
            {"authorizer.class.name": AUTHORIZER, "super.users": f"User:{ADMIN}"}
            if has_acls
            else {}
        )
        broker = ConfiguredBroker(own, names, settings)
        broker.start()
        with self._admin(broker) as admin:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                admin.put_scram_user(USER, PASSWORD, mechanism)
        return broker

    def _settings(self, names: list[str]) -> dict[str, str]:
        protocols = {each: PROTOCOLS[each] for each in TLS_KINDS}
        protocols |= {f"SASL_{each}": SASL_PROTOCOLS[PROTOCOLS[each]] for each in TLS_KINDS}
        jaas = plain_users({ADMIN: ADMIN_PASSWORD, USER: PASSWORD})
        settings = {
            "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
            "inter.broker.listener.name": "NONE",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS[1:]),
            "ssl.keystore.location": str(self._server),
            "ssl.truststore.location": str(self._authority.own.certificate),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self._keys}",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "offsets.topic.num.partitions": "1",
        }
        for name in names:
            if name.endswith("MTLS"):
                settings[f"listener.name.{name.lower()}.ssl.client.auth"] = "required"
            if name.startswith("SASL_"):
                settings[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = jaas
        return settings

    def _admin(self, broker: ConfiguredBroker) -> LoginClient:
        client = LoginClient(broker.of_listener["SASL_NONE"])
        client.log_in(ADMIN, ADMIN_PASSWORD)
        return client

    def access(self, combination: Combination) -> Access:
        """Return what a client needs."""
        broker = self._brokers[combination.has_acls]
        uses_tls, shows_own = combination.tls != "NONE", combination.tls == "MTLS"
        return Access(
            broker.of_listener[combination.listener],
            combination.protocol,
            str(self._authority.own.certificate) if uses_tls else "",
            str(self._client) if shows_own else "",
            combination.mechanism,
            USER,
            PASSWORD,
            self._token,
            str(self._token_file),
        )

    def prepare(
        self, combination: Combination, topics: list[str], acls: list[dict[str, Any]]
    ) -> None:
        """Create topics, and what allows the client to use some of them."""
        with self._admin(self._brokers[combination.has_acls]) as admin:
            for name in topics:
                admin.create_topic(name)
            if combination.has_acls:
                assert create_acls(admin, *acls) == [0] * len(acls)

    def check(self) -> None:
        """Stop both, and fail if one of them has complained."""
        for broker in self._brokers.values():
            broker.stop()
            broker.check()


def least_acls(principal: str, topic: str, group: str) -> list[dict[str, Any]]:
    """Return the entries that a producer and a consumer need."""
    return [
        *application_acls("producer", principal, topic=topic),
        *application_acls("consumer", principal, topic=topic, group_id=group),
    ]


def claims() -> dict[str, str | int]:
    """Return the claims of the user's token."""
    now = int(time.time())
    return {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + TOKEN_SECONDS}
