"""Which records of transactions a reader of the original Cursus sees."""

import pytest

from broker.protocols.cursus.importing.directory import TimedRecord
from broker.protocols.cursus.importing.journal import Outcome
from broker.protocols.cursus.importing.stored import StoredRecord
from broker.protocols.cursus.importing.visible import Visibility
from broker.protocols.importing.report import Damage


def record(
    offset: int, *, epoch: int = 0, state: bytes = b"open", marker: bytes = b""
) -> TimedRecord:
    stored = StoredRecord(b"t", 0, offset, b"p", 1, epoch, b"x")
    return TimedRecord(stored._replace(transactional_id=b"x", state=state, marker=marker), 0)


def plain(offset: int) -> TimedRecord:
    return TimedRecord(StoredRecord(b"t", 0, offset, b"p", 1, 0, b"x"), 0)


def visible(*records: TimedRecord | Damage, **outcomes: Outcome) -> tuple[list[int], int]:
    """Return the offsets of what is visible, -1 for damage, and how many are left out."""
    visibility = Visibility(outcomes)
    visibility.learn(records)
    found = [
        -1 if isinstance(each, Damage) else each.record.offset for each in visibility.only(records)
    ]
    return found, visibility.left_out


def test_records_without_a_transaction_and_damage_are_passed_on() -> None:
    assert visible(plain(0), Damage("f", 0, ""), plain(1)) == ([0, -1, 1], 0)


@pytest.mark.parametrize(("marker", "expected"), [(b"commit", ([0, 2], 0)), (b"abort", ([2], 1))])
def test_a_marker_behind_a_record_decides(marker: bytes, expected: tuple[list[int], int]) -> None:
    assert visible(record(0), record(1, marker=marker), plain(2)) == expected


def test_a_marker_decides_records_of_its_epoch_before_it() -> None:
    commit = record(1, marker=b"commit")

    assert visible(record(0, epoch=1), commit) == ([], 1)
    assert visible(commit, record(2)) == ([], 1)
    assert visible(record(0, state=b"aborted"), commit) == ([], 1)


def test_a_record_that_says_so_itself_needs_no_marker() -> None:
    assert visible(record(0, state=b"committed")) == ([0], 0)


@pytest.mark.parametrize(
    ("state", "epoch", "is_visible"),
    [("committed", 0, True), ("committing", 0, True), ("committed", 1, False), ("open", 0, False)],
)
def test_without_a_marker_the_journal_decides(state: str, epoch: int, is_visible: bool) -> None:
    found, _ = visible(record(0), x=Outcome(epoch, state, {}))

    assert found == ([0] if is_visible else [])
