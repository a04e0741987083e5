"""The checker of what clients saw of streams finds each broken rule, and nothing where none is."""

from collections.abc import Sequence

import pytest

from tests.histories import streams
from tests.histories.streams import Append, Look, check_streams

A, B, C = b"a", b"b", b"c"


def acked(version: int, payload: bytes, begun: float, ended: float) -> Append:
    return Append("k", version, payload, begun, ended, is_acknowledged=True)


def unknown(version: int, payload: bytes, begun: float, ended: float) -> Append:
    return Append("k", version, payload, begun, ended, is_acknowledged=False)


def conflict(version: int, payload: bytes, begun: float, ended: float, current: int) -> Append:
    return Append("k", version, payload, begun, ended, is_acknowledged=False, current=current)


def look(version: int, begun: float, ended: float, payloads: Sequence[bytes] | None = None) -> Look:
    return Look("k", version, begun, ended, payloads)


GOOD: list[tuple[list[Append], list[Look], list[bytes]]] = [
    ([acked(1, A, 1, 2), acked(2, B, 3, 4)], [look(2, 5, 6, [A, B]), look(0, 0, 0.5)], [A, B]),
    # What nobody was told may be there, or not.
    ([acked(1, A, 1, 2), unknown(2, B, 3, 4)], [look(2, 5, 6)], [A, B]),
    ([acked(1, A, 1, 2), unknown(2, B, 3, 4)], [look(1, 5, 6)], [A]),
    ([unknown(1, A, 1, 2), unknown(1, B, 1, 2), acked(2, C, 3, 4)], [], [B, C]),
    # Of what goes on at the same time either may be first.
    ([acked(1, A, 1, 4), conflict(1, B, 2, 3, 1)], [look(0, 1, 4), look(1, 2, 3)], [A]),
]
BAD: dict[str, tuple[str, list[Append], list[Look], list[bytes]]] = {
    "two were told the same version": (
        streams.TWICE,
        [acked(1, A, 1, 2), acked(1, B, 3, 4)],
        [],
        [A],
    ),
    "an event is gone": (streams.LOST, [acked(1, A, 1, 2), acked(2, B, 3, 4)], [], [A]),
    "another one has its version": (
        streams.LOST,
        [acked(1, A, 1, 2), unknown(1, B, 1, 2)],
        [],
        [B],
    ),
    "nobody has sent it": (streams.STRANGE, [acked(1, A, 1, 2)], [], [A, B]),
    "a refused event is there": (
        streams.STRANGE,
        [acked(1, A, 1, 2), conflict(2, B, 3, 4, 2), unknown(2, C, 3, 4)],
        [],
        [A, B],
    ),
    "an event has another version": (
        streams.STRANGE,
        [unknown(2, A, 1, 2), unknown(1, B, 1, 2)],
        [],
        [A, B],
    ),
    "a version that was seen is not there later": (
        streams.BACKWARDS,
        [acked(1, A, 1, 2), acked(2, B, 3, 4)],
        [look(1, 5, 6)],
        [A, B],
    ),
    "a version is given again that was seen": (
        streams.BACKWARDS,
        [unknown(1, A, 1, 2), acked(1, B, 5, 6)],
        [look(1, 3, 4)],
        [B],
    ),
    "a refusal names an old version": (
        streams.BACKWARDS,
        [acked(1, A, 1, 2), acked(2, B, 3, 4), conflict(3, C, 5, 6, 1)],
        [],
        [A, B],
    ),
    "a version is seen too early": (
        streams.TOO_EARLY,
        [acked(1, A, 3, 4)],
        [look(1, 1, 2)],
        [A],
    ),
    "a version is seen that never was": (
        streams.TOO_EARLY,
        [acked(1, A, 1, 2)],
        [look(2, 3, 4)],
        [A],
    ),
    "the next version is refused": (
        streams.UNFOUNDED,
        [acked(1, A, 1, 2), conflict(2, B, 3, 4, 1)],
        [],
        [A],
    ),
    "a read has other events": (
        streams.OTHER_EVENTS,
        [acked(1, A, 1, 2), unknown(1, B, 1, 2)],
        [look(1, 3, 4, [B])],
        [A],
    ),
}


@pytest.mark.parametrize(("appends", "looks", "last"), GOOD)
def test_a_good_history_has_no_finding(
    appends: list[Append], looks: list[Look], last: list[bytes]
) -> None:
    assert check_streams(appends, looks, {"k": last}) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_has_its_finding(name: str) -> None:
    what, appends, looks, last = BAD[name]

    assert what in {each.what for each in check_streams(appends, looks, {"k": last})}
