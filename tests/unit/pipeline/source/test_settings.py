"""All options together."""

import pytest

from broker.client.offsets import EARLIEST, LATEST
from broker.model.address import Address
from broker.model.errors import ConfigError
from broker.model.limits import CLIENT_FETCH_BYTES, CLIENT_GIVE_UP_SECONDS
from broker.pipeline.options import Use
from broker.pipeline.source.settings import Bound, Settings, settings_of

LEAST = {"kafka.bootstrap.servers": "a:1,b:2", "subscribe": "t"}


def batch(**options: str) -> Settings:
    return settings_of(LEAST | {k.replace("__", "."): v for k, v in options.items()}, Use.READ)


def stream(**options: str) -> Settings:
    return settings_of(LEAST | options, Use.STREAM)


def test_every_address_is_a_bootstrap_server() -> None:
    assert batch().bootstrap == (Address("a", 1), Address("b", 2))


def test_a_batch_reads_everything_and_a_stream_starts_at_the_end() -> None:
    assert (batch().starting, batch().ending) == (Bound(EARLIEST), Bound(LATEST))
    assert stream().starting == Bound(LATEST)


def test_a_timestamp_takes_precedence_over_timestamps_by_partition_and_those_over_offsets() -> None:
    times = '{"t": {"0": 7}}'
    by_time = {"startingOffsetsByTimestamp": times, "startingOffsets": "earliest"}

    assert batch(**by_time).starting == Bound(times={("t", 0): 7})
    assert batch(startingTimestamp="5", **by_time).starting == Bound(time=5)
    ends = {"endingOffsetsByTimestamp": times, "endingOffsets": "latest"}
    assert batch(**ends).ending == Bound(times={("t", 0): 7})
    assert batch(endingTimestamp="5", **ends).ending == Bound(time=5)


def test_kafka_consumer_settings_have_kafkas_meaning() -> None:
    plain, chosen = (
        batch(),
        batch(
            kafka__isolation__level="read_committed",
            kafka__max__partition__fetch__bytes="9000",
            kafka__fetch__max__bytes="8000",
            kafka__default__api__timeout__ms="2500",
        ),
    )

    assert (plain.is_committed, chosen.is_committed) == (False, True)
    assert (plain.chunk_bytes, chosen.chunk_bytes) == (CLIENT_FETCH_BYTES, 8000)
    assert (plain.give_up_seconds, chosen.give_up_seconds) == (CLIENT_GIVE_UP_SECONDS, 2.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribePattern": "t.*"}, "exactly one of .*, got subscribe and subscribePattern"),
        ({"startingOffsets": "latest"}, "a batch cannot begin at latest"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "a batch cannot begin at latest"),
        ({"endingOffsets": "earliest"}, "a batch cannot end at earliest"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "a batch cannot end at earliest"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "got less than 0"),
        ({"columns": "key,ofset"}, "no column 'ofset'"),
        ({"kafka.bootstrap.servers": "a"}, "expected HOST:PORT"),
    ],
)
def test_contradicting_options_are_reported(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_of(LEAST | options, Use.READ)


def test_topics_and_a_broker_are_required() -> None:
    with pytest.raises(ConfigError, match=r"exactly one of .*, got none"):
        settings_of({"kafka.bootstrap.servers": "a:1"}, Use.READ)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers: .* it is missing"):
        settings_of({"subscribe": "t"}, Use.READ)


def test_the_minimum_of_a_trigger_cannot_exceed_its_maximum() -> None:
    with pytest.raises(ConfigError, match="minOffsetsPerTrigger 9 is more than"):
        stream(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8")
