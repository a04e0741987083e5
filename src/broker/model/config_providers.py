"""Kafka's config providers: values that stand in the environment or in files.

    config.providers=env,secrets
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.secrets.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
    ssl.key.password=${env:KEY_PASSWORD}
    sasl.jaas.config=${secrets:/run/secrets:jaas}

${NAME:KEY} and ${NAME:PATH:KEY} are replaced if NAME is a provider; any other text stays as it
is. The three classes of Kafka are known by their names: no class is loaded. A file whose content
becomes a password has to be one that nobody else can read.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.model.errors import ConfigError
from broker.model.properties import read_properties
from broker.model.secret_file import check_secret_file
from broker.model.setting import Kind, Setting

_PREFIX: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_ENVIRONMENT: Final = f"{_PACKAGE}EnvVarConfigProvider"
_FILE: Final = f"{_PACKAGE}FileConfigProvider"
_DIRECTORY: Final = f"{_PACKAGE}DirectoryConfigProvider"
_REFERENCE: Final = re.compile(r"\$\{([^}:]+):(?:([^}]*?):)?([^}:]*)\}")


class References:
    """The providers of a configuration."""

    def __init__(self, texts: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Take the settings config.providers and those below it."""
        self._texts = texts
        self._environment = environment
        self._names = {each.strip() for each in texts[_PREFIX].split(",")}

    def are_in(self, text: str) -> bool:
        """Whether a value refers to a provider."""
        return any(found[1] in self._names for found in _REFERENCE.finditer(text))

    def replaced(self, setting: Setting, text: str) -> str:
        """Return a value with what it refers to; raises ConfigError."""

        def value(found: re.Match[str]) -> str:
            name, path, key = found[1], found[2] or "", found[3]
            return self._value(setting, name, path, key) if name in self._names else found[0]

        return _REFERENCE.sub(value, text)

    def _value(self, setting: Setting, name: str, path: str, key: str) -> str:
        kind = self._texts.get(f"{_PREFIX}.{name}.class", "").strip()
        if kind == _ENVIRONMENT:
            return self._variable(setting, name, key)
        if kind not in (_FILE, _DIRECTORY):
            raise ConfigError(
                f"{setting.name}: the config provider {name} is of the class {kind or 'none'},"
                " which does not exist here: give the value in another way, or use one of"
                f" {_ENVIRONMENT}, {_FILE}, {_DIRECTORY}"
            )
        if kind == _DIRECTORY and ("/" in key or key in {"", ".", ".."}):
            raise ConfigError(f"{setting.name}: {key!r:.100} is not the name of a file in {path}")
        file = Path(path) if kind == _FILE else Path(path, key)
        self._check(setting, name, file)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a path with a 0
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"{setting.name}: cannot read {file}: {reason}") from None
        if kind == _DIRECTORY:
            return text
        try:
            found = {each.name: each.text for each in read_properties(text)}
        except ConfigError as error:
            raise ConfigError(f"{setting.name}: {file}:{error}") from None
        if key not in found:
            raise ConfigError(f"{setting.name}: {file} has no {key}")
        return found[key]

    def _variable(self, setting: Setting, name: str, key: str) -> str:
        allowed = self._parameter(name, "allowlist.pattern")
        if key not in self._environment or (allowed and not re.fullmatch(allowed, key)):
            raise ConfigError(
                f"{setting.name}: the variable {key} is not set, or not one that the config"
                f" provider {name} may read"
            )
        return self._environment[key]

    def _check(self, setting: Setting, name: str, file: Path) -> None:
        allowed = self._parameter(name, "allowed.paths")
        folders = [Path(each.strip()).resolve() for each in allowed.split(",") if each.strip()]
        if folders and not any(file.resolve().is_relative_to(folder) for folder in folders):
            raise ConfigError(
                f"{setting.name}: {file} is outside of the allowed.paths of the config provider"
                f" {name}"
            )
        if setting.kind is Kind.PASSWORD:
            check_secret_file(file, setting.name)

    def _parameter(self, name: str, parameter: str) -> str:
        return self._texts.get(f"{_PREFIX}.{name}.param.{parameter}", "")
