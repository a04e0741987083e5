"""The chain of the audit's lines: each has the hash of the line before it. Pure.

    {"class_uid":3002, ..., "unmapped":{"previous":"9f86d0…"}}      one JSON object a line

The hash is SHA-256 of the bytes of the whole line without its line feed, so that `sha256sum` can
check it. With a key it is HMAC-SHA-256, which somebody who can write the file but has not the key
cannot make. The first line of a chain has 64 zeros. A line that was changed, inserted, removed or
moved breaks the chain after it; lines that were cut off at the end do not, so the last hash has to
be compared with one that was kept elsewhere, such as in the topic.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

GENESIS = "0" * 64
DROPPED_CLASS = 1008  # of an OCSF event that says how many others are missing


class Head(NamedTuple):
    """The end of a chain: the hash of its last line, and the sequence number of that."""

    hash: str = GENESIS
    sequence: int = 0  # of the last line; the first one has 1


class Checked(NamedTuple):
    """What a check of lines has found.

    Attributes:
        events: how many lines are in order.
        first: the sequence number of the first line.
        head: the end of the chain, or of the part before the fault.
        dropped: how many events the lines say that were not recorded.
        fault: what is wrong, with the number of the line; empty: nothing.
    """

    events: int
    first: int
    head: Head
    dropped: int
    fault: str = ""


def line_of(fields: dict[str, Any], head: Head, key: bytes) -> tuple[bytes, Head]:
    """Return an event as the next line of a chain, without a line feed, and the new end."""
    line = json.dumps(
        {**fields, "unmapped": {"previous": head.hash}}, separators=(",", ":")
    ).encode()
    return line, Head(hash_of(line, key), head.sequence + 1)


def hash_of(line: bytes, key: bytes) -> str:
    """Return the hash of a line in hexadecimal digits."""
    if key:
        return hmac.new(key, line, hashlib.sha256).hexdigest()
    return hashlib.sha256(line).hexdigest()


def head_after(line: bytes, key: bytes) -> Head:
    """Return the end of a chain whose last line this is; ValueError if it is no such line."""
    sequence, _, _ = _links(line)
    return Head(hash_of(line, key), sequence)


def check(lines: Iterable[bytes], key: bytes, *, is_whole: bool) -> Checked:
    """Check a chain, line by line; lines may end with line feeds.

    `is_whole`: it has to begin with the first line that was ever written. Otherwise the first line
    is believed what it says of the line before.
    """
    head, count, first, dropped = Head(), 0, 0, 0
    for number, line in enumerate(lines, 1):
        bare = line.removesuffix(b"\n")
        try:
            sequence, previous, lost = _links(bare)
        except ValueError as error:
            return Checked(count, first, head, dropped, f"line {number} is no event: {error}")
        if count == 0 and not is_whole:
            head, first = Head(previous, sequence - 1), sequence
        elif count == 0:
            first = sequence
        if previous != head.hash:
            fault = f"line {number} does not follow the line before it: one of them was changed"
            return Checked(count, first, head, dropped, fault)
        if sequence != head.sequence + 1:
            fault = f"line {number} has the sequence number {sequence}, not {head.sequence + 1}"
            return Checked(count, first, head, dropped, fault)
        head = Head(hash_of(bare, key), sequence)
        count += 1
        dropped += lost
    return Checked(count, first, head, dropped)


def _links(line: bytes) -> tuple[int, str, int]:
    """Return the sequence number and the hash in a line, and how many events it says are lost."""
    try:
        fields = json.loads(line)
        sequence, previous = fields["metadata"]["sequence"], fields["unmapped"]["previous"]
        dropped = fields["count"] if fields["class_uid"] == DROPPED_CLASS else 0
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None
    if not (type(sequence) is int and type(previous) is str and type(dropped) is int):
        raise ValueError("its sequence number, hash or count is of another type")
    return sequence, previous, dropped
