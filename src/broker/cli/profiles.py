"""Profiles: names for the addresses and settings with which commands reach brokers.

    current = "local"

    [profiles.local]
    bootstrap_server = "localhost:9092"

    [profiles.production]
    bootstrap_server = "kafka-1:9093,kafka-2:9093"
    command_config = "/home/ada/production.properties"

The file is ~/.config/polylog/profiles.toml, or in $XDG_CONFIG_HOME. Passwords stay in the file that
`command_config` names. An option precedes the environment, which precedes the profile.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from broker.cli.reporting import DEFAULT_BOOTSTRAP
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from broker.client.metadata import Cluster
    from broker.client.security import SecuritySettings


class Profile(NamedTuple):
    """One profile."""

    bootstrap_server: str
    command_config: str | None = None


class Profiles(NamedTuple):
    """The file of profiles."""

    current: str | None
    profiles: Mapping[str, Profile]


class Connection(NamedTuple):
    """How a command reaches brokers."""

    bootstrap_server: str
    command_config: Path | None
    timeout_seconds: float

    def security(self) -> "SecuritySettings | None":
        """Return TLS and the login, None for neither. Raises ConfigError."""
        if self.command_config is None:
            return None
        from broker.client.security import read_security  # noqa: PLC0415 - imports ssl

        return read_security(self.command_config)

    def cluster(self) -> "Cluster":
        """Return the cluster once a broker has answered.

        Raises:
            ConfigError: an address or a setting is invalid.
            Unreachable: no broker answers.
            AccessDenied: the login is refused.
        """
        from broker.client.metadata import Cluster  # noqa: PLC0415 - not needed by `--help`
        from broker.client.pool import Pool  # noqa: PLC0415
        from broker.model.address import parse_addresses  # noqa: PLC0415
        from broker.model.clock import SystemClock  # noqa: PLC0415

        cluster = Cluster(
            parse_addresses(self.bootstrap_server),
            give_up_seconds=self.timeout_seconds,
            answer_seconds=self.timeout_seconds,
            pool=Pool(SystemClock()),
            security=self.security(),
        )
        cluster.check_reachable()
        return cluster


def profiles_file() -> Path:
    """Return the path of the file, which may not exist."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "polylog" / "profiles.toml"


def read_profiles() -> Profiles:
    """Read the file; there are no profiles without it. ConfigError if it is invalid."""
    file = profiles_file()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Profiles(None, {})
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    import tomllib  # noqa: PLC0415 - most users have no profiles

    try:
        found = tomllib.loads(text)
        profiles = {
            str(name): Profile(
                _text(each["bootstrap_server"]), _text_or_none(each, "command_config")
            )
            for name, each in found.get("profiles", {}).items()
        }
        return Profiles(_text_or_none(found, "current"), profiles)
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file}: {error!r}: repair it, or delete it") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r:.60}")
    return value


def _text_or_none(table: Mapping[str, object], name: str) -> str | None:
    return None if table.get(name) is None else _text(table[name])


def _quoted(text: str) -> str:
    """Return a text as TOML has it: as in JSON, but without halves of characters."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_profiles(profiles: Profiles) -> None:
    """Write the file, readable by its owner only."""
    lines = []
    if profiles.current is not None:
        lines += [f"current = {_quoted(profiles.current)}", ""]
    for name, each in sorted(profiles.profiles.items()):
        lines.append(f"[profiles.{_quoted(name)}]")
        lines += [f"{key} = {_quoted(value)}" for key, value in each._asdict().items() if value]
        lines.append("")
    file = profiles_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = file.with_suffix(".new")
        written.write_text("\n".join(lines), encoding="utf-8")
        written.chmod(0o600)
        written.replace(file)
    except (OSError, UnicodeEncodeError) as error:
        raise ConfigError(f"{file} cannot be written: {error}") from None


def connection_of(
    bootstrap_server: str | None,
    command_config: Path | None,
    profile: str | None,
    timeout_seconds: float,
) -> Connection:
    """Return how to reach brokers: by options, else by the profile, else at localhost."""
    found = Profile(DEFAULT_BOOTSTRAP)
    if profile is not None or bootstrap_server is None:
        known = read_profiles()
        name = known.current if profile is None else profile
        if name is not None:
            if name not in known.profiles:
                raise ConfigError(
                    f"there is no profile {name!r} in {profiles_file()}: `broker profile list`"
                    " shows those that exist"
                )
            found = known.profiles[name]
    config = command_config
    if config is None and found.command_config is not None:
        config = Path(found.command_config).expanduser()
    return Connection(bootstrap_server or found.bootstrap_server, config, timeout_seconds)
