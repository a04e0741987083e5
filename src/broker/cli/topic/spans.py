"""The offset ranges of -O, per partition, in the words of rpk and kcat.

    start       from the first record on       end         only what comes
    42          from offset 42 on              @TIME       from the first record of that time on
    +10         from the 11th record on        -10         the last 10 records of each partition
    A:B         from A to B, without B; each of the above, or empty; :+10 is 10 after A

TIME is milliseconds or seconds since 1970, a date or date and time (UTC without an offset), or
-90s, -5m, -1h, -7d: so long ago.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.cli.times import time_ms
from broker.client.metadata import Cluster, Partition
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.model.errors import ConfigError


class Span(NamedTuple):
    """Offsets of a partition; end None: without an end; the log's are those that it has now."""

    start: int
    end: int | None
    log_start: int
    log_end: int


def spans(
    cluster: Cluster,
    partitions: Sequence[Partition],
    text: str,
    topic_ids: Mapping[str, str],
    *,
    is_committed: bool = True,
) -> dict[Partition, Span]:
    """Return what a range means for each partition.

    Raises:
        ConfigError: it is not one.
        RequestError, Unreachable: as list_offsets.
    """
    # A time has colons of its own, so a colon that separates follows no digit of a clock.
    first, colon, last = _split(text)

    def ask(wanted: int, *, committed: bool = False) -> dict[Partition, int]:
        found = list_offsets(
            cluster,
            dict.fromkeys(partitions, wanted),
            is_committed=committed,
            topic_ids=topic_ids,
        )
        return {key: each.offset for key, each in found.items()}

    starts, ends = ask(EARLIEST), ask(LATEST, committed=is_committed)

    def at(word: str, base: Mapping[Partition, int]) -> dict[Partition, int]:
        if word == "start":
            return dict(starts)
        if word == "end":
            return dict(ends)
        if word.startswith("@"):
            found = ask(time_ms(word[1:]))
            return {key: each if each >= 0 else ends[key] for key, each in found.items()}
        if re.fullmatch(r"[+-]?[0-9]{1,19}", word) is None:
            raise ConfigError(f"{text!r} is no range of offsets: use start, end, N, +N, -N, @TIME")
        number = int(word)
        if word.startswith("+"):
            return {key: base[key] + number for key in partitions}
        if word.startswith("-"):
            return {key: ends[key] + number for key in partitions}
        return dict.fromkeys(partitions, number)

    found = at(first or "start", starts)
    begin = {key: min(max(found[key], starts[key]), ends[key]) for key in partitions}
    if not colon or not last:
        return {key: Span(begin[key], None, starts[key], ends[key]) for key in partitions}
    stop = at(last, begin)
    return {
        key: Span(begin[key], max(min(stop[key], ends[key]), begin[key]), starts[key], ends[key])
        for key in partitions
    }


def _split(text: str) -> tuple[str, str, str]:
    """Split A:B; the colons of times and of their offsets do not separate."""
    found = re.fullmatch(
        r"(?P<first>@\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?|[^:]*)"
        r"(?:(?P<colon>:)(?P<last>.*))?",
        text,
    )
    if found is None:
        raise ConfigError(f"{text!r} is no range of offsets: use A:B")
    return found["first"], found["colon"] or "", found["last"] or ""
