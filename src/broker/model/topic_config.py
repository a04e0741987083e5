"""A topic's configuration: its own values over the broker's over the defaults.

A topic key corresponds to one or more broker settings (model/settings.py), in Kafka's order:
`retention.ms` is the topic's own, else `log.retention.ms`, `.minutes` or `.hours`, whichever was
given first in that order, else the first default.
"""

from collections.abc import Mapping

from broker.model.config import GROUP_COMMIT, Config, Source, find_setting, parse_value
from broker.model.errors import ConfigError
from broker.model.own_config import InheritingConfig
from broker.model.settings import (
    EVENT_SOURCING,
    TOPIC_KEYS,
    TOPIC_SETTINGS,
    Value,
    View,
    in_topic_unit,
)

# What a topic with streams needs: nothing removes an event, and each can be read alone.
STREAM_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
}


def parse_topic_value(name: str, text: str) -> Value:
    """Check one key and value of a topic; ConfigError says what is wrong and what is allowed."""
    return parse_value(find_setting(name, TOPIC_KEYS), text)


class TopicConfig(InheritingConfig):
    """The values in force for one topic; immutable: replaced when anything changes."""

    __slots__ = ()
    _source = Source.TOPIC
    _views = TOPIC_SETTINGS

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
        if self.has_streams:
            self._check_streams()

    def _check_streams(self) -> None:
        """Refuse what would remove events from a stream, or compress several of them together."""
        for name, needed in STREAM_SETTINGS.items():
            if self.get(name) != parse_topic_value(name, needed):
                text = f"{EVENT_SOURCING}=true needs {name}={needed}"
                raise ConfigError(f"{text}: a stream keeps its events, each to be read alone")

    @property
    def has_streams(self) -> bool:
        """Whether its records are events of streams, which only their own commands append."""
        return self.flag(EVENT_SOURCING)

    @property
    def broker_id(self) -> int:
        """The node.id of the broker that has read it."""
        return self._broker.integer("node.id")

    @property
    def is_group_commit(self) -> bool:
        """Whether acks wait for the disk; Kafka's flush.messages=1 means the same."""
        return (
            self.text("polylog.durability") == GROUP_COMMIT or self.integer("flush.messages") == 1
        )


def _inherited(view: View, broker: Config) -> Value:
    """Return the broker's sources of a topic key, in the key's unit."""
    given = broker.first_given(view.synonyms)
    return in_topic_unit(given, broker.get(given.name)) if given else view.setting.default
