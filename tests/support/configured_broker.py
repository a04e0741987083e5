"""A real broker with several listeners, TLS, users and ACLs, whose settings are in a file."""

import json
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.broker_process import BrokerProcess, held_port
from tests.support.certificates import Authority, Certificate

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class ConfiguredBroker(BrokerProcess):
    """`broker start --config FILE`, with a port of its own for each listener."""

    def __init__(
        self, folder: Path, names: Sequence[str], settings: Mapping[str, str] | None = None
    ) -> None:
        """Prepare a broker.

        Args:
            folder: of its data, its output and its settings.
            names: of its listeners: security protocols, or what the settings map.
            settings: by name, passwords among them: they are written to a file of the owner's.
        """
        super().__init__(folder, listen="127.0.0.1:0")
        self.of_listener: dict[str, str] = {}  # addresses by the name of their listener
        for name in names:
            holder, port = held_port()
            weakref.finalize(self, os.close, holder)
            self.of_listener[name] = f"127.0.0.1:{port}"
        self.given = dict(settings or {})
        self.file = folder / "broker.toml"

    def command(self) -> list[str]:
        """Return the command line, and write the settings that it names."""
        listeners = ",".join(f"{name}://{each}" for name, each in self.of_listener.items())
        given = {"listeners": listeners, "log.dirs": str(self.data_dir), **self.given}
        write_settings(self.file, given)
        return self.wrap([sys.executable, "-m", "broker", "start", "--config", str(self.file)])


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write settings as TOML, for the owner only."""
    file.touch(0o600)
    lines = [f"{json.dumps(name)} = {json.dumps(text)}\n" for name, text in settings.items()]
    file.write_text("".join(lines))


def plain_users(users: Mapping[str, str]) -> str:
    """Return the JAAS line of PLAIN's users and passwords."""
    options = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return f"{PLAIN_MODULE} required {options};"


def key_store(folder: Path, authority: Authority, name: str = "server") -> Path:
    """Return a new key store (PEM) of a name, signed by an authority."""
    return joined(authority.issue(name), folder / f"{name}.pem")


def joined(made: Certificate, file: Path) -> Path:
    """Write a key and its certificate into one file, for the owner only."""
    file.touch(0o600)
    file.write_text(made.key.read_text() + made.certificate.read_text())
    return file
