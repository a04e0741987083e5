"""The format language of records."""

from typing import Any

from broker.cli.topic.record_format import record_format
from broker.client.reading import Read


class AnyRecord:
    """A record with a timestamp that only a client can have made up."""

    offset = 1
    key = value = None
    headers: Any = ()
    timestamp = (1 << 63) - 1


def test_a_timestamp_that_is_no_time_is_printed_as_a_number() -> None:
    read = Read("t", 0, AnyRecord())  # type: ignore[arg-type]

    assert record_format("%d{%Y}")(read) == b"9223372036854775807"


def test_bytes_of_the_command_line_that_are_no_text_are_written_as_they_are() -> None:
    read = Read("t", 0, AnyRecord())  # type: ignore[arg-type]

    assert record_format("\udcff%p")(read) == b"\xff0"
