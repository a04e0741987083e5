"""The levels of the process's loggers, to be seen and altered while it runs (KIP-412).

Levels are Kafka's words. What is altered lasts as long as the process, as in Kafka.
"""

import logging
from collections.abc import Iterable, Mapping

from broker.model.config import ConfigEntry, Source
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.own_config import Alteration, ConfigChange, OwnConfig
from broker.model.settings import Kind, Setting

ROOT = "root"
_OURS = "broker"
_TRACE = 5  # less severe than anything that Python has a name for
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}


def describe() -> list[ConfigEntry]:
    """Every logger with the level that it goes by, its own or inherited."""
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
    """The own levels of the loggers as they shall be; RequestError refuses."""
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
    """Set and reset levels; a logger without one of its own goes by the one above it."""
    wanted = plan(change)
    for name in _names():
        logging.getLogger(_python_name(name)).setLevel(wanted.get(name, logging.NOTSET))


class _OwnLevels(OwnConfig):
    """What is deleted need not be there, as everywhere, but has to be a logger, as in Kafka."""

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
    """Ours, once they were used by any module; what libraries log goes by the root."""
    ours = (name for name in logging.root.manager.loggerDict if name.split(".")[0] == _OURS)
    return [ROOT, *sorted(ours)]


def _python_name(name: str) -> str | None:
    return None if name == ROOT else name


def _own_levels() -> Mapping[str, int]:
    levels = {name: logging.getLogger(_python_name(name)).level for name in _names()}
    return {name: level for name, level in levels.items() if level != logging.NOTSET}


def _word(level: int) -> str:
    """Kafka's word for a level; for one between two words the more severe."""
    return next((word for word, least in reversed(_LEVELS.items()) if least >= level), "FATAL")


def _level(name: str, word: str, settings: Mapping[str, Setting]) -> int:
    _check_name(name, settings)
    if word not in _LEVELS:
        raise ConfigError(f"{name}={word!r:.100}: allowed is {' | '.join(_LEVELS)}")
    return _LEVELS[word]
