"""The topics of a read and their offsets, from the broker."""

import logging
from collections.abc import Collection, Iterable

from broker.client.metadata import Cluster, Partition, Topic
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.model.errors import ConfigError
from broker.pipeline.options import Assignment
from broker.pipeline.source.settings import Bound, Settings

_log = logging.getLogger("broker.pipeline")


class DataLoss(ConfigError):  # noqa: N818 - what happened, like the rest of the tree
    """Records of a query were deleted, and failOnDataLoss is true."""


def report_loss(settings: Settings, what: Collection[str]) -> None:
    """Raise DataLoss or log a warning, depending on failOnDataLoss."""
    if not what:
        return
    text = "; ".join(what)
    if settings.fails_on_data_loss:
        raise DataLoss(
            f"{text}. With the option failOnDataLoss=false a query continues with the"
            " existing records"
        )
    _log.warning("data may be lost: %s", text)


def find_topics(
    cluster: Cluster, settings: Settings, *, may_be_deleted: bool = False
) -> dict[str, Topic]:
    """Return the topics that a read names, or that match its pattern (there may be none).

    Named topics that do not exist are left out if they may have been deleted.

    Raises:
        RequestError: UNKNOWN_TOPIC_OR_PARTITION: a named topic does not exist.
        ConfigError: an assigned partition does not exist.
        Unreachable: no broker answers.
    """
    if settings.pattern is not None:
        found = {
            name: each
            for name, each in cluster.existing_topics().items()
            if settings.pattern.search(name) and not each.is_internal
        }
        if not found and not may_be_deleted:
            _log.warning(
                "no topic matches: cluster=%s pattern=%r", cluster, settings.pattern.pattern
            )
        return found
    names = named_topics(settings)
    found = cluster.existing_topics(names) if may_be_deleted else cluster.topics(names)
    return found if settings.assignment is None else _assigned(cluster, found, settings.assignment)


def named_topics(settings: Settings) -> set[str]:
    """Return the topics that a read names; empty if it has a pattern."""
    return set(settings.assignment or settings.topics or ())


def is_read(settings: Settings, topic: str) -> bool:
    """Return whether a read includes a topic, existing or not."""
    if settings.pattern is not None:
        return settings.pattern.search(topic) is not None
    return topic in named_topics(settings)


def _assigned(
    cluster: Cluster, found: dict[str, Topic], assignment: Assignment
) -> dict[str, Topic]:
    topics: dict[str, Topic] = {}
    for name, topic in found.items():
        wanted = assignment[name]
        missing = set(wanted) - set(topic.partitions)
        if missing:
            raise ConfigError(
                f"{cluster}: option assign: {name!r} has partitions"
                f" 0 to {len(topic.partitions) - 1}, not {sorted(missing)}"
            )
        topics[name] = topic._replace(partitions=wanted)
    return topics


def partitions_of(topics: dict[str, Topic]) -> list[Partition]:
    """Return all partitions of topics."""
    return [(name, each) for name, topic in topics.items() for each in topic.partitions]


def log_offsets(
    cluster: Cluster, settings: Settings, partitions: Iterable[Partition], edge: int
) -> dict[Partition, int]:
    """Return the EARLIEST or LATEST offset of partitions; LATEST depends on the isolation level."""
    found = list_offsets(
        cluster, dict.fromkeys(partitions, edge), is_committed=settings.is_committed
    )
    return {each: at.offset for each, at in found.items()}


def log_bounds(
    cluster: Cluster, settings: Settings, partitions: Iterable[Partition]
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Return the EARLIEST and the LATEST offsets of partitions, as `log_offsets`."""
    earliest, latest = (
        log_offsets(cluster, settings, partitions, edge) for edge in (EARLIEST, LATEST)
    )
    return earliest, latest


def resolve(
    cluster: Cluster,
    settings: Settings,
    bound: Bound,
    partitions: Collection[Partition],
    *,
    is_start: bool,
) -> dict[Partition, int]:
    """Return the offset of a bound in each partition.

    A timestamp after all records means the end; as a start it is an error unless
    startingOffsetsByTimestampStrategy is latest.

    Raises:
        ConfigError: partitions that a bound does not name or that do not exist, or such a start.
    """
    if bound.everywhere is not None:
        return log_offsets(cluster, settings, partitions, bound.everywhere)
    if bound.time is not None:
        return _by_time(cluster, settings, dict.fromkeys(partitions, bound.time), is_start=is_start)
    given = bound.offsets if bound.times is None else bound.times
    assert given is not None, "a bound is one of four"
    _check_named(given, partitions, is_start=is_start)
    if bound.times is not None:
        return _by_time(cluster, settings, bound.times, is_start=is_start)
    resolved = dict(given)
    for edge in (EARLIEST, LATEST):
        there = [each for each, offset in given.items() if offset == edge]
        resolved |= log_offsets(cluster, settings, there, edge)
    return resolved


def _check_named(
    given: Collection[Partition], partitions: Collection[Partition], *, is_start: bool
) -> None:
    missing, extra = set(partitions) - set(given), set(given) - set(partitions)
    if missing or extra:
        which = "starting" if is_start else "ending"
        raise ConfigError(
            f"{which} offsets: expected one for each partition that is read;"
            f" missing: {_names(missing)}; not read: {_names(extra)}"
        )


def _by_time(
    cluster: Cluster, settings: Settings, times: dict[Partition, int], *, is_start: bool
) -> dict[Partition, int]:
    found = list_offsets(cluster, times)
    late = [each for each, at in found.items() if at.offset < 0]
    if late and is_start and settings.is_late_start_an_error:
        raise ConfigError(
            f"{_names(late)}: no record has the starting timestamp or a later one: with the option"
            " startingOffsetsByTimestampStrategy=latest a read begins at the end there"
        )
    resolved = {each: at.offset for each, at in found.items()}
    return resolved | log_offsets(cluster, settings, late, LATEST)


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(f"{topic}-{each}" for topic, each in sorted(partitions)) or "none"
