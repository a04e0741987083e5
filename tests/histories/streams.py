"""What clients saw of streams of events, and whether one order of appends explains it.

An append names the version that its event gets. So every version is given once, to whoever was
acknowledged; a version that anybody has seen is there from then on, with the same event; and no
version is seen before somebody has asked for it. Each operation has the times of its request and of
its answer, of one clock.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

TWICE = "a version was acknowledged twice"
LOST = "an acknowledged event is lost"
STRANGE = "an event was not sent for this version, or was refused"
BACKWARDS = "a version is older than one that was seen before"
TOO_EARLY = "a version was seen before somebody asked for it"
UNFOUNDED = "an append of the next version was refused"
OTHER_EVENTS = "a read returned other events than there are"


class Append(NamedTuple):
    """A request to append an event, whose payload is sent only once."""

    key: str
    version: int
    payload: bytes
    begun: float
    ended: float
    is_acknowledged: bool
    current: int | None = None  # the version that there is, if it was refused for that


class Look(NamedTuple):
    """A request for a version, or a read of all events from the first one on."""

    key: str
    version: int
    begun: float
    ended: float
    payloads: Sequence[bytes] | None = None


class Finding(NamedTuple):
    """A rule that is broken, and where."""

    what: str
    where: str


class _Seen(NamedTuple):
    """That a stream had a version at some time between two times, or got it."""

    begun: float
    ended: float
    version: int
    is_made: bool  # by this append


def check_streams(
    appends: Iterable[Append], looks: Iterable[Look], last: Mapping[str, Sequence[bytes]]
) -> list[Finding]:
    """Compare what was seen with itself, and with the events that there are in the end."""
    by_key: defaultdict[str, tuple[list[Append], list[Look]]] = defaultdict(lambda: ([], []))
    for append in appends:
        by_key[append.key][0].append(append)
    for look in looks:
        by_key[look.key][1].append(look)
    return [
        found
        for key, (own_appends, own_looks) in by_key.items()
        for found in _findings(key, own_appends, own_looks, last.get(key, ()))
    ]


def _findings(
    key: str, appends: list[Append], looks: list[Look], last: Sequence[bytes]
) -> Iterator[Finding]:
    sent = {each.payload: each for each in appends}
    given = set[int]()
    for each in appends:
        if each.is_acknowledged:
            if each.version in given:
                yield Finding(TWICE, f"{key}: {each.version}")
            given.add(each.version)
            if list(last[each.version - 1 : each.version]) != [each.payload]:
                yield Finding(LOST, f"{each}")
        elif each.current is not None and each.current + 1 == each.version:
            yield Finding(UNFOUNDED, f"{each}")
    for version, payload in enumerate(last, 1):
        append = sent.get(payload)
        if append is None or append.version != version or append.current is not None:
            yield Finding(STRANGE, f"{key}: {version} is {payload!r}, of {append}")
    for look in looks:
        if look.payloads is not None and list(look.payloads) != list(last[: look.version]):
            yield Finding(OTHER_EVENTS, f"{look}")
    yield from _order(key, appends, looks, [sent.get(payload) for payload in last])


def _order(
    key: str, appends: list[Append], looks: list[Look], made: list[Append | None]
) -> Iterator[Finding]:
    seen = [_Seen(each.begun, each.ended, each.version, is_made=False) for each in looks]
    for each in appends:
        if each.is_acknowledged:
            seen.append(_Seen(each.begun, each.ended, each.version, is_made=True))
        elif each.current is not None:
            seen.append(_Seen(each.begun, each.ended, each.current, is_made=False))
    seen.sort(key=lambda look: look.ended)
    ends = [look.ended for look in seen]
    newest = list(accumulate((look.version for look in seen), max))
    for look in seen:
        before = bisect_left(ends, look.begun)
        least = newest[before - 1] if before else 0
        if look.version < least + look.is_made:
            yield Finding(BACKWARDS, f"{key}: {look} though {least} was seen before")
        append = made[look.version - 1] if 0 < look.version <= len(made) else None
        if look.version > 0 and (append is None or append.begun > look.ended):
            yield Finding(TOO_EARLY, f"{key}: {look}")
