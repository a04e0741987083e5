"""A group's configuration: its own values over the broker's over the defaults (KIP-848).

A group key corresponds to one broker setting (model/settings.py), with bounds that are settings
too. A group need not exist to have a configuration: it can be set before the first member joins.
"""

from collections.abc import Mapping

from broker.model.config import Config, Source, find_setting, parse_value
from broker.model.errors import ConfigError
from broker.model.own_config import InheritingConfig
from broker.model.settings import GROUP_SETTINGS

_SETTINGS = {name: view.setting for name, view in GROUP_SETTINGS.items()}


class GroupConfig(InheritingConfig):
    """The values in force for one group; immutable."""

    __slots__ = ()
    _source = Source.GROUP
    _views = GROUP_SETTINGS

    def __init__(self, overrides: Mapping[str, str], broker: Config) -> None:
        """Resolve every key; ConfigError when an override is wrong or out of its bounds."""
        self._broker = broker
        values = {name: broker.get(view.synonyms[0].name) for name, view in GROUP_SETTINGS.items()}
        for name, text in overrides.items():
            values[name] = parse_value(find_setting(name, _SETTINGS), text)
        super().__init__(values, overrides, _SETTINGS)
        self._check_bounds(
            "consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        )
        self._check_bounds(
            "consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        )

    def _check_bounds(self, name: str, lower: str, upper: str) -> None:
        value = self.integer(name)
        low, high = self._broker.integer(lower), self._broker.integer(upper)
        if not low <= value <= high:
            raise ConfigError(f"{name}={value}: allowed is {low} .. {high} ({lower}, {upper})")
