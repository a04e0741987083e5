"""Deadlines of members and of member ids."""

from broker.core.groups.deadlines import Deadlines


def test_a_deadline_that_has_passed_is_removed() -> None:
    ids = Deadlines()
    ids.set("late", 300)
    ids.set("soon", 200)
    earliest = [ids.earliest_ms]

    ids.expire(200)
    earliest.append(ids.earliest_ms)

    assert earliest == [200, 300]
    assert ("soon" in ids, "late" in ids, len(ids)) == (False, True, 1)


def test_a_removed_deadline_does_not_pass() -> None:
    ids = Deadlines()
    ids.set("a", 300)

    ids.remove("a")

    assert "a" not in ids
    assert not ids
