"""Whose place somebody takes who was told to join again, and what new members are called."""

import pytest

from broker.core.groups.assigned.rejoining import PendingRejoin, base_of, only_one, unique_id


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
    assert base_of(member_id) == base


def test_a_suffix_that_is_taken_is_counted_up_and_begins_again() -> None:
    assert unique_id("c", "9998", ()) == "c-9998"
    assert unique_id("c", "9998", {"c-9998", "c-9999", "c-0000"}) == "c-0001"


def test_without_a_suffix_a_member_has_its_name() -> None:
    assert unique_id("c", "", {"c"}) == "c"


def test_a_name_is_a_member_where_only_one_has_it() -> None:
    assert only_one("c", ["c-1111", "d-2222"]) == "c-1111"
    assert only_one("c", ["c-1111", "c-2222"]) == "c"
    assert only_one("c", []) == "c"


def test_the_first_that_was_told_and_is_not_back_is_taken() -> None:
    told = PendingRejoin()
    for each in ("c-2", "c-2222", "d-3333", "c-1111", "c-2222"):
        told.tell(each)
    members = ("c-1111", "c-2222", "d-3333")

    assert told.first_of("c", members) == "c-2222"
    told.back("c-2222")
    assert told.first_of("c", members) == "c-1111"
    told.keep(("d-3333",))
    assert told.first_of("c", members) is None
