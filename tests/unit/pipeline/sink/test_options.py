"""The options of the sink."""

import pytest

from broker.model.address import Address
from broker.model.errors import ConfigError
from broker.pipeline.sink.options import SinkOptions

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092, localhost:9093"}


def test_the_default_is_at_least_once_to_the_topics_of_the_column() -> None:
    options = SinkOptions.of(NEEDED, is_stream=False)

    assert options.bootstrap == (Address("127.0.0.1", 9092), Address("localhost", 9093))
    assert (options.topic, options.is_exactly_once, options.write_id) == (None, False, None)
    assert (options.tasks, options.rows_per_second) == (None, None)


def test_option_names_are_case_insensitive() -> None:
    given = {"DELIVERY": "exactly-once", "writeid": "w", "Tasks": "3"}

    options = SinkOptions.of(NEEDED | given, is_stream=False)

    assert (options.is_exactly_once, options.write_id, options.tasks) == (True, "w", 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delivery", "at-most-once"),
        ("tasks", "0"),
        ("tasks", "many"),
        ("writeId", ""),
        ("writeId", "w" * 2_000),
        ("kafka.compression.type", "zip"),
        ("kafka.max.request.size", "-1"),
        ("kafka.transaction.timeout.ms", "5s"),
        ("kafka.bootstrap.servers", " "),
        ("maxRowsPerSecondPerTask", "1.5"),
    ],
)
def test_an_invalid_value_is_refused_with_the_options_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name}|HOST:PORT"):
        SinkOptions.of(NEEDED | {name: value}, is_stream=False)


def test_a_stream_uses_its_checkpoint_and_no_write_id() -> None:
    SinkOptions.of(NEEDED | {"checkpointlocation": "/c"}, is_stream=True)

    with pytest.raises(ConfigError, match="writeId"):
        SinkOptions.of(NEEDED | {"writeid": "w"}, is_stream=True)


@pytest.mark.parametrize("given", [{}, {"topik": "t"}])
def test_missing_and_unknown_options_are_named(given: dict[str, str]) -> None:
    needed = NEEDED if given else {}

    with pytest.raises(
        ConfigError,
        match=r"did you mean topic|kafka\.bootstrap\.servers: expected HOST:PORT, but there are no",
    ):
        SinkOptions.of(needed | given, is_stream=False)
