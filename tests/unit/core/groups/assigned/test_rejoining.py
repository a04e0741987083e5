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
def test_a_member_id_suffix_is_four_digits_after_a_hyphen(member_id: str, base: str) -> None:
    assert name_without_suffix(member_id) == base


def test_a_taken_suffix_is_incremented_and_wraps() -> None:
    assert unique_member_id("c", "9998", ()) == "c-9998"
    assert unique_member_id("c", "9998", {"c-9998", "c-9999", "c-0000"}) == "c-0001"


def test_without_a_suffix_the_member_id_is_the_name() -> None:
    assert unique_member_id("c", "", {"c"}) == "c"


def test_a_name_identifies_a_member_if_only_one_has_it() -> None:
    assert only_member_named("c", ["c-1111", "d-2222"]) == "c-1111"
    assert only_member_named("c", ["c-1111", "c-2222"]) == "c"
    assert only_member_named("c", []) == "c"


def test_the_first_member_notified_that_has_not_rejoined_is_chosen() -> None:
    pending = PendingRejoin()
    for each in ("c-2", "c-2222", "d-3333", "c-1111", "c-2222"):
        pending.add(each)
    members = ("c-1111", "c-2222", "d-3333")

    assert pending.first_named("c", members) == "c-2222"
    pending.remove("c-2222")
    assert pending.first_named("c", members) == "c-1111"
    pending.retain(("d-3333",))
    assert pending.first_named("c", members) is None
