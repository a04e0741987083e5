"""The chain of the audit's lines, and every way to break it."""

import hashlib
import json

import pytest

from broker.core.security.audit_chain import (
    DROPPED_CLASS,
    GENESIS,
    Head,
    check,
    hash_of,
    head_after,
    line_of,
)

KEY = b"a key"


def chain(count: int, key: bytes = b"", head: Head | None = None) -> list[bytes]:
    """Return lines that follow each other."""
    lines = []
    head = head or Head()
    for number in range(head.sequence + 1, head.sequence + count + 1):
        fields = {"class_uid": 3002, "metadata": {"sequence": number}, "user": f"user-{number}"}
        line, head = line_of(fields, head, key)
        lines.append(line)
    return lines


def test_each_line_has_the_hash_of_the_line_before_it() -> None:
    first, second = chain(2)

    assert json.loads(first)["unmapped"]["previous"] == GENESIS
    assert json.loads(second)["unmapped"]["previous"] == hashlib.sha256(first).hexdigest()


@pytest.mark.parametrize("key", [b"", KEY])
def test_a_whole_chain_is_in_order(key: bytes) -> None:
    lines = chain(5, key)

    checked = check([line + b"\n" for line in lines], key, is_whole=True)

    assert checked.fault == ""
    assert (checked.events, checked.first) == (5, 1)
    assert checked.head == Head(hash_of(lines[-1], key), 5)
    assert head_after(lines[-1], key) == checked.head


def test_a_chain_goes_on_after_its_last_line() -> None:
    lines = chain(3)

    lines += chain(3, head=head_after(lines[-1], b""))

    assert check(lines, b"", is_whole=True).fault == ""


@pytest.mark.parametrize("place", range(4))
def test_a_changed_line_breaks_the_chain_after_it(place: int) -> None:
    lines = chain(5)
    lines[place] = lines[place].replace(b"user-", b"anon-")

    checked = check(lines, b"", is_whole=True)

    assert checked.fault.startswith(f"line {place + 2} does not follow")
    assert checked.events == place + 1


def test_the_last_line_is_held_by_its_hash_only() -> None:
    lines = chain(3)
    head = check(lines, b"", is_whole=True).head

    changed = [*lines[:2], lines[2].replace(b"user-", b"anon-")]

    assert check(changed, b"", is_whole=True).head != head
    assert check(lines[:2], b"", is_whole=True).head != head


@pytest.mark.parametrize("place", range(4))
def test_a_removed_line_breaks_the_chain(place: int) -> None:
    lines = chain(5)
    del lines[place]

    assert f"line {place + 1} does not follow" in check(lines, b"", is_whole=True).fault


def test_lines_in_another_order_break_the_chain() -> None:
    first, second, third = chain(3)

    assert "line 2" in check([first, third, second], b"", is_whole=True).fault


def test_a_line_that_is_inserted_with_the_right_hash_breaks_the_chain_after_it() -> None:
    first, second, third = chain(3)
    inserted, _ = line_of(
        {"class_uid": 3002, "metadata": {"sequence": 2}}, head_after(first, b""), b""
    )

    checked = check([first, inserted, second, third], b"", is_whole=True)

    assert "line 3" in checked.fault


def test_without_its_key_a_chain_cannot_be_made_anew() -> None:
    forged = chain(3)  # by somebody who can write the file

    assert check(forged[:1], KEY, is_whole=True).fault == ""  # nothing follows it yet
    assert "line 2 does not follow" in check(forged, KEY, is_whole=True).fault


def test_a_wrong_sequence_number_is_a_fault() -> None:
    first, head = line_of({"class_uid": 1, "metadata": {"sequence": 1}}, Head(), b"")
    second, _ = line_of({"class_uid": 1, "metadata": {"sequence": 3}}, head, b"")

    assert "sequence number 3, not 2" in check([first, second], b"", is_whole=True).fault


def test_a_part_of_a_chain_is_checked_from_its_first_line_on() -> None:
    part = chain(6)[2:]

    assert "line 1 does not follow" in check(part, b"", is_whole=True).fault
    checked = check(part, b"", is_whole=False)
    assert (checked.fault, checked.events, checked.first) == ("", 4, 3)


def test_dropped_events_are_summed_up() -> None:
    head, lines = Head(), []
    for number, count in enumerate((3, 4), 1):
        fields = {
            "class_uid": DROPPED_CLASS,
            "count": count,
            "metadata": {"sequence": number},
        }
        line, head = line_of(fields, head, b"")
        lines.append(line)

    assert check(lines, b"", is_whole=True).dropped == 7


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no JSON",
        b"[]",
        b"7",
        b"null",
        b"{}",
        b'{"metadata":{},"unmapped":{},"class_uid":1}',
        b'{"metadata":{"sequence":"1"},"unmapped":{"previous":"0"},"class_uid":1}',
        b'{"metadata":{"sequence":1},"unmapped":{"previous":0},"class_uid":1}',
        b'{"metadata":[],"unmapped":{"previous":"0"},"class_uid":1}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_no_event_is_a_fault(line: bytes) -> None:
    assert "line 1 is no event" in check([line], b"", is_whole=True).fault
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong
        head_after(line, b"")
