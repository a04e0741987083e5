"""A topic's configuration: its own values over the broker's over the defaults.

A topic key corresponds to one or more broker settings (model/settings.py), in Kafka's order:
`retention.ms` is the topic's own, else `log.retention.ms`, `.minutes` or `.hours`, whichever was
given first in that order, else the first default.
"""

from collections.abc import Mapping

from broker.model.config import (
    GROUP_COMMIT,
    Config,
    ConfigEntry,
    Source,
    Synonym,
    find_setting,
    parse_value,
    value_to_text,
)
from broker.model.errors import ConfigError
from broker.model.own_config import OwnConfig
from broker.model.settings import (
    TOPIC_KEYS,
    TOPIC_SETTINGS,
    Setting,
    Value,
    View,
    in_topic_unit,
)


def parse_topic_value(name: str, text: str) -> Value:
    """Check one key and value of a topic; ConfigError says what is wrong and what is allowed."""
    return parse_value(find_setting(name, TOPIC_KEYS), text)


class TopicConfig(OwnConfig):
    """The values in force for one topic; immutable: replaced when anything changes."""

    __slots__ = ("_broker",)

    def __init__(self, overrides: Mapping[str, str], broker: Config) -> None:
        """Resolve every topic key; ConfigError when an override is wrong."""
        self._broker = broker
        values = {name: _inherited(view, broker) for name, view in TOPIC_SETTINGS.items()}
        values |= {name: parse_topic_value(name, text) for name, text in overrides.items()}
        super().__init__(values, overrides, TOPIC_KEYS)
        shortest = self.integer("min.compaction.lag.ms")
        longest = self.integer("max.compaction.lag.ms")
        if shortest > longest:
            raise ConfigError(
                f"min.compaction.lag.ms={shortest} is above max.compaction.lag.ms={longest}"
            )

    @property
    def is_group_commit(self) -> bool:
        """Whether acks wait for the disk; Kafka's flush.messages=1 means the same."""
        return (
            self.text("polylog.durability") == GROUP_COMMIT or self.integer("flush.messages") == 1
        )

    def source(self, name: str) -> Source:
        """Return where the value in force comes from."""
        if name in self._own:
            return Source.TOPIC
        given = _first_given(TOPIC_SETTINGS[name], self._broker)
        return self._broker.source(given.name) if given else Source.DEFAULT

    def describe(self) -> list[ConfigEntry]:
        """Return every topic key as in DescribeConfigs, by name."""
        return [self._entry(name, view.setting) for name, view in TOPIC_SETTINGS.items()]

    def _entry(self, name: str, setting: Setting) -> ConfigEntry:
        return ConfigEntry(
            name,
            value_to_text(self.get(name)),
            self.source(name),
            setting.kind,
            setting.documentation,
            self._synonyms(name),
        )

    def _synonyms(self, name: str) -> tuple[Synonym, ...]:
        own = (
            (Synonym(name, value_to_text(self.get(name)), Source.TOPIC),)
            if name in self._own
            else ()
        )
        return (*own, *self._broker.synonyms(TOPIC_SETTINGS[name].synonyms))


def _inherited(view: View, broker: Config) -> Value:
    """Return the broker's sources of a topic key, in the key's unit."""
    given = _first_given(view, broker)
    return in_topic_unit(given, broker.get(given.name)) if given else view.setting.default


def _first_given(view: View, broker: Config) -> Setting | None:
    return next((each for each in view.synonyms if broker.is_given(each.name)), None)
