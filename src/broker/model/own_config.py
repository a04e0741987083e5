"""Configurations with own values over inherited ones, and their alterations."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import ClassVar, NamedTuple, TypeAlias

from broker.model.config import (
    Config,
    ConfigEntry,
    Source,
    Synonym,
    Values,
    find_setting,
    split_words,
    value_to_text,
)
from broker.model.errors import ConfigError
from broker.model.settings import Kind, Setting, Value, View


class AlterOp(Enum):
    """An operation on one key (KIP-339); the last two are for lists."""

    SET = "SET"
    DELETE = "DELETE"
    APPEND = "APPEND"
    SUBTRACT = "SUBTRACT"


class Alteration(NamedTuple):
    """A key, an operation, and its text; DELETE ignores the text."""

    name: str
    op: AlterOp
    text: str = ""


class OwnConfig(Values):
    """The values in force for a topic, group or broker, and its own values among them."""

    __slots__ = ("_own", "_settings")

    def __init__(
        self,
        values: Mapping[str, Value],
        own: Mapping[str, str],
        settings: Mapping[str, Setting],
    ) -> None:
        """Keep the values in force, the own values as text, and the allowed keys."""
        super().__init__(values)
        self._own = dict(own)
        self._settings = settings

    @property
    def overrides(self) -> Mapping[str, str]:
        """The own values, as text."""
        return dict(self._own)

    def altered(self, alterations: Iterable[Alteration]) -> dict[str, str]:
        """Return the own values after alterations; raises ConfigError.

        As in Kafka, a list is appended to and subtracted from as it is in force, inherited or own,
        and becomes an own value; a deleted key may be unset or unknown.
        """
        own = dict(self._own)
        for name, op, text in alterations:
            match op:
                case AlterOp.SET:
                    own[name] = text
                case AlterOp.DELETE:
                    own.pop(name, None)
                case AlterOp.APPEND | AlterOp.SUBTRACT:
                    own[name] = ",".join(self._combined(name, op, split_words(text)))
        return own

    def _combined(self, name: str, op: AlterOp, given: tuple[str, ...]) -> Iterable[str]:
        setting = find_setting(name, self._settings)
        if setting.kind is not Kind.LIST:
            raise ConfigError(f"{op.value} to {name}: it is no list but {setting.allowed}")
        words = self.words(name)
        if op is AlterOp.APPEND:
            return dict.fromkeys((*words, *given))
        return [word for word in words if word not in given]


class InheritingConfig(OwnConfig):
    """The configuration of a topic or group, whose keys inherit values of the broker."""

    __slots__ = ("_broker",)
    _broker: Config
    _source: ClassVar[Source]  # of own values
    _views: ClassVar[dict[str, View]]  # of all keys

    def source(self, name: str) -> Source:
        """Return where the value in force comes from."""
        if name in self._own:
            return self._source
        given = self._broker.first_given(self._views[name].synonyms)
        return self._broker.source(given.name) if given else Source.DEFAULT

    def describe(self) -> list[ConfigEntry]:
        """Return every key as in DescribeConfigs, by name."""
        return [self._entry(name) for name in sorted(self._views)]

    def _entry(self, name: str) -> ConfigEntry:
        view = self._views[name]
        text = value_to_text(self.get(name))
        own = (Synonym(name, text, self._source),) if name in self._own else ()
        return ConfigEntry(
            name,
            text,
            self.source(name),
            view.setting.kind,
            view.setting.documentation,
            (*own, *self._broker.synonyms(view.synonyms)),
        )


# Returns the own values after a change of those in force; raises ConfigError.
ConfigChange: TypeAlias = Callable[[OwnConfig], Mapping[str, str]]
