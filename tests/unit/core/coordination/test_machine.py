"""The notes of a decision for the log."""

from broker.core.coordination.machine import Decision
from broker.model import limits


def noted(event: str, reason: str, **names: object) -> str:
    decision: Decision[None, None] = Decision()
    decision.note(event, reason, **names)
    [line] = decision.notes
    return line


def test_a_note_names_the_event_its_subject_and_the_reason() -> None:
    line = noted("group rebalance", "member a left", group="orders", generation=3)

    assert line == "group rebalance group=orders generation=3 reason=member a left"


def test_a_client_supplied_name_cannot_break_the_line() -> None:
    line = noted("group rebalance", "member a\nb left", group="x\r\ny", member="a b", instance="")

    assert line == (
        r"group rebalance group=x\r\ny member='a b' instance='' reason=member a\nb left"
    )


def test_a_very_long_name_is_truncated() -> None:
    line = noted("event", "y" * 1_000, group="x" * 1_000)

    assert line.count("x") == line.count("y") == limits.NOTE_CHARS_MAX
