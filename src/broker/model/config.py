"""The broker's configuration: the table of settings with the values in force.

Precedence: the broker's own value, altered while it runs; the value altered for all brokers
(KIP-226); the value given at the start (config_sources.py has the order of its sources); the
default. A setting that only Kafka has is accepted and has no effect (unused_settings.py). An
unknown name or a value out of range raises ConfigError, which names the nearest name or the
allowed values. The broker's and a topic's values have the same readers: `get` for any type,
`integer`, `flag`, `text`, `number` and `words` for a value of a known type.

A password is a Secret: only `text`, whose callers know what they ask for, returns its characters.
What goes through all settings has HIDDEN in their place. No password is altered while the broker
runs, because it would be stored as it is with the metadata.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from broker.model import limits
from broker.model.config_sources import Sources, given_texts
from broker.model.errors import ConfigError
from broker.model.given import HINTS_MAX, Given, nearest_name
from broker.model.listener import (
    PREFIX,
    SEPARATOR,
    ListenerConfig,
    parse_listeners,
    parse_protocol_map,
)
from broker.model.metadata_address import SQLITE, EtcdAddress, parse_metadata_address
from broker.model.principal import ANONYMOUS, parse_principal, parse_principals
from broker.model.protocol_names import WITH_LOGIN
from broker.model.secret import HIDDEN, Secret
from broker.model.settings import (
    ALIASES,
    BROKER_SETTINGS,
    DYNAMIC_SETTINGS,
    INT_MAX,
    LONG_MAX,
    Kind,
    Setting,
    Value,
    per_listener_setting,
)

if TYPE_CHECKING:
    from broker.model.config_providers import References

GROUP_COMMIT = "group-commit"
_TOLD_MAX = 1000  # errors of one start that are printed
_EMPTIED = Path("/tmp")  # noqa: S108 - where Kafka's files have their data

_KIND_RANGES: dict[Kind, tuple[float, float]] = {
    Kind.INT: (-INT_MAX - 1, INT_MAX),
    Kind.LONG: (-LONG_MAX - 1, LONG_MAX),
    Kind.DOUBLE: (float("-inf"), float("inf")),
}


# Pairs of settings of which the first must not be above the second.
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
)


class Source(Enum):
    """Where a value comes from, as in DescribeConfigs."""

    TOPIC = "topic"
    GROUP = "group"
    LOGGER = "logger"
    DYNAMIC_BROKER = "dynamic broker"  # altered while it runs, for this broker
    DYNAMIC_DEFAULT = "dynamic default broker"  # altered likewise, for all brokers
    STATIC_BROKER = "static broker"  # given at the start, in any way
    DEFAULT = "default"


class Synonym(NamedTuple):
    """One possible source of a value: its name there, its text, the kind of source."""

    name: str
    text: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """A key in DescribeConfigs; synonyms are ordered by precedence."""

    name: str
    text: str | None
    source: Source
    kind: Kind
    documentation: str
    synonyms: tuple[Synonym, ...]
    is_read_only: bool = False


class Values:
    """Values by name, with a reader per type of the settings table."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Copy the values."""
        self._values = MappingProxyType(dict(values))

    def get(self, name: str) -> Value:
        """Return the value of a setting; the name must be in the table."""
        return self._values[name]

    @property
    def names(self) -> Collection[str]:
        """The names that have values."""
        return self._values.keys()

    def has_values_of(self, other: "Values") -> bool:
        """Whether both have equal values, from whatever source."""
        return self._values == other._values  # noqa: SLF001 (of the same class)

    def integer(self, name: str) -> int:
        """Return the value of an int or long setting."""
        value = self._values[name]
        if type(value) is not int:
            raise TypeError(f"{name} is {value!r}, not an integer")
        return value

    def number(self, name: str) -> float:
        """Return the value of a double setting."""
        value = self._values[name]
        if not isinstance(value, float):
            raise TypeError(f"{name} is {value!r}, not a number")
        return value

    def flag(self, name: str) -> bool:
        """Return the value of a boolean setting."""
        value = self._values[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}, not a boolean")
        return value

    def text(self, name: str) -> str:
        """Return the value of a string or password setting that is not null."""
        value = self._values[name]
        if isinstance(value, Secret):
            return value.reveal()
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a text")
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return the value of a string or password setting; None if it is null."""
        return None if self._values[name] is None else self.text(name)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the value of a list setting."""
        value = self._values[name]
        if not isinstance(value, tuple):
            raise TypeError(f"{name} is {value!r}, not a list")
        return value


class Layer(NamedTuple):
    """The values of one source."""

    source: Source
    values: Mapping[str, Value]


class Start(NamedTuple):
    """What a start was given.

    Attributes:
        origins: the settings, and where each was given.
        not_used: settings of Kafka's that have no effect here, and where.
        ignored: variables of Kafka's images that are no settings.
        warnings: what an operator may not expect, each with the setting that it is about.
    """

    origins: Mapping[str, str] = MappingProxyType({})
    not_used: Mapping[str, str] = MappingProxyType({})
    ignored: tuple[str, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()


_NOTHING = Start()


class Config(Values):
    """The broker's settings; immutable."""

    __slots__ = ("_layers", "_start")

    def __init__(self, layers: Sequence[Layer] = (), start: Start = _NOTHING) -> None:
        """Keep values in order of precedence, and where those of the start were given."""
        values = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        for layer in reversed(layers):
            values.update(layer.values)
        super().__init__(values)
        self._layers = tuple(layers)
        self._start = start
        self._check_relations()

    def altered(self, shared: Mapping[str, str], own: Mapping[str, str]) -> "Config":
        """Return this configuration with altered values, for all brokers and for this one.

        Raises ConfigError when a setting cannot be altered, or not to that value.
        """
        at_start = [layer for layer in self._layers if layer.source is Source.STATIC_BROKER]
        altered = [
            Layer(Source.DYNAMIC_BROKER, _dynamic_values(own, is_own=True)),
            Layer(Source.DYNAMIC_DEFAULT, _dynamic_values(shared, is_own=False)),
        ]
        config = Config([*altered, *at_start], self._start)
        bytes_max = Config(at_start).frame_bytes_max
        if config.frame_bytes_max > bytes_max:
            raise ConfigError(
                f"message.max.bytes={config.get('message.max.bytes')}: requests of this broker have"
                f" {bytes_max} bytes at most; give it a larger socket.request.max.bytes at"
                " its start"
            )
        return config

    def of_node(self, node_id: int) -> "Config":
        """Return this configuration for another broker."""
        [*others, static] = self._layers or [Layer(Source.STATIC_BROKER, {})]
        own = static._replace(values={**static.values, "node.id": node_id})
        return Config([*others, own], self._start)

    @property
    def origins(self) -> Mapping[str, str]:
        """The settings that were given at the start, and where."""
        return self._start.origins

    @property
    def start(self) -> Start:
        """What the start was given, without values."""
        return self._start

    @property
    def data_dir(self) -> Path:
        """The data directory: the first one of log.dirs."""
        return Path(split_words(self.text("log.dirs"))[0]).absolute()

    @property
    def more_dirs(self) -> tuple[Path, ...] | None:
        """The other directories for partitions; None: workers have none."""
        if self.integer("polylog.workers") > 1:
            return None
        return tuple(Path(each).absolute() for each in split_words(self.text("log.dirs"))[1:])

    @property
    def listeners(self) -> tuple[ListenerConfig, ...]:
        """The listeners, in the order given."""
        return _listeners(self)

    def of_listener(self, listener: ListenerConfig, mechanism: str = "") -> Values:
        """Return the settings that a listener may have its own values of, as they are for it.

        With a SASL mechanism, values for that mechanism of the listener come first.
        """
        of_mechanism = f"{listener.prefix}{mechanism.lower()}."
        values = {}
        for name, row in BROKER_SETTINGS.items():
            if row.is_per_listener or row.is_per_mechanism:
                value = self._values.get(listener.prefix + name, self._values[name])
                values[name] = self._values.get(of_mechanism + name, value) if mechanism else value
        return Values(values)

    @property
    def metadata_address(self) -> EtcdAddress | None:
        """Where etcd is, and this cluster's keys in it; None: metadata is in the data directory."""
        return parse_metadata_address(self.text("polylog.metadata.store"))

    @property
    def is_group_commit(self) -> bool:
        """Whether acks wait for the disk unless a topic has its own setting."""
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
        """Whether a setting has a value that is not the default."""
        return any(name in layer.values for layer in self._layers)

    def first_given(self, settings: Iterable[Setting]) -> Setting | None:
        """Return the first of these settings that has a value other than the default."""
        return next((each for each in settings if self.is_given(each.name)), None)

    def source(self, name: str) -> Source:
        """Return where a setting's value comes from."""
        sources = (layer.source for layer in self._layers if name in layer.values)
        return next(sources, Source.DEFAULT)

    def describe(self) -> list[ConfigEntry]:
        """Return every broker setting as in DescribeConfigs, by name, and those of listeners."""
        return [self._entry(name) for name in sorted(self.names)]

    def describe_shared(self) -> list[ConfigEntry]:
        """The values altered for all brokers, by name."""
        return [
            ConfigEntry(
                name,
                value_to_text(value),
                layer.source,
                find_broker_setting(name).kind,
                find_broker_setting(name).documentation,
                (Synonym(name, value_to_text(value), layer.source),),
            )
            for layer in self._layers
            if layer.source is Source.DYNAMIC_DEFAULT
            for name, value in sorted(layer.values.items())
        ]

    def synonyms(self, settings: Iterable[Setting]) -> tuple[Synonym, ...]:
        """Return the broker's sources of these settings: given values, then the default."""
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
            if setting.default is not None and not setting.name.startswith(PREFIX)
        ]
        return (*given, *defaults)

    def _entry(self, name: str) -> ConfigEntry:
        setting = find_broker_setting(name)
        of_all = BROKER_SETTINGS.get(setting_of(name), setting)
        return ConfigEntry(
            setting.name,
            value_to_text(self.get(setting.name)),
            self.source(setting.name),
            setting.kind,
            setting.documentation,
            self.synonyms(dict.fromkeys((setting, of_all))),
            is_read_only=not is_dynamic(setting),
        )

    def _check_relations(self) -> None:
        faults = [text for _, text in _contradictions(self)]
        if faults:
            raise ConfigError("; ".join(faults))


def _contradictions(values: Values) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield contradictions among valid values: the names involved, and an explanation."""
    for lower, upper in _ORDERED:
        if values.integer(lower) > values.integer(upper):
            text = f"{lower}={values.get(lower)} is above {upper}={values.get(upper)}"
            yield (lower, upper), text
    folders = split_words(values.text("log.dirs"))
    if not folders:
        yield ("log.dirs",), "log.dirs is empty: name a directory"
    if len({Path(each).absolute() for each in folders}) < len(folders):
        yield ("log.dirs",), "log.dirs names a directory twice"
    try:
        parse_metadata_address(values.text("polylog.metadata.store"))
    except ConfigError as error:
        yield ("polylog.metadata.store",), str(error)
    endpoint = values.text_or_none("polylog.otlp.endpoint")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        text = (
            f"polylog.otlp.endpoint={endpoint} is no address of HTTP: http://HOST:4318/v1/metrics"
        )
        yield ("polylog.otlp.endpoint",), text
    yield from _wrong_principals(values)
    yield from _wrong_listeners(values)


def _wrong_principals(values: Values) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in values.names:
        try:
            if name == "super.users":
                parse_principals(values.text(name))
            elif name == "polylog.audit.excluded.principals":
                tuple(map(parse_principal, values.words(name)))
            elif setting_of(name) == "polylog.principal" and values.text_or_none(name):
                parse_principal(values.text(name))
        except ConfigError as error:
            yield (name,), f"{name}: {error}"


_OF_LISTENERS = (
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "listener.security.protocol.map",
)


def _listeners(values: Values) -> tuple[ListenerConfig, ...]:
    protocols = parse_protocol_map(values.words("listener.security.protocol.map"))
    return parse_listeners(
        _of_brokers(values, "listeners"), _of_brokers(values, "advertised.listeners"), protocols
    )


def _of_brokers(values: Values, setting: str) -> tuple[str, ...]:
    """Return the words of a list of listeners without those of controllers."""
    controllers = {each.upper() for each in values.words("controller.listener.names")}
    return tuple(
        word
        for word in values.words(setting)
        if word.strip().rpartition(SEPARATOR)[0].upper() not in controllers
    )


def _wrong_listeners(values: Values) -> Iterator[tuple[tuple[str, ...], str]]:
    if not values.words("listeners"):
        yield ("listeners",), "listeners is empty: give at least one HOST:PORT"
        return
    if not _of_brokers(values, "listeners"):
        text = (
            "listeners has only those of controllers (controller.listener.names): there are no"
            " controllers here; start a broker for each of Kafka's brokers, and none for these"
        )
        yield ("listeners", "controller.listener.names"), text
        return
    try:
        listeners = _listeners(values)
    except ConfigError as error:
        yield _OF_LISTENERS, str(error)
        return
    yield from _unreachable_listeners(values, listeners)
    for listener in listeners:
        if not (listener.address.is_loopback or _is_protected(values, listener)):
            text = (
                f"{listener} can be reached from other machines and there is no authentication:"
                " listen on 127.0.0.1, protect it (SASL_SSL://, or SSL:// with"
                " ssl.client.auth=required), or accept that on a network that you control, with"
                " polylog.insecure=true in the file, --set polylog.insecure=true, or"
                " BROKER_POLYLOG_INSECURE=true in the environment"
            )
            yield ("listeners", "polylog.insecure"), text
    yield from _listeners_without_login(values, listeners)
    prefixes = {each.prefix for each in listeners}
    for name in values.names:
        if name.startswith(PREFIX) and not name.startswith(tuple(prefixes)):
            known = ", ".join(sorted(each.name for each in listeners))
            yield (name,), f"{name}: no listener has that name; there are {known}"
    if inter_broker_listener(values, listeners) is None:
        names = ("inter.broker.listener.name", "security.inter.broker.protocol")
        given = " and ".join(f"{each}={values.get(each)}" for each in names if values.get(each))
        yield names, f"{given}: no listener is that of brokers; the two exclude each other"


def _is_protected(values: Values, listener: ListenerConfig) -> bool:
    """Whether who connects is known, or may do nothing unless ACLs allow it."""
    has_acls = bool(values.text("authorizer.class.name"))
    if has_acls and not values.flag("allow.everyone.if.no.acl.found"):
        return True
    if values.flag("polylog.insecure"):
        return True
    needs_certificate = values.text("ssl.client.auth") == "required"
    name = f"{listener.prefix}ssl.client.auth"
    if name in values.names:
        needs_certificate = values.text(name) == "required"
    return listener.security.has_tls and (listener.security.has_sasl or needs_certificate)


def _listeners_without_login(
    values: Values, listeners: Sequence[ListenerConfig]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield those that nobody could use: they ask for a login, and their protocol has none."""
    for each in listeners:
        protocol = each.address.protocol
        if not each.security.has_sasl or not protocol or protocol in WITH_LOGIN:
            continue
        principal, asked = (
            f"{each.prefix}{setting}" for setting in ("polylog.principal", "ssl.client.auth")
        )
        asks = each.security.has_tls and asked in values.names and values.text(asked) != "none"
        own = principal if principal in values.names else "polylog.principal"
        if not asks and values.text_or_none(own) in {None, "", str(ANONYMOUS)}:
            text = (
                f"{each} asks for a login ({each.security.name}), and clients of {protocol} have"
                f" none: give it a principal ({principal}=User:NAME)"
            )
            if each.security.has_tls:
                text += f", or ask for certificates ({asked}=required)"
            yield ("listeners", "listener.security.protocol.map", principal, asked), text


def inter_broker_listener(
    values: Values, listeners: Sequence[ListenerConfig]
) -> ListenerConfig | None:
    """Return the listener over which brokers reach each other; None: none is as configured."""
    name = values.text_or_none("inter.broker.listener.name")
    protocol = values.text_or_none("security.inter.broker.protocol")
    if name is not None and protocol is not None:
        return None
    wanted = None if name is None else name.upper()
    for each in listeners:
        if wanted in (None, each.name) and protocol in (None, each.security.name):
            return each
    return None


def _unreachable_listeners(
    values: Values, listeners: Sequence[ListenerConfig]
) -> Iterator[tuple[tuple[str, ...], str]]:
    advertised = [each.advertised for each in listeners if each.advertised is not None]
    if advertised and len(advertised) < len(listeners) and not _are_named(values):
        text = (
            f"advertised.listeners has {len(advertised)} addresses for {len(listeners)} listeners:"
            " give one for each, or none"
        )
        yield ("listeners", "advertised.listeners"), text
    for address in advertised:
        if address.is_wildcard or address.port == 0:
            text = (
                f"advertised.listeners: clients cannot connect to {address}; name a host and port"
                " that they can reach, or leave the setting out"
            )
            yield ("advertised.listeners",), text
    if values.text("polylog.metadata.store") != SQLITE:
        for each in listeners:
            if each.advertised is None and each.address.is_wildcard:
                text = (
                    f"{each}: other brokers of the cluster, and their clients, cannot connect to"
                    " that; set advertised.listeners to a host and port that they can reach"
                )
                yield ("listeners", "advertised.listeners", "polylog.metadata.store"), text


def _are_named(values: Values) -> bool:
    """Whether every advertised address has a name: the other listeners need none then."""
    return all(SEPARATOR in word for word in values.words("advertised.listeners"))


def load(
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    file: Path | None = None,
    kafka_properties: Path | None = None,
) -> Config:
    """Read NAME=VALUE overrides over the environment over files over the defaults.

    Raises:
        ConfigError: names everything that is wrong, each with where it was given.
    """
    reading = read(given_texts(overrides, environment, file, kafka_properties), environment)
    faults = [
        f"{each.origin}: {each.text}" if each.origin else each.text for each in reading.faults
    ]
    if len(faults) > 1:
        told = faults[:_TOLD_MAX]
        told += [f"and {len(faults) - len(told)} more"] if len(told) < len(faults) else []
        raise ConfigError("\n  ".join((f"{len(faults)} errors in the configuration:", *told)))
    if faults:
        raise ConfigError(faults[0])
    return Config([Layer(Source.STATIC_BROKER, reading.values)], reading.start)


class Fault(NamedTuple):
    """An error: the first setting that it is about, where that was given, and what is wrong."""

    name: str
    origin: str
    text: str


class Reading(NamedTuple):
    """What sources say: the values that could be read, and all errors."""

    values: dict[str, Value]
    start: Start
    faults: list[Fault]


def read(sources: Sources, environment: Mapping[str, str]) -> Reading:
    """Check and parse what was given."""
    faults = [Fault("", "", each) for each in sources.faults]
    given = _with_main_names(sources.given, faults)
    controllers = _controllers(given)
    references = _references(given, environment)
    last = {each.name: place for place, each in enumerate(given)}
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    not_used: dict[str, str] = {}
    unread: set[str] = set()
    for place, (name, text, origin) in enumerate(given):
        try:
            has_hint = len(faults) < HINTS_MAX
            if name.startswith(controllers) or _is_unused(name, text, has_hint=has_hint):
                not_used[name] = origin
                continue
            if references is None or not references.are_in(text):
                values[name] = parse_value(find_broker_setting(name), text)
            elif last[name] == place:
                setting = find_broker_setting(name)
                values[name] = parse_value(setting, references.replaced(setting, text))
        except ConfigError as error:
            faults.append(Fault(name, origin, str(error)))
            unread.add(name)
        origins[name] = origin
    in_force = Values({name: setting.default for name, setting in BROKER_SETTINGS.items()} | values)
    for names, fault in _contradictions(in_force):
        if unread.isdisjoint(names):
            where = dict.fromkeys(origins[each] for each in names if each in origins)
            first = next((each for each in names if each in origins), "")
            faults.append(Fault(first, " and ".join(where), fault))
    start = Start(
        MappingProxyType(origins),
        MappingProxyType(not_used),
        tuple(sources.ignored),
        tuple(_warnings(given, in_force)),
    )
    return Reading(values, start, faults)


def _warnings(given: Sequence[Given], values: Values) -> Iterator[tuple[str, str]]:
    """Yield what an operator may not expect of values that are allowed: the setting, and a text."""
    folders = split_words(values.text("log.dirs"))
    is_alone = values.text("polylog.metadata.store") == SQLITE
    if len(folders) > 1 and values.integer("polylog.workers") > 1:
        text = (
            f"of {len(folders)} directories polylog.workers use only the first, {folders[0]}: join"
            " the disks by the system (RAID, LVM), or start a broker for each"
        )
        yield "log.dirs", text
    if folders and Path(folders[0]).parent == _EMPTIED:
        text = f"systems empty {_EMPTIED} at their start: name a directory that stays"
        yield "log.dirs", text
    texts = {each.name: each.text for each in given}
    controllers = split_words(texts.get("controller.quorum.voters", ""))
    if is_alone and (len(controllers) > 1 or texts.get("process.roles", "").strip() == "broker"):
        text = (
            "this is a broker of a cluster in Kafka, and here it is alone: brokers of one cluster"
            " have the same polylog.metadata.store, etcd://HOST:PORT/PREFIX"
        )
        yield "process.roles" if "process.roles" in texts else "controller.quorum.voters", text


def _with_main_names(given: Sequence[Given], faults: list[Fault]) -> list[Given]:
    """Replace Kafka's other names of settings; the main name precedes where both are given."""
    names = {each.name: each for each in given}
    renamed = []
    for each in given:
        if (each.name, each.text.strip()) == ("broker.id", "-1"):
            continue  # as in Kafka: it is not given
        main = names.get(ALIASES.get(each.name, ""))
        if main is None:
            renamed.append(each._replace(name=ALIASES.get(each.name, each.name)))
        elif each.name == "broker.id" and main.text.strip() != each.text.strip():
            text = "it is another name of node.id, which has another value"
            faults.append(Fault(each.name, each.origin, f"broker.id={each.text:.20}: {text}"))
    return renamed


def _controllers(given: Sequence[Given]) -> tuple[str, ...]:
    """Return what the names of settings of controllers' listeners begin with."""
    texts = [each.text for each in given if each.name == "controller.listener.names"]
    return tuple(f"{PREFIX}{name.lower()}." for name in split_words("".join(texts[-1:])))


def _references(given: Sequence[Given], environment: Mapping[str, str]) -> "References | None":
    """Return what replaces references to files and variables; None: there is nothing of that."""
    texts = {each.name: each.text for each in given}
    if not texts.get("config.providers"):
        return None
    from broker.model.config_providers import References  # noqa: PLC0415 - rarely needed

    return References(texts, environment)


def _is_unused(name: str, text: str, *, has_hint: bool) -> bool:
    """Whether only Kafka has the setting; raises ConfigError if Kafka has none of that name."""
    if name in BROKER_SETTINGS or per_listener_setting(name) is not None:
        return False
    from broker.model.unused_settings import is_unused, unknown  # noqa: PLC0415 - 290 names

    if not is_unused(name):
        raise ConfigError(unknown(name) if has_hint else f"unknown setting {name!r:.100}")
    if name == "process.roles" and "broker" not in split_words(text):
        raise ConfigError(
            f"{name}={text:.100}: this is the configuration of a controller, and there are none"
            " here; start a broker for each of Kafka's brokers"
        )
    return True


def _dynamic_values(texts: Mapping[str, str], *, is_own: bool) -> dict[str, Value]:
    """Parse values that are altered while the broker runs, for this broker alone or for all."""
    values: dict[str, Value] = {}
    for name, text in texts.items():
        setting = find_broker_setting(name)
        is_for_listener = is_own and name.startswith(PREFIX)
        if setting.is_dynamic_per_listener and not (setting.is_dynamic or is_for_listener):
            raise ConfigError(
                f"{name} can be altered only for a listener of one broker, as"
                f" {PREFIX}<name>.{setting_of(name)}"
            )
        if setting.kind is Kind.PASSWORD:
            raise ConfigError(
                f"{name} is a password, which is not stored with the metadata: give it at the"
                " start, or name a file"
            )
        if not is_dynamic(setting):
            raise ConfigError(f"{name} cannot be altered while the broker runs, only at its start")
        values[name] = parse_value(setting, text)
    return values


def is_dynamic(setting: Setting) -> bool:
    """Whether it may be altered while the broker runs, under the name that the row has."""
    if setting.kind is Kind.PASSWORD:
        return False
    if setting.name.startswith(PREFIX):
        return setting.is_dynamic_per_listener
    return setting.name in DYNAMIC_SETTINGS


def find_broker_setting(name: str) -> Setting:
    """Return the broker's setting of that name, which may be that of a listener."""
    return per_listener_setting(name) or find_setting(name, BROKER_SETTINGS)


def setting_of(name: str) -> str:
    """Return the name of a setting without what makes it that of a listener or mechanism."""
    setting = name.removeprefix(PREFIX).partition(".")[2] if name.startswith(PREFIX) else name
    return setting if setting in BROKER_SETTINGS else setting.partition(".")[2]


def find_setting(name: str, settings: Mapping[str, Setting]) -> Setting:
    """Return the setting of that name; ConfigError suggests the nearest one."""
    setting = settings.get(name)
    if setting is None:
        raise ConfigError(f"unknown setting {name!r:.100}{nearest_name(name, settings)}")
    return setting


def parse_value(setting: Setting, text: str) -> Value:
    """Parse a value of a setting; ConfigError names the allowed ones."""
    if len(text.encode(errors="replace")) > limits.STRING_BYTES_MAX:
        raise ConfigError(f"{setting.name} has more than {limits.STRING_BYTES_MAX} bytes")
    if "\0" in text:
        raise ConfigError(f"{setting.name} has a character that is 0")
    try:
        value = _read(setting.kind, text.strip())
    except ValueError:
        value = None
    if setting.is_capped and isinstance(value, int) and setting.maximum is not None:
        value = min(value, int(setting.maximum)) if _is_of_kind(setting, value) else None
    if setting.kind is Kind.STRING and isinstance(value, str):
        value = _as_listed(setting, value)
    if value is None or not (_is_chosen(setting, value) and _is_in_range(setting, value)):
        shown = HIDDEN if setting.kind is Kind.PASSWORD else repr(text)
        raise ConfigError(f"{setting.name}={shown:.100}: allowed is {setting.allowed}")
    if setting.choices and isinstance(value, tuple):
        return tuple(dict.fromkeys(value))  # without repetitions
    return value


def value_to_text(value: Value) -> str | None:
    """Return a value as text, as in configuration files; that of a password is HIDDEN."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def split_words(text: str) -> tuple[str, ...]:
    """Split the text of a list."""
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
        case Kind.PASSWORD:
            return Secret(text)


def _is_chosen(setting: Setting, value: Value) -> bool:
    words = value if isinstance(value, tuple) else (value_to_text(value),)
    if setting.pattern:
        return all(re.fullmatch(setting.pattern, word or "") for word in words)
    return not setting.choices or set(words) <= set(setting.choices)


def _as_listed(setting: Setting, value: str) -> str:
    """Return a choice as it is listed: Kafka's files may have it in other letters."""
    return next((each for each in setting.choices if each.lower() == value.lower()), value)


def _is_of_kind(setting: Setting, value: int) -> bool:
    """Whether Kafka's type of the setting has such a number."""
    low, high = _KIND_RANGES[setting.kind]
    return low <= value <= high


def _is_in_range(setting: Setting, value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    low, high = _KIND_RANGES[setting.kind]
    low = low if setting.minimum is None else setting.minimum
    high = high if setting.maximum is None else setting.maximum
    return low <= value <= high
