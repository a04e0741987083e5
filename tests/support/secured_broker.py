"""A broker whose listener asks for a login, with users of both kinds."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.broker_process import BrokerProcess, held_port

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
# Of the configuration, for PLAIN only, and of the metadata store.
PLAIN_USERS = {"bob": "bob's secret", "carol": "carol's secret"}
STORED_USERS = {"alice": "alice's secret", "dave, who=is odd": "dave's secret"}
FAILURE_DELAY_MS = 20  # of the answer to a failed login, at first
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class SecuredBroker(BrokerProcess):
    """A broker process on one SASL_PLAINTEXT listener; its users are made before it starts."""

    def __init__(self, folder: Path, *, settings: Sequence[str] = ()) -> None:
        """Write its configuration, which has passwords, and create its users."""
        self._holder, port = held_port()
        self.config = folder / "broker.toml"
        users = " ".join(f'user_{user}="{password}"' for user, password in PLAIN_USERS.items())
        self.config.write_text(
            f"""\
"sasl.enabled.mechanisms" = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
"listener.name.sasl_plaintext.plain.sasl.jaas.config" = '''{PLAIN_MODULE} required {users};'''
"delegation.token.secret.key" = "a secret of tokens"
"connection.failed.authentication.delay.ms" = "{FAILURE_DELAY_MS}"
"""
        )
        self.config.chmod(0o600)
        super().__init__(folder, settings=settings, listen=f"SASL_PLAINTEXT://127.0.0.1:{port}")
        for user, password in STORED_USERS.items():
            mechanisms = [f"--mechanism={each}" for each in MECHANISMS]
            done = self.user(
                "create", user, *mechanisms, "--data-dir", str(self.data_dir), password=password
            )
            assert done.returncode == 0, done.stderr

    def __del__(self) -> None:
        """Free the port."""
        os.close(self._holder)

    def command(self) -> list[str]:
        """Return the command line."""
        return [*super().command(), "--config", str(self.config)]

    def start(self) -> None:
        """Start, on the same listener each time."""
        listen = self.listen
        super().start()
        self.listen = listen

    @staticmethod
    def user(*options: str, password: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run `broker user`, with a password on its standard input."""
        more = [] if password is None else ["--password-file", "-"]
        return subprocess.run(
            [sys.executable, "-m", "broker", "user", *options, *more],
            input="" if password is None else f"{password}\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def properties(
        self,
        folder: Path,
        user: str,
        password: str,
        mechanism: str = "SCRAM-SHA-512",
        more: str = "",
    ) -> Path:
        """Write a file of client settings."""
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        file = folder / "client.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="{user}" password="{password}"{more};\n'
        )
        return file
