"""The levels of the process's loggers, described and altered while it runs (KIP-412).

Levels have Kafka's names. An alteration lasts until the process ends, as in Kafka.
"""

import logging
from collections.abc import Iterable, Mapping

from broker.model.config import ConfigEntry, Source
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.own_config import Alteration, ConfigChange, OwnConfig
from broker.model.settings import Kind, Setting

ROOT = "root"
_OURS = "broker"
_TRACE = 5  # less severe than Python's named levels
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}


def describe() -> list[ConfigEntry]:
    """Return every logger with its level in force, its own or inherited."""
    return [
        ConfigEntry(
            name,
            _word(logging.getLogger(_python_name(name)).getEffectiveLevel()),
            Source.LOGGER,
            Kind.STRING,
            f"Least severe event that is logged: {', '.join(_LEVELS)}.",
            (),
        )
        for name in _names()
    ]


def plan(change: ConfigChange) -> dict[str, int]:
    """Return the loggers' own levels after a change; raises RequestError."""
    own = {name: _word(level) for name, level in _own_levels().items()}
    settings = {name: Setting(name, Kind.STRING, None, doc="") for name in _names()}
    try:
        wanted = change(_OwnLevels({}, own, settings))
        levels = {name: _level(name, text, settings) for name, text in wanted.items()}
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if ROOT not in levels:
        text = "the level of the root logger can be changed, not removed"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    return levels


def alter(change: ConfigChange) -> None:
    """Set and reset levels; a logger without an own level inherits from its parent."""
    wanted = plan(change)
    for name in _names():
        logging.getLogger(_python_name(name)).setLevel(wanted.get(name, logging.NOTSET))


class _OwnLevels(OwnConfig):
    """Alterations of levels: a deleted key may be unset, but has to be a logger, as in Kafka."""

    __slots__ = ()

    def altered(self, alterations: Iterable[Alteration]) -> dict[str, str]:
        alterations = list(alterations)
        for each in alterations:
            _check_name(each.name, self._settings)
        return super().altered(alterations)


def _check_name(name: str, settings: Mapping[str, Setting]) -> None:
    if name not in settings:
        raise ConfigError(f"there is no logger {name!r:.100}")


def _names() -> list[str]:
    """Return the broker's loggers that exist so far; libraries log under the root's level."""
    ours = (name for name in logging.root.manager.loggerDict if name.split(".")[0] == _OURS)
    return [ROOT, *sorted(ours)]


def _python_name(name: str) -> str | None:
    return None if name == ROOT else name


def _own_levels() -> Mapping[str, int]:
    levels = {name: logging.getLogger(_python_name(name)).level for name in _names()}
    return {name: level for name, level in levels.items() if level != logging.NOTSET}


def _word(level: int) -> str:
    """Return Kafka's name for a level; between two names, the more severe."""
    return next((word for word, least in reversed(_LEVELS.items()) if least >= level), "FATAL")


def _level(name: str, word: str, settings: Mapping[str, Setting]) -> int:
    _check_name(name, settings)
    if word not in _LEVELS:
        raise ConfigError(f"{name}={word!r:.100}: allowed is {' | '.join(_LEVELS)}")
    return _LEVELS[word]
