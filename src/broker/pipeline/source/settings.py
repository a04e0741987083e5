"""The options of a read, parsed and checked together before anything is connected."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from broker.client.metadata import Cluster
from broker.client.offsets import EARLIEST, LATEST
from broker.client.security import SecuritySettings
from broker.model.address import Address, parse_addresses
from broker.model.errors import ConfigError
from broker.model.limits import CLIENT_FETCH_BYTES, CLIENT_GIVE_UP_SECONDS, FETCH_BYTES_MAX
from broker.pipeline.options import NO_OPTIONS, Assignment, Numbers, Use, parse, security_of


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or end of a read.

    Exactly one field is set: `everywhere` (EARLIEST or LATEST for all partitions); `offsets` by
    partition, which may also be EARLIEST or LATEST; `time` in ms for all partitions; `times` by
    partition.
    """

    everywhere: int | None = None
    offsets: Numbers | None = None
    time: int | None = None
    times: Numbers | None = None

    def without(self, topics: Collection[str]) -> Self:
        """Return the bound without some topics."""
        return replace(
            self, offsets=_without(self.offsets, topics), times=_without(self.times, topics)
        )


def _without(numbers: Numbers | None, topics: Collection[str]) -> Numbers | None:
    if numbers is None:
        return None
    return {key: number for key, number in numbers.items() if key[0] not in topics}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a read; the fields are options, see options.py."""

    bootstrap: tuple[Address, ...]
    security: SecuritySettings | None
    client_id: str
    give_up_seconds: float
    answer_seconds: float | None
    is_committed: bool
    chunk_bytes: int
    topics: tuple[str, ...] | None
    pattern: re.Pattern[str] | None
    assignment: Assignment | None
    starting: Bound
    ending: Bound
    is_late_start_an_error: bool
    fails_on_data_loss: bool
    key_prefix: bytes | None
    min_partitions: int | None
    records_per_task_max: int | None
    has_pushdown: bool
    tunes_worker: bool
    trigger_offsets_max: int | None
    trigger_bytes_max: int | None
    trigger_offsets_min: int | None
    trigger_delay_ms: int

    def cluster(self) -> Cluster:
        """Return the cluster to read from; nothing is connected yet."""
        return Cluster(
            self.bootstrap,
            client_id=self.client_id,
            give_up_seconds=self.give_up_seconds,
            answer_seconds=self.answer_seconds,
            security=self.security,
        )


def settings_of(given: Mapping[str, str], use: Use) -> Settings:
    """Parse the options of a batch (Use.READ) or a stream (Use.STREAM).

    Raises:
        ConfigError: an unknown name, an invalid value, or options that exclude each other.
    """
    values = parse(given, use)
    is_batch = use is Use.READ
    if not given:
        raise ConfigError(NO_OPTIONS)
    _exactly_one(values, "subscribe", "subscribePattern", "assign")
    minimum, maximum = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if minimum and maximum and minimum > maximum:
        raise ConfigError(
            f"minOffsetsPerTrigger {minimum} is more than maxOffsetsPerTrigger {maximum}"
        )
    starting = _bound(values, "starting", "earliest" if is_batch else "latest")
    ending = _bound(values, "ending", "latest") if is_batch else Bound(LATEST)
    if is_batch and _has(starting, LATEST):
        raise ConfigError("option startingOffsets: a batch cannot begin at latest (-1)")
    if _has(ending, EARLIEST):
        raise ConfigError("option endingOffsets: a batch cannot end at earliest (-2)")
    timeout_ms = values["kafka.default.api.timeout.ms"]
    answer_ms = values["kafka.request.timeout.ms"]
    prefix = values["keyPrefix"]
    return Settings(
        bootstrap=_bootstrap(values["kafka.bootstrap.servers"]),
        security=security_of(values),
        client_id=values["kafka.client.id"],
        give_up_seconds=timeout_ms / 1000 if timeout_ms else CLIENT_GIVE_UP_SECONDS,
        answer_seconds=answer_ms / 1000 if answer_ms else None,
        is_committed=values["kafka.isolation.level"] == "read_committed",
        chunk_bytes=_chunk_bytes(values),
        topics=values["subscribe"],
        pattern=values["subscribePattern"],
        assignment=values["assign"],
        starting=starting,
        ending=ending,
        is_late_start_an_error=values["startingOffsetsByTimestampStrategy"] == "error",
        fails_on_data_loss=values["failOnDataLoss"],
        key_prefix=prefix.encode() if prefix else None,
        min_partitions=values["minPartitions"],
        records_per_task_max=values["maxRecordsPerPartition"],
        has_pushdown=values.get("pushdown", False),
        tunes_worker=values["tuneWorkers"],
        trigger_offsets_max=maximum,
        trigger_bytes_max=values.get("maxBytesPerTrigger"),
        trigger_offsets_min=minimum,
        trigger_delay_ms=values.get("maxTriggerDelay", 0),
    )


def _exactly_one(values: Mapping[str, Any], *names: str) -> None:
    given = [each for each in names if values[each] is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise ConfigError(f"expected exactly one of the options {', '.join(names)}, got {found}")


def _bootstrap(servers: str | None) -> tuple[Address, ...]:
    if servers is None:
        raise ConfigError("option kafka.bootstrap.servers: expected HOST:PORT, it is missing")
    return parse_addresses(servers)


def _chunk_bytes(values: Mapping[str, Any]) -> int:
    given = [values["kafka.max.partition.fetch.bytes"], values["kafka.fetch.max.bytes"]]
    return min([each for each in given if each] or [CLIENT_FETCH_BYTES], default=FETCH_BYTES_MAX)


def _bound(values: Mapping[str, Any], which: str, default: str) -> Bound:
    """Return the start or end; timestamps take precedence over offsets, as in Spark's source."""
    time, times = values[f"{which}Timestamp"], values[f"{which}OffsetsByTimestamp"]
    if time is not None:
        return Bound(time=time)
    if times is not None:
        if min(times.values()) < 0:
            raise ConfigError(
                f"option {which}OffsetsByTimestamp: expected milliseconds since 1970, got less"
                " than 0"
            )
        return Bound(times=times)
    offsets: str | Numbers = values[f"{which}Offsets"] or default
    if isinstance(offsets, str):
        return Bound(EARLIEST if offsets == "earliest" else LATEST)
    return Bound(offsets=offsets)


def _has(bound: Bound, offset: int) -> bool:
    return bound.everywhere == offset or offset in (bound.offsets or {}).values()
