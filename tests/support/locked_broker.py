"""A broker that lets nobody in without TLS, a login and ACLs, and what its clients are told."""

import ssl
from pathlib import Path
from typing import Any

from tests.support.acl_broker import create_acls
from tests.support.certificates import Authority
from tests.support.configured_broker import AUTHORIZER, ConfiguredBroker, key_store, plain_users
from tests.support.login_client import LoginClient
from tests.support.wire_requests import create_topic

LISTENER = "SASL_SSL"
ADMIN, ADMIN_PASSWORD = "admin", "of-admin"
SCRAM = "SCRAM-SHA-512"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class LockedBroker(ConfiguredBroker):
    """`broker start` with one listener, SASL_SSL, an authorizer and one super user."""

    def __init__(self, folder: Path, *settings: str) -> None:
        """Make its keys; `settings` are NAME=VALUE."""
        self.authority = Authority(folder)
        super().__init__(
            folder,
            [LISTENER],
            {
                "ssl.keystore.location": str(key_store(folder, self.authority)),
                "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "inter.broker.listener.name": LISTENER,
                f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": plain_users(
                    {ADMIN: ADMIN_PASSWORD}
                ),
                "authorizer.class.name": AUTHORIZER,
                "super.users": f"User:{ADMIN}",
                **dict(each.split("=", 1) for each in settings),
            },
        )

    @property
    def context(self) -> ssl.SSLContext:
        """The context of a client."""
        return self.authority.client_context()

    def admin(self) -> LoginClient:
        """Connect as the super user."""
        client = LoginClient(self.of_listener[LISTENER], self.context)
        client.log_in(ADMIN, ADMIN_PASSWORD)
        return client

    def create_topics(self, *names: str, partitions: int = 1) -> None:
        """Create topics."""
        with self.admin() as admin:
            for name in names:
                create_topic(admin, name, partitions)

    def create_user(self, user: str, acls: list[dict[str, Any]]) -> str:
        """Create a user who is allowed this; return the password."""
        password = f"the secret of {user}"
        with self.admin() as admin:
            admin.put_scram_user(user, password, SCRAM)
            self.add(admin, acls)
        return password

    @staticmethod
    def add(admin: LoginClient, acls: list[dict[str, Any]]) -> None:
        """Create ACLs."""
        assert create_acls(admin, *acls) == [0] * len(acls)

    def java_properties(self, user: str, password: str) -> dict[str, str]:
        """Return the settings of Java's clients, and of our own."""
        words = f'username="{user}" password="{password}"'
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": SCRAM,
            "sasl.jaas.config": f"{SCRAM_MODULE} required {words};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.own.certificate),
        }

    def librdkafka_options(self) -> dict[str, str]:
        """Return the options of librdkafka for the super user."""
        return {
            "bootstrap.servers": self.of_listener[LISTENER],
            "security.protocol": LISTENER,
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": ADMIN_PASSWORD,
            "ssl.ca.location": str(self.authority.own.certificate),
        }
