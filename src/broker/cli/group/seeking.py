"""How offsets of a group are set: the partitions, the offsets, and what is kept for an undo."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from broker.cli.group import saved_offsets
from broker.cli.partitions import check_existing, partitions_of
from broker.client.brokers import describe
from broker.client.groups import INACTIVE, commit_offsets, delete_offsets
from broker.client.lag import existing
from broker.client.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from broker.model.errors import ConfigError, ErrorCode, PolylogError, RequestError

if TYPE_CHECKING:
    from broker.client.groups import Group
    from broker.client.metadata import Cluster, Partition

_OffsetT = TypeVar("_OffsetT")


class Sought(NamedTuple):
    """A partition whose committed offset is set.

    Attributes:
        topic: the topic.
        partition: its number.
        before: the committed offset until now; null: none.
        after: the committed offset from now on; null: it is removed.
        lag_after: how many records will be read.
        note: why `after` is not what was asked for; "" if it is.
    """

    topic: str
    partition: int
    before: int | None
    after: int | None
    lag_after: int
    note: str


def check_inactive(cluster: "Cluster", group: "Group | None", name: str) -> None:
    """Raise RequestError if members would overwrite offsets that are set."""
    if group is not None and group.state not in INACTIVE:
        clients = sorted({each.client_id for each in group.members})
        who = f" ({', '.join(clients[:5])}{', ...' if len(clients) > 5 else ''})" if clients else ""  # noqa: PLR2004
        raise RequestError(
            ErrorCode.NON_EMPTY_GROUP,
            f"{cluster}: group {name!r} is {group.state} with {len(group.members)} members{who},"
            " which would overwrite the offsets: stop them first, and wait for session.timeout.ms",
        )


def sought_partitions(
    cluster: "Cluster", wanted: Sequence[str], committed: "Iterable[Partition]"
) -> "list[Partition]":
    """Return the partitions that words name; those of `committed` that exist if none is named.

    Raises:
        ConfigError: a number is invalid, or nothing is named and nothing is committed.
        RequestError: there is no such topic or partition.
    """
    if wanted:
        return partitions_of(cluster, wanted)
    found = list(of_existing(cluster, dict.fromkeys(committed, 0)))
    if not found:
        raise ConfigError("the group has committed nothing in topics that exist: name topics")
    return found


def of_existing(
    cluster: "Cluster", offsets: "Mapping[Partition, _OffsetT]"
) -> "dict[Partition, _OffsetT]":
    """Leave out the partitions that do not exist any more; RequestError, Unreachable."""
    known = cluster.existing_topics({topic for topic, _ in offsets}) if offsets else {}
    return existing(offsets, known)


def sought(
    cluster: "Cluster",
    before: "Mapping[Partition, int]",
    after: "Mapping[Partition, int | None]",
) -> list[Sought]:
    """Return the rows of a seek; offsets outside of a log become its start or its end.

    Raises:
        RequestError: a partition does not exist.
    """
    check_existing(cluster, after)
    starts, ends = (list_offsets(cluster, dict.fromkeys(after, at)) for at in (EARLIEST, LATEST))
    rows = []
    for (topic, partition), wanted in sorted(after.items()):
        key = topic, partition
        start, end = starts[key].offset, ends[key].offset
        offset = None if wanted is None else min(max(wanted, start), end)
        note = ""
        if wanted is not None and offset != wanted:
            place = "start" if wanted < start else "end"
            note = f"{wanted} is outside of the log: its {place}"
        first = start if offset is None else offset
        rows.append(Sought(topic, partition, before.get(key), offset, end - first, note))
    return rows


def apply(
    cluster: "Cluster", group: str, before: "Mapping[Partition, int]", rows: Sequence[Sought]
) -> Path | None:
    """Set the offsets of the rows that change; return the file with the earlier ones."""
    changed = {
        (each.topic, each.partition): each.after for each in rows if each.before != each.after
    }
    if not changed:
        return None
    with kept_for_undo(cluster, group, {key: before.get(key) for key in changed}) as file:
        kept = {key: offset for key, offset in changed.items() if offset is not None}
        if kept:
            commit_offsets(cluster, group, kept)
        removed = [key for key, offset in changed.items() if offset is None]
        if removed:
            delete_offsets(cluster, group, removed)
    return file


@contextmanager
def kept_for_undo(
    cluster: "Cluster", group: str, earlier: "Mapping[Partition, int | None]"
) -> Iterator[Path]:
    """Keep the earlier offsets in a file while a block changes them.

    The file of a change that was refused as a whole does not stay: an undo would restore what is
    so already, and not what was before. It stays if a part was changed, or if nobody knows.
    """
    file = saved_offsets.save(describe(cluster).cluster_id, group, earlier)
    try:
        yield file
    except RequestError:
        with suppress(PolylogError):
            now = committed_offsets(cluster, group)
            if all(now.get(key) == offset for key, offset in earlier.items()):
                saved_offsets.forget(file)
        raise
