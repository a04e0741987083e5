"""The table of topics by name and by id."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.log.commit import CommitThread
from broker._native.log.topic_table import TopicTable
from tests.support.native_log import TOPIC_ID, Logs

COMMIT = CommitThread(1)  # never used
OTHER_ID = bytes(reversed(TOPIC_ID))


def names(table: TopicTable, *keys: str | bytes) -> list[str | None]:
    """Return the names of the topics that the table finds."""
    found = [table.find(key) for key in keys]
    return [entry.name if entry else None for entry in found]


def test_a_topic_is_found_by_its_name_and_its_id(tmp_path: Path) -> None:
    log = Logs(tmp_path, COMMIT).create()
    table = TopicTable()
    table.add("topic", TOPIC_ID, [log, None])

    entry = table.find("topic")

    assert entry is table.find(TOPIC_ID)
    assert entry is not None
    assert (entry.name, entry.topic_id, entry.logs) == ("topic", TOPIC_ID, [log, None])
    assert names(table, "topi", "topic2", "", OTHER_ID, b"short") == [None] * 5


def test_a_removed_topic_is_not_found() -> None:
    table = TopicTable()
    table.add("topic", TOPIC_ID, [])

    table.remove("topic")

    assert names(table, "topic", TOPIC_ID) == [None, None]
    with pytest.raises(KeyError):
        table.remove("topic")


def test_a_topic_of_the_same_name_replaces_the_previous_one() -> None:
    table = TopicTable()
    table.add("topic", TOPIC_ID, [])
    table.add("topic", OTHER_ID, [])

    assert names(table, TOPIC_ID, OTHER_ID) == [None, "topic"]
    assert len(table) == 1


def test_adding_partitions_keeps_the_entry_that_readers_hold(tmp_path: Path) -> None:
    logs = Logs(tmp_path, COMMIT)
    first, second = logs.create(0), logs.create(1)
    table = TopicTable()
    table.add("topic", TOPIC_ID, [first])
    held = table.find("topic")

    table.add("topic", TOPIC_ID, [first, second])

    assert held is table.find("topic") is table.find(TOPIC_ID)
    assert held is not None
    assert held.logs == [first, second]


def test_an_entry_outlives_its_removal_from_the_table() -> None:
    table = TopicTable()
    table.add("topic", TOPIC_ID, [])
    entry = table.find("topic")
    assert entry

    table.remove("topic")
    del table

    assert entry.name == "topic"


@pytest.mark.parametrize("topic_id", [b"", TOPIC_ID[:15], TOPIC_ID + b"\0"])
def test_an_id_has_sixteen_bytes(topic_id: bytes) -> None:
    with pytest.raises(ValueError, match="expected 16"):
        TopicTable().add("topic", topic_id, [])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_operations_equals_a_dictionarys(steps: list[tuple[bool, int]]) -> None:
    table = TopicTable()
    known: set[int] = set()

    for is_added, number in steps:
        if is_added:
            table.add(f"topic{number}", number.to_bytes(16), [])
            known.add(number)
        elif number in known:
            table.remove(f"topic{number}")
            known.remove(number)

    assert len(table) == len(known)
    for number in range(91):
        expected = f"topic{number}" if number in known else None
        assert names(table, f"topic{number}", number.to_bytes(16)) == [expected] * 2
