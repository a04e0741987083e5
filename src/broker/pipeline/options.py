"""The options of the data source: names, types, defaults, and the uses that accept them.

Names and meanings are those of Spark's Kafka source if it has the option. A second table has the
settings of Kafka's consumer and producer, whose names begin with `kafka.`. Spark passes names in
lower case and compares them without case. An unknown name is an error that suggests the closest
known one.

Source: Spark's Structured Streaming + Kafka integration guide.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from enum import Flag, auto
from typing import Any, Final, NamedTuple

from broker.client.security import SETTINGS as SECURITY_SETTINGS
from broker.client.security import SecuritySettings
from broker.model.compressions import BY_NAME
from broker.model.errors import ConfigError
from broker.model.limits import MESSAGE_BYTES_MAX, PIECE_BYTES, TRANSACTIONAL_ID_BYTES_MAX
from broker.pipeline.java_patterns import compile_java
from broker.pipeline.limits import SINK_GIVE_UP_MS, SINK_TRANSACTION_MS
from broker.pipeline.schema import checked_columns

_TASK_DIGITS = 11  # of a transactional id: a dash and the number of the task


class Use(Flag):
    """The uses that accept an option."""

    READ = auto()
    STREAM = auto()
    WRITE = auto()
    STREAM_WRITE = auto()
    SEGMENTS = auto()


class Option(NamedTuple):
    """One option; `parse` raises ValueError with a text that says what is expected."""

    name: str
    parse: Callable[[str], Any]
    uses: Use
    default: Any = None


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("a non-empty text")
    return value.strip()


def _unchanged(value: str) -> str:
    return value


def _boolean(value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise ValueError("true or false")
    return value.lower() == "true"


def _positive(value: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", value):
        raise ValueError("a whole number above 0")
    return int(value)


def _int32(value: str) -> int:
    number = _positive(value)
    if number >> 31:
        raise ValueError("a number below 2^31")
    return number


def _natural(expected: str) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", value):
            raise ValueError(expected)
        return int(value)

    return parse


_milliseconds = _natural("milliseconds since 1970")


def _write_id(value: str) -> str:
    longest = TRANSACTIONAL_ID_BYTES_MAX - _TASK_DIGITS
    if not 0 < len(value.encode()) <= longest:
        raise ValueError(f"a name of 1 to {longest} bytes")
    return value


_UNITS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def _duration(value: str) -> int:
    """Return the ms of `15m`, `30 s` or, as in Spark, a plain number of ms."""
    found = re.fullmatch(r"([0-9]{1,12})\s*([a-z]*)", value.strip().lower())
    if not found or (found[2] or "ms") not in _UNITS:
        raise ValueError(f"a time such as 15m; units are {', '.join(_UNITS)}")
    return int(found[1]) * _UNITS[found[2] or "ms"]


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in words:
            raise ValueError(" or ".join(words))
        return value.lower()

    return parse


def _names(value: str) -> tuple[str, ...]:
    names = tuple(each.strip() for each in value.split(","))
    if not all(names):
        raise ValueError("names separated by commas")
    return names


def _columns(value: str) -> tuple[str, ...]:
    return checked_columns(_names(value))


Assignment = dict[str, tuple[int, ...]]
Numbers = dict[tuple[str, int], int]


def _assignment(value: str) -> Assignment:
    expected = ValueError('JSON such as {"topic": [0, 1]}')
    found = _json_object(value, expected)
    for numbers in found.values():
        if not isinstance(numbers, list) or not all(_is_number(each) for each in numbers):
            raise expected
    return {topic: tuple(sorted(set(numbers))) for topic, numbers in found.items()}


def numbers_by_partition(value: str) -> Numbers:
    """Parse offsets or timestamps by partition, `{"topic": {"0": 23}}`.

    Raises:
        ValueError: it is not such JSON.
    """
    expected = ValueError('JSON such as {"topic": {"0": 23, "1": -2}}')
    numbers: Numbers = {}
    for topic, partitions in _json_object(value, expected).items():
        if not isinstance(partitions, dict):
            raise expected
        for partition, number in partitions.items():
            if not re.fullmatch("[0-9]{1,9}", partition) or not _is_number(number, least=-2):
                raise expected
            numbers[topic, int(partition)] = number
    return numbers


def _offsets(value: str) -> str | Numbers:
    if value.strip().lower() in {"earliest", "latest"}:
        return value.strip().lower()
    try:
        return numbers_by_partition(value)
    except ValueError as error:
        raise ValueError(f"earliest, latest or {error}") from None


def _json_object(value: str, expected: ValueError) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        raise expected from None
    if not isinstance(found, dict) or not found:
        raise expected
    return found


def _is_number(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value < 1 << 63


_R, _S, _F, _W = Use.READ, Use.STREAM, Use.SEGMENTS, Use.WRITE
_READS = _R | _S
_WRITES = _W | Use.STREAM_WRITE

OPTIONS: Final = (
    # Which records.
    Option("subscribe", _names, _READS | _F),
    Option("subscribePattern", compile_java, _READS | _F),
    Option("assign", _assignment, _READS),
    Option("startingOffsets", _offsets, _READS),
    Option("startingTimestamp", _milliseconds, _READS),
    Option("startingOffsetsByTimestamp", numbers_by_partition, _READS),
    Option("startingOffsetsByTimestampStrategy", _one_of("error", "latest"), _READS, "error"),
    Option("endingOffsets", _offsets, _R),
    Option("endingTimestamp", _milliseconds, _R),
    Option("endingOffsetsByTimestamp", numbers_by_partition, _R),
    Option("failOnDataLoss", _boolean, _READS, default=True),
    # Which columns, keys and filters.
    Option("includeHeaders", _boolean, _READS | _F | _WRITES, default=False),  # a sink always does
    Option("columns", _columns, _READS | _F),
    Option("keyPrefix", _text, _READS | _F),
    Option("pushdown", _boolean, _R, default=False),
    # Files instead of a broker.
    Option("segments", _text, _F),
    Option("onCorrupt", _one_of("fail", "row"), _F, "fail"),
    Option("bytesPerTask", _positive, _F, PIECE_BYTES),
    # How offsets are divided into tasks and triggers.
    Option("minPartitions", _positive, _READS),
    Option("maxRecordsPerPartition", _positive, _READS),
    Option("maxOffsetsPerTrigger", _positive, _S),
    Option("maxBytesPerTrigger", _positive, _S),
    Option("minOffsetsPerTrigger", _positive, _S),
    Option("maxTriggerDelay", _duration, _S, 15 * 60_000),
    # Whether tasks may change settings of the worker process, which Spark reuses: see worker.py.
    Option("tuneWorkers", _boolean, _READS | _F | _WRITES, default=True),
    # How rows are written.
    Option("topic", _text, _WRITES),
    Option("delivery", _one_of("at-least-once", "exactly-once"), _WRITES, "at-least-once"),
    Option("writeId", _write_id, _W),
    Option("writeBatch", _natural("a whole number from 0 on"), _W, 0),
    Option("tasks", _positive, _WRITES),
    Option("extraColumns", _one_of("fail", "ignore"), _WRITES, "fail"),
    Option("markerTopic", _text, _WRITES, "polylog-sink-markers"),
    Option("maxRowsPerSecondPerTask", _positive, _WRITES),
    Option("checkpointLocation", _text, Use.STREAM_WRITE),  # Spark's own option
)

# Options of Spark's source about its consumers, which do not exist here. They are accepted without
# effect, so that a query can be changed to this source by its format alone.
WITHOUT_EFFECT: Final = frozenset(
    {
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
    }
)

# What Spark itself adds to the options of a table or a path.
SPARK_OPTIONS: Final = frozenset(
    {
        "collation",
        "comment",
        "external",
        "is_managed_location",
        "location",
        "owner",
        "path",
        "provider",
        "serialization.format",
        "transient_lastddltime",
    }
)

KAFKA: Final = "kafka."
_ANY = _READS | _WRITES

KAFKA_OPTIONS: Final = (
    Option("bootstrap.servers", _text, _ANY),
    Option("client.id", _text, _ANY, "polylog-spark"),
    *(Option(each, _unchanged, _ANY) for each in SECURITY_SETTINGS),
    Option("default.api.timeout.ms", _positive, _ANY),
    Option("request.timeout.ms", _positive, _ANY),
    Option("isolation.level", _one_of("read_committed", "read_uncommitted"), _READS | _F),
    Option("max.partition.fetch.bytes", _positive, _READS),
    Option("fetch.max.bytes", _positive, _READS),
    Option("compression.type", _one_of(*BY_NAME), _WRITES, "none"),
    Option("delivery.timeout.ms", _positive, _WRITES, SINK_GIVE_UP_MS),
    Option("max.request.size", _int32, _WRITES, MESSAGE_BYTES_MAX),
    Option("transaction.timeout.ms", _int32, _WRITES, SINK_TRANSACTION_MS),
)
# Settings of Kafka's consumer and producer that have no equivalent here.
KAFKA_WITHOUT_EFFECT: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.idempotence",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms",
    }
)

# The error of a read or write without options.
NO_OPTIONS: Final = (
    "option kafka.bootstrap.servers: expected HOST:PORT, but there are no options at all; Spark"
    " passes the options of a table only if CREATE TABLE had no list of columns (use the option"
    " columns instead), otherwise only those in WITH (…)"
)


def parse(given: Mapping[str, str], use: Use) -> dict[str, Any]:
    """Return every option of a use by its name, with its default if it is not given.

    Names of Kafka's settings keep their prefix `kafka.`.

    Raises:
        ConfigError: an unknown name, an option of another use, or an invalid value.
    """
    values = {name: each.default for name, each in _OPTIONS.items() if each.uses & use}
    for given_name, value in given.items():
        name = _known_name(given_name, use)
        if name is None:
            continue
        option = _OPTIONS[name]
        if not option.uses & use:
            where = " and ".join(each.name or "" for each in option.uses).lower().replace("_", " ")
            raise ConfigError(f"option {name}: only for {where}")
        try:
            values[name] = option.parse(value)
        except ValueError as error:
            raise ConfigError(f"option {name}: expected {error}, got {value!r}") from None
    return values


def security_of(values: Mapping[str, Any]) -> SecuritySettings | None:
    """Return the security of connections, or None if no option is about it; read its files once.

    Raises:
        ConfigError: the options cannot be used.
    """
    given = {each: values[KAFKA + each] for each in SECURITY_SETTINGS}
    security = SecuritySettings({name: text for name, text in given.items() if text is not None})
    if security == SecuritySettings({}):
        return None
    try:
        security.secured()
    except ConfigError as error:
        raise ConfigError(f"options {KAFKA}*: {error}") from None
    return security


def table_options(given: Mapping[str, str], use: Use) -> dict[str, str]:
    """Return the options of a table that a use accepts; a table has one set for all uses.

    A table with one topic is written to that topic unless the option topic names another.

    Raises:
        ConfigError: an unknown name.
    """
    names = {name: _known_name(name, ~Use(0)) for name in given}
    options = {
        given_name: value
        for given_name, value in given.items()
        if (name := names[given_name]) is None or _OPTIONS[name].uses & use
    }
    by_name = {name.lower(): value for name, value in given.items()}
    topics = [each.strip() for each in by_name.get("subscribe", "").split(",")]
    if use & _WRITES and "topic" not in by_name and len(topics) == 1 and topics[0]:
        options["topic"] = topics[0]
    return options


def tunes_worker(given: Mapping[str, str]) -> bool:
    """Return the option tuneWorkers; an invalid value counts as true, since `parse` reports it."""
    by_name = {name.lower(): value for name, value in given.items()}
    return by_name.get("tuneworkers", "true").lower() != "false"


def _known_name(given: str, use: Use) -> str | None:
    """Return the name of an option in the usual case; None if it has no effect."""
    lower = given.lower()
    if lower in _WITHOUT_EFFECT:
        return None
    if lower not in _NAMES:
        raise ConfigError(f"there is no option {given!r}{_nearest(lower, use)}")
    return _NAMES[lower]


def _nearest(name: str, use: Use) -> str:
    known = [each for each, option in _OPTIONS.items() if option.uses & use]
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name, lower, n=1, cutoff=0.6)
    if not near:
        near = [each for each in lower if each == KAFKA + name]
    return f"; did you mean {lower[near[0]]}?" if near else f"; there are {', '.join(known)}"


_OPTIONS: Final = {each.name: each for each in OPTIONS} | {
    KAFKA + each.name: each for each in KAFKA_OPTIONS
}
_NAMES: Final = {each.lower(): each for each in _OPTIONS}
_WITHOUT_EFFECT: Final = (
    SPARK_OPTIONS | WITHOUT_EFFECT | {KAFKA + each for each in KAFKA_WITHOUT_EFFECT}
)
