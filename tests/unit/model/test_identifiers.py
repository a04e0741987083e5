"""Kafka's 22-character ids."""

import uuid
from base64 import urlsafe_b64encode

import pytest

from broker.model.identifiers import id_from_text, id_to_text, random_below, random_id, random_uuid


def test_text_is_url_safe_base64_without_padding() -> None:
    for _ in range(100):
        identifier = uuid.uuid4().bytes

        assert id_to_text(identifier) == urlsafe_b64encode(identifier).decode().rstrip("=")
        assert id_from_text(id_to_text(identifier)) == identifier


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "+", "é" * 22])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        id_from_text(text)


def test_a_new_id_never_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = iter([b"\xf8" * 16, b"\x01" * 16])
    monkeypatch.setattr("os.urandom", lambda _: next(candidates))

    assert random_id() == b"\x01" * 16


def test_a_random_uuid_is_new_every_time_and_in_the_usual_form() -> None:
    first, second = random_uuid(), random_uuid()

    assert first != second
    assert str(uuid.UUID(first)) == first


def test_random_numbers_cover_exactly_the_requested_range() -> None:
    assert {random_below(3) for _ in range(200)} == {0, 1, 2}
