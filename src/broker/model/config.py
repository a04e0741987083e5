"""The broker's configuration: the table of settings with the values in force.

A value is the broker's own, altered while it runs, else the cluster's, altered likewise (KIP-226),
else it was given at the start: by `--set`, else the environment, else a TOML file; else it is the
table's default. What does not exist or is out of range raises ConfigError, which names the nearest
name and what is allowed. Everything that holds values, the broker's and a topic's, is read the same
way: `get` for any, `integer`, `flag`, `text`, `number` and `words` for a value of a known type.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from broker.model import limits
from broker.model.address import Address, parse_address
from broker.model.errors import ConfigError
from broker.model.settings import (
    BROKER_SETTINGS,
    DYNAMIC_SETTINGS,
    INT_MAX,
    LONG_MAX,
    Kind,
    Setting,
    Value,
)

GROUP_COMMIT = "group-commit"
ENVIRONMENT_PREFIX = "BROKER_"
# Kubernetes puts these into every container beside a service that is called "broker".
_SERVICE_LINK = re.compile(r"BROKER_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)\w*)?)")

_KIND_RANGES: dict[Kind, tuple[float, float]] = {
    Kind.INT: (-INT_MAX - 1, INT_MAX),
    Kind.LONG: (-LONG_MAX - 1, LONG_MAX),
    Kind.DOUBLE: (float("-inf"), float("inf")),
}


# The first is not above the second.
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
)


class Source(Enum):
    """Where a value stands, as DescribeConfigs tells it."""

    TOPIC = "topic"
    GROUP = "group"
    LOGGER = "logger"
    DYNAMIC_BROKER = "dynamic broker"  # altered while it runs, for this broker
    DYNAMIC_DEFAULT = "dynamic default broker"  # altered likewise, for all brokers
    STATIC_BROKER = "static broker"  # given at the start, by whatever way
    DEFAULT = "default"


class Synonym(NamedTuple):
    """One place a value could come from: its name there, its text, its source."""

    name: str
    text: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """What DescribeConfigs tells about one key; synonyms go from the most specific on."""

    name: str
    text: str | None
    source: Source
    kind: Kind
    documentation: str
    synonyms: tuple[Synonym, ...]
    is_read_only: bool = False


class Values:
    """Values by name, with readers that know the type a name has in the table."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Keep a private copy."""
        self._values = MappingProxyType(dict(values))

    def get(self, name: str) -> Value:
        """The value of a setting; a name that is not in the table is a mistake of the caller."""
        return self._values[name]

    def has_values_of(self, other: "Values") -> bool:
        """Whether both say the same, wherever they have it from."""
        return self._values == other._values  # noqa: SLF001 (of the same class)

    def integer(self, name: str) -> int:
        """The value of an int or long setting."""
        value = self._values[name]
        if type(value) is not int:
            raise TypeError(f"{name} is {value!r}, not an integer")
        return value

    def number(self, name: str) -> float:
        """The value of a double setting."""
        value = self._values[name]
        if not isinstance(value, float):
            raise TypeError(f"{name} is {value!r}, not a number")
        return value

    def flag(self, name: str) -> bool:
        """The value of a boolean setting."""
        value = self._values[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}, not a boolean")
        return value

    def text(self, name: str) -> str:
        """The value of a string setting that is not null."""
        value = self._values[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a text")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """The value of a list setting."""
        value = self._values[name]
        if not isinstance(value, tuple):
            raise TypeError(f"{name} is {value!r}, not a list")
        return value


class Layer(NamedTuple):
    """Values that stand in one place."""

    source: Source
    values: Mapping[str, Value]


class Config(Values):
    """The broker's settings; immutable."""

    __slots__ = ("_layers", "_origins")

    def __init__(
        self, layers: Sequence[Layer] = (), origins: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Take values, the most specific first, and where those of the start were given."""
        values = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        for layer in reversed(layers):
            values.update(layer.values)
        super().__init__(values)
        self._layers = tuple(layers)
        self._origins = MappingProxyType(dict(origins))
        self._check_relations()

    def altered(self, shared: Mapping[str, str], own: Mapping[str, str]) -> "Config":
        """What was given at the start under what was altered since, for all brokers and for this.

        ConfigError when something cannot be altered, or not to that.
        """
        at_start = [layer for layer in self._layers if layer.source is Source.STATIC_BROKER]
        altered = [
            Layer(Source.DYNAMIC_BROKER, _dynamic_values(own)),
            Layer(Source.DYNAMIC_DEFAULT, _dynamic_values(shared)),
        ]
        config = Config([*altered, *at_start], self._origins)
        room = Config(at_start).frame_bytes_max
        if config.frame_bytes_max > room:
            raise ConfigError(
                f"message.max.bytes={config.get('message.max.bytes')}: requests of this broker have"
                f" {room} bytes at most; give it a larger socket.request.max.bytes at its start"
            )
        return config

    @property
    def origins(self) -> Mapping[str, str]:
        """The settings that were given at the start, and where in words."""
        return self._origins

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return Path(self.text("log.dirs")).absolute()

    @property
    def listeners(self) -> tuple[Address, ...]:
        """The addresses to listen on."""
        return tuple(map(parse_address, self.words("listeners")))

    @property
    def advertised_listeners(self) -> tuple[Address, ...]:
        """The addresses told to clients, one per listener, or none."""
        return tuple(map(parse_address, self.words("advertised.listeners")))

    @property
    def is_group_commit(self) -> bool:
        """Whether acks wait for the disk where a topic says nothing else."""
        return (
            self.text("polylog.durability") == GROUP_COMMIT
            or self.integer("log.flush.interval.messages") == 1
        )

    @property
    def frame_bytes_max(self) -> int:
        """The frame limit in force."""
        return limits.frame_bytes_max(
            self.integer("socket.request.max.bytes"), self.integer("message.max.bytes")
        )

    def is_given(self, name: str) -> bool:
        """Whether a setting was given a value, at the start or later."""
        return any(name in layer.values for layer in self._layers)

    def source(self, name: str) -> Source:
        """Where a setting's value comes from."""
        sources = (layer.source for layer in self._layers if name in layer.values)
        return next(sources, Source.DEFAULT)

    def describe(self) -> list[ConfigEntry]:
        """Every broker setting as DescribeConfigs shows it, by name."""
        return [self._entry(BROKER_SETTINGS[name]) for name in sorted(BROKER_SETTINGS)]

    def describe_shared(self) -> list[ConfigEntry]:
        """What was altered for all brokers, by name."""
        return [
            ConfigEntry(
                name,
                value_to_text(value),
                layer.source,
                BROKER_SETTINGS[name].kind,
                BROKER_SETTINGS[name].documentation,
                (Synonym(name, value_to_text(value), layer.source),),
            )
            for layer in self._layers
            if layer.source is Source.DYNAMIC_DEFAULT
            for name, value in sorted(layer.values.items())
        ]

    def synonyms(self, settings: Iterable[Setting]) -> tuple[Synonym, ...]:
        """What the broker says about these settings: what was given, then what is default."""
        settings = tuple(settings)
        given = [
            Synonym(setting.name, value_to_text(layer.values[setting.name]), layer.source)
            for layer in self._layers
            for setting in settings
            if setting.name in layer.values
        ]
        defaults = [
            Synonym(setting.name, value_to_text(setting.default), Source.DEFAULT)
            for setting in settings
            if setting.default is not None
        ]
        return (*given, *defaults)

    def _entry(self, setting: Setting) -> ConfigEntry:
        return ConfigEntry(
            setting.name,
            value_to_text(self.get(setting.name)),
            self.source(setting.name),
            setting.kind,
            setting.documentation,
            self.synonyms((setting,)),
            is_read_only=setting.name not in DYNAMIC_SETTINGS,
        )

    def _check_relations(self) -> None:
        for lower, upper in _ORDERED:
            if self.integer(lower) > self.integer(upper):
                raise ConfigError(f"{lower}={self.get(lower)} is above {upper}={self.get(upper)}")
        data_dir = self.text("log.dirs")
        if not data_dir or "," in data_dir:
            raise ConfigError(f"log.dirs={data_dir!r}: name one directory")
        _check_listeners(
            self.listeners,
            self.advertised_listeners,
            is_insecure_accepted=self.flag("polylog.insecure"),
        )


def _check_listeners(
    listeners: tuple[Address, ...], advertised: tuple[Address, ...], *, is_insecure_accepted: bool
) -> None:
    if not listeners:
        raise ConfigError("listeners is empty: give at least one HOST:PORT")
    for address in listeners:
        if not (address.is_loopback or is_insecure_accepted):
            raise ConfigError(
                f"{address} can be reached from other machines and there is no authentication:"
                " listen on 127.0.0.1, or accept that with --set polylog.insecure=true"
            )
    if advertised and len(advertised) != len(listeners):
        raise ConfigError(
            f"advertised.listeners has {len(advertised)} addresses for {len(listeners)} listeners:"
            " give one for each, or none"
        )
    for address in advertised:
        if address.is_wildcard or address.port == 0:
            raise ConfigError(
                f"advertised.listeners: clients cannot connect to {address}; name a host and port"
                " that they can reach, or leave the setting out"
            )


def load(
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    file: Path | None = None,
) -> Config:
    """Read NAME=VALUE overrides over the environment over a TOML file over the defaults."""
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    layers = (_from_file(file), _from_environment(environment), _from_overrides(overrides))
    for layer in layers:
        for name, (text, origin) in layer.items():
            try:
                values[name] = parse_value(find_setting(name, BROKER_SETTINGS), text)
            except ConfigError as error:
                raise ConfigError(f"{origin}: {error}") from None
            origins[name] = origin
    return Config([Layer(Source.STATIC_BROKER, values)], origins)


def _dynamic_values(texts: Mapping[str, str]) -> dict[str, Value]:
    """Read what is altered while the broker runs."""
    values: dict[str, Value] = {}
    for name, text in texts.items():
        setting = find_setting(name, BROKER_SETTINGS)
        if name not in DYNAMIC_SETTINGS:
            raise ConfigError(f"{name} cannot be altered while the broker runs, only at its start")
        values[name] = parse_value(setting, text)
    return values


def find_setting(name: str, settings: Mapping[str, Setting]) -> Setting:
    """The setting of that name; otherwise ConfigError with the nearest one."""
    setting = settings.get(name)
    if setting is None:
        raise ConfigError(f"unknown setting {name!r:.100}{nearest_name(name, settings)}")
    return setting


def nearest_name(name: str, names: Iterable[str]) -> str:
    """What an error message adds about a name that does not exist."""
    import difflib  # noqa: PLC0415 - only for mistakes; its import costs a start 3 ms

    matches = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def parse_value(setting: Setting, text: str) -> Value:
    """Read a value as its setting says; otherwise ConfigError with what is allowed."""
    if len(text.encode(errors="replace")) > limits.STRING_BYTES_MAX:
        raise ConfigError(f"{setting.name} has more than {limits.STRING_BYTES_MAX} bytes")
    try:
        value = _read(setting.kind, text.strip())
    except ValueError:
        value = None
    if value is None or not (_is_chosen(setting, value) and _is_in_range(setting, value)):
        raise ConfigError(f"{setting.name}={text!r:.100}: allowed is {setting.allowed}")
    if setting.choices and isinstance(value, tuple):
        return tuple(dict.fromkeys(value))  # a choice made twice is made
    return value


def value_to_text(value: Value) -> str | None:
    """A value as configuration files and DescribeConfigs write it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def split_words(text: str) -> tuple[str, ...]:
    """The words of a list, as it is written."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _read(kind: Kind, text: str) -> Value:
    match kind:
        case Kind.BOOLEAN:
            return {"true": True, "false": False}.get(text.lower())
        case Kind.INT | Kind.LONG:
            if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
                raise ValueError(text)
            return int(text)
        case Kind.DOUBLE:
            return float(text)
        case Kind.LIST:
            return split_words(text)
        case Kind.STRING:
            return text


def _is_chosen(setting: Setting, value: Value) -> bool:
    words = value if isinstance(value, tuple) else (value_to_text(value),)
    if setting.pattern:
        return all(re.fullmatch(setting.pattern, word or "") for word in words)
    return not setting.choices or set(words) <= set(setting.choices)


def _is_in_range(setting: Setting, value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    low, high = _KIND_RANGES[setting.kind]
    low = low if setting.minimum is None else setting.minimum
    high = high if setting.maximum is None else setting.maximum
    return low <= value <= high


_Layer = dict[str, tuple[str, str]]  # name to (text, where it was given)


def _from_overrides(overrides: Iterable[str]) -> _Layer:
    layer: _Layer = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(f"--set {override}: expected NAME=VALUE")
        layer[name.strip()] = (text, "command line")
    return layer


def _from_environment(environment: Mapping[str, str]) -> _Layer:
    names = {_environment_name(name): name for name in BROKER_SETTINGS}
    layer: _Layer = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or _SERVICE_LINK.fullmatch(variable):
            continue
        if variable not in names:
            hint = nearest_name(variable, names)
            raise ConfigError(f"environment: {variable} stands for no setting{hint}")
        layer[names[variable]] = (text, f"environment {variable}")
    return layer


def _environment_name(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _from_file(file: Path | None) -> _Layer:
    if file is None:
        return {}
    import tomllib  # noqa: PLC0415 - most starts have no file; its import costs 20 ms

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    return {name: (text, str(file)) for name, text in _flatten("", tables)}


def _flatten(prefix: str, value: object) -> Iterable[tuple[str, str]]:
    """TOML reads num.partitions as a table in a table: join the names again."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flatten(f"{prefix}.{name}" if prefix else str(name), inner)
    elif isinstance(value, bool):
        yield prefix, "true" if value else "false"
    elif isinstance(value, list):
        yield prefix, ",".join(map(str, value))
    else:
        yield prefix, str(value)
