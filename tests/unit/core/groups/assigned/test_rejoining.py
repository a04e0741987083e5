"""Whose place somebody takes who was pending to join again, and what new members are called."""

import pytest

from broker.core.groups.assigned.rejoining import (
    PendingRejoin,
    name_without_suffix,
    only_member_named,
    unique_member_id,
)


@pytest.mark.parametrize(
    ("member_id", "base"),
    [
        ("c-1234", "c"),
        ("c-1234-5678", "c-1234"),
        ("c", "c"),
        ("c-123", "c-123"),
        ("c-12345", "c-12345"),
        ("c-\uff11234", "c-\uff11234"),
        ("", ""),
    ],
)
def test_a_suffix_is_four_digits_behind_a_hyphen(member_id: str, base: str) -> None:
    assert name_without_suffix(member_id) == base


def test_a_suffix_that_is_taken_is_counted_up_and_begins_again() -> None:
    assert unique_member_id("c", "9998", ()) == "c-9998"
    assert unique_member_id("c", "9998", {"c-9998", "c-9999", "c-0000"}) == "c-0001"


def test_without_a_suffix_a_member_has_its_name() -> None:
    assert unique_member_id("c", "", {"c"}) == "c"


def test_a_name_is_a_member_where_only_one_has_it() -> None:
    assert only_member_named("c", ["c-1111", "d-2222"]) == "c-1111"
    assert only_member_named("c", ["c-1111", "c-2222"]) == "c"
    assert only_member_named("c", []) == "c"


def test_the_first_that_was_told_and_is_not_back_is_taken() -> None:
    pending = PendingRejoin()
    for each in ("c-2", "c-2222", "d-3333", "c-1111", "c-2222"):
        pending.add(each)
    members = ("c-1111", "c-2222", "d-3333")

    assert pending.first_named("c", members) == "c-2222"
    pending.remove("c-2222")
    assert pending.first_named("c", members) == "c-1111"
    pending.retain(("d-3333",))
    assert pending.first_named("c", members) is None
