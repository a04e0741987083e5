"""The notes of coordinators in the log, which are limited."""

import pytest

from broker.core.coordination.notes import Notes
from broker.model.limits import NOTES_PER_SECOND_MAX
from tests.support.manual_clock import ManualClock


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def test_a_note_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    Notes(ManualClock()).log(["producer fenced reason=100% sure"])

    assert caplog.messages == ["producer fenced reason=100% sure"]


def test_lines_are_limited_per_second_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    notes = Notes(clock)

    notes.log(["a"] * (NOTES_PER_SECOND_MAX + 5))
    assert len(caplog.messages) == NOTES_PER_SECOND_MAX
    clock.advance(1_000)
    notes.log(["b"])

    assert caplog.messages[-2:] == [
        "notes left out count=5: there were too many in a second",
        "b",
    ]
