"""Every warning and error of the broker has an event with a fixed name, and docs/logs.md has it."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.server.log_lines import event_of
from tests.support.log_calls import LogCall, calls, calls_of

PAGE = Path(__file__).parents[1] / "docs/logs.md"
ROW = re.compile(r"^\| `(\w+)` \| ([A-Z, ]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"[a-z]\w+")


def without_event(found: Iterable[LogCall]) -> list[str]:
    """Return the places of calls whose template does not begin with the words of an event."""
    return [
        call.place
        for call in found
        if call.template is None or not NAME.fullmatch(event_of(call.template))
    ]


def documented() -> dict[str, str]:
    """Return the levels of the events on the page."""
    rows = ROW.findall(PAGE.read_text())
    assert len({name for name, *_ in rows}) == len(rows), "each event has one row"
    return {name: levels for name, levels, *_ in rows}


def logged() -> dict[str, str]:
    """Return the levels of the events in the sources."""
    found: dict[str, set[str]] = {}
    for call in calls():
        if call.template is not None:
            found.setdefault(event_of(call.template), set()).update(call.levels)
    return {name: ", ".join(sorted(levels)) for name, levels in found.items()}


def test_every_warning_and_error_begins_with_the_words_of_its_event() -> None:
    assert without_event(calls()) == []


@pytest.mark.parametrize(
    "call",
    [
        '_log.warning("%s not written: error=%s", name, error)',
        '_log.error(f"{name} failed: error={error}")',
        "_log.log(logging.ERROR, text, name)",
        'logging.getLogger(__name__).error("%d", 3)',
    ],
)
def test_a_call_without_an_event_is_found(call: str) -> None:
    assert without_event(calls_of(call, "example")) == ["example:1"]


@pytest.mark.parametrize(
    ("template", "event"),
    [
        ("lease lost: id=%x", "lease_lost"),
        ("log offline topic=%s", "log_offline"),
        ("topic not followed, tried again: topic=%s", "topic_not_followed"),
        ("TLS handshakes failed: count=%d", "tls_handshakes_failed"),
        ("worker failed", "worker_failed"),
        ("%s", ""),
    ],
)
def test_an_event_is_the_words_before_the_first_value(template: str, event: str) -> None:
    assert event_of(template) == event


def test_the_page_has_exactly_the_events_of_the_sources() -> None:
    assert documented() == logged()
