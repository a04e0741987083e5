"""How a client is secured, as settings of Kafka's by their names.

They can be passed to other processes, as Spark does with its tasks; `secured` makes of them what a
connection needs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from broker.model.errors import ConfigError
from broker.model.properties import read_properties
from broker.model.sasl_limits import CLIENT_CONFIG_BYTES_MAX

if TYPE_CHECKING:
    from broker.client.secured import Secured

# The settings that are used; a client may have others beside them.
SETTINGS: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)


class SecuritySettings:
    """The settings of one client; passwords are not shown."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Keep those that are used, without reading a file."""
        self._pairs = tuple((name, properties[name]) for name in SETTINGS if name in properties)
        self._secured: Secured | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The settings, with their passwords."""
        return dict(self._pairs)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same settings."""
        return isinstance(other, SecuritySettings) and self._pairs == other._pairs

    def __hash__(self) -> int:
        """Return the hash of the settings."""
        return hash(self._pairs)

    def __repr__(self) -> str:
        """Return the names only."""
        return f"SecuritySettings({', '.join(name for name, _ in self._pairs)})"

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, str]]]:
        """Pass the settings only: what was made of them belongs to this process."""
        return type(self), (self.properties,)

    def secured(self) -> "Secured":
        """Return what a connection needs; its files are read once. Raises ConfigError."""
        if self._secured is None:
            from broker.client.secured import parse_secured  # noqa: PLC0415 - imports ssl

            self._secured = parse_secured(self.properties)
        return self._secured


def read_security(file: Path) -> SecuritySettings:
    """Read a file of client settings, and what it names. Raises ConfigError."""
    try:
        with file.open("rb") as opened:
            text = opened.read(CLIENT_CONFIG_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    try:
        found = read_properties(text)
    except ConfigError as error:  # which begins with the line
        raise ConfigError(f"{file}:{error}") from None
    settings = SecuritySettings({each.name: each.text.strip() for each in found})
    try:
        settings.secured()
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    return settings
