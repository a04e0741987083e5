"""A topic's configuration: its own values over the broker's over the defaults.

A topic key is a view of one or more broker settings (model/settings.py), in Kafka's order:
`retention.ms` is the topic's own, else `log.retention.ms`, `.minutes`, `.hours`, whichever was
given first in that order, else the first default.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from broker.model.config import (
    GROUP_COMMIT,
    Config,
    ConfigEntry,
    Source,
    Synonym,
    Values,
    find_setting,
    parse_value,
    split_words,
    value_to_text,
)
from broker.model.errors import ConfigError
from broker.model.settings import (
    TOPIC_SETTINGS,
    Kind,
    Setting,
    TopicSetting,
    Value,
    in_topic_unit,
)

_SETTINGS = {name: view.setting for name, view in TOPIC_SETTINGS.items()}


def parse_topic_value(name: str, text: str) -> Value:
    """Check one key and value of a topic; ConfigError says what is wrong and what is allowed."""
    return parse_value(find_setting(name, _SETTINGS), text)


class AlterOp(Enum):
    """What is done to one key (KIP-339); the last two are for lists."""

    SET = "SET"
    DELETE = "DELETE"
    APPEND = "APPEND"
    SUBTRACT = "SUBTRACT"


class Alteration(NamedTuple):
    """One key, what is done to it, and with which text; DELETE has no use for one."""

    name: str
    op: AlterOp
    text: str = ""


class TopicConfig(Values):
    """The values in force for one topic; immutable, made anew when its overrides change."""

    __slots__ = ("_broker", "_own")

    def __init__(self, overrides: Mapping[str, str], broker: Config) -> None:
        """Resolve every topic key; ConfigError when an override is wrong."""
        self._own = dict(overrides)
        self._broker = broker
        values = {name: _inherited(view, broker) for name, view in TOPIC_SETTINGS.items()}
        values |= {name: parse_topic_value(name, text) for name, text in overrides.items()}
        super().__init__(values)
        shortest = self.integer("min.compaction.lag.ms")
        longest = self.integer("max.compaction.lag.ms")
        if shortest > longest:
            raise ConfigError(
                f"min.compaction.lag.ms={shortest} is above max.compaction.lag.ms={longest}"
            )

    @property
    def overrides(self) -> Mapping[str, str]:
        """The topic's own values, as they were given."""
        return dict(self._own)

    @property
    def is_group_commit(self) -> bool:
        """Whether acks wait for the disk; flush.messages=1 is Kafka's word for it."""
        return (
            self.text("polylog.durability") == GROUP_COMMIT or self.integer("flush.messages") == 1
        )

    def source(self, name: str) -> Source:
        """Where the value in force comes from."""
        synonyms = self._synonyms(name)
        return synonyms[0].source if synonyms else Source.DEFAULT

    def describe(self) -> list[ConfigEntry]:
        """Every topic key as DescribeConfigs shows it, by name."""
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


def altered(config: TopicConfig, alterations: Iterable[Alteration]) -> dict[str, str]:
    """A topic's own values after alterations of them; ConfigError for what cannot be done.

    As in Kafka a list is appended to and subtracted from as it is in force, inherited or own, and
    becomes the topic's own; what is deleted need not be there, nor be a key.
    """
    own = dict(config.overrides)
    for name, op, text in alterations:
        match op:
            case AlterOp.SET:
                own[name] = text
            case AlterOp.DELETE:
                own.pop(name, None)
            case AlterOp.APPEND | AlterOp.SUBTRACT:
                setting = find_setting(name, _SETTINGS)
                if setting.kind is not Kind.LIST:
                    raise ConfigError(f"{op.value} to {name}: it is no list but {setting.allowed}")
                own[name] = ",".join(_combined(config.words(name), op, split_words(text)))
    return own


def _combined(words: tuple[str, ...], op: AlterOp, given: tuple[str, ...]) -> Iterable[str]:
    if op is AlterOp.APPEND:
        return dict.fromkeys((*words, *given))
    return [word for word in words if word not in given]


def _inherited(view: TopicSetting, broker: Config) -> Value:
    """What the broker says for a topic key, in the key's unit."""
    for synonym in view.synonyms:
        if synonym.name in broker.origins:
            return in_topic_unit(synonym, broker.get(synonym.name))
    return view.setting.default
