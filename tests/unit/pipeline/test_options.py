"""Options: names, values, and the errors for invalid ones."""

import re
from pathlib import Path

import pytest

from broker.model.errors import ConfigError
from broker.pipeline.options import (
    KAFKA_OPTIONS,
    KAFKA_WITHOUT_EFFECT,
    OPTIONS,
    Use,
    parse,
    table_options,
)

READ = Use.READ
PAGE = Path(__file__).parents[3] / "docs/spark.md"


def test_an_option_that_is_not_given_has_its_default() -> None:
    values = parse({}, Use.STREAM)

    assert values["failOnDataLoss"] is True
    assert values["includeHeaders"] is False
    assert values["maxTriggerDelay"] == 900_000
    assert values["subscribe"] is None
    assert "endingOffsets" not in values


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("subscribe", "a, b", ("a", "b")),
        ("assign", '{"a": [2, 0, 2]}', {"a": (0, 2)}),
        ("startingOffsets", "EARLIEST", "earliest"),
        ("startingOffsets", '{"a": {"0": 23, "1": -2}}', {("a", 0): 23, ("a", 1): -2}),
        ("startingTimestamp", "1700000000000", 1_700_000_000_000),
        ("endingOffsetsByTimestamp", '{"a": {"0": 5}}', {("a", 0): 5}),
        ("failOnDataLoss", "FALSE", False),
        ("minPartitions", "12", 12),
        ("kafka.isolation.level", "read_committed", "read_committed"),
    ],
)
def test_a_value_is_parsed_as_sparks_source_parses_it(name: str, text: str, value: object) -> None:
    assert parse({name: text}, READ)[name] == value


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("30 s", 30_000), ("1500", 1500), ("1h", 3_600_000)]
)
def test_a_delay_has_a_unit_or_is_in_milliseconds(text: str, ms: int) -> None:
    assert parse({"maxTriggerDelay": text}, Use.STREAM)["maxTriggerDelay"] == ms


def test_option_names_are_case_insensitive() -> None:
    values = parse({"STARTINGOFFSETS": "latest", "Kafka.Client.Id": "me"}, READ)

    assert (values["startingOffsets"], values["kafka.client.id"]) == ("latest", "me")


def test_a_pattern_has_javas_syntax() -> None:
    pattern = parse({"subscribePattern": r"^\p{Alpha}$"}, READ)["subscribePattern"]

    assert pattern.search("a")
    assert not pattern.search("1")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("subscibe", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("kafka.isolationlevel", "kafka.isolation.level"),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"no option '{name}'; did you mean {nearest}\\?"):
        parse({name: "x"}, READ)


def test_a_name_unlike_any_is_reported_with_all_names() -> None:
    with pytest.raises(ConfigError, match=r"no option 'zzz'; there are subscribe, .*kafka\."):
        parse({"zzz": "x"}, READ)


def test_an_option_for_another_use_is_reported_with_its_use() -> None:
    with pytest.raises(ConfigError, match="option maxOffsetsPerTrigger: only for stream"):
        parse({"maxOffsetsPerTrigger": "5"}, READ)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("failOnDataLoss", "yes", "expected true or false, got 'yes'"),
        ("minPartitions", "0", "expected a whole number above 0"),
        ("minPartitions", "1e3", "expected a whole number above 0"),
        ("startingTimestamp", "-1", "expected milliseconds"),
        ("subscribe", "a,,b", "expected names separated by commas"),
        ("subscribePattern", "a(", "expected a regular expression"),
        ("assign", '{"a": "0"}', "expected JSON such as"),
        ("assign", '{"a": [true]}', "expected JSON such as"),
        ("assign", "{", "expected JSON such as"),
        ("startingOffsets", "first", "expected earliest, latest or JSON"),
        ("startingOffsets", '{"a": {"0": -3}}', "expected earliest, latest or JSON"),
        ("startingOffsets", '{"a": {"x": 3}}', "expected earliest, latest or JSON"),
        ("startingOffsets", '{"a": 3}', "expected earliest, latest or JSON"),
        ("startingOffsets", "[" * 9999, "expected earliest, latest or JSON"),
        ("kafka.isolation.level", "serializable", "expected read_committed or read_uncommitted"),
    ],
)
def test_an_invalid_value_is_reported_with_the_allowed_ones(
    name: str, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=f"option {name}: ") as raised:
        parse({name: text}, READ)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    "name", ["kafka.max.poll.records", "fetchOffset.numRetries", "kafkaConsumer.pollTimeoutMs"]
)
def test_options_without_meaning_here_are_accepted_without_effect(name: str) -> None:
    assert parse({name: "7"}, READ) == parse({}, READ)


def test_every_option_has_a_default_that_its_parser_could_return() -> None:
    for each in (*OPTIONS, *KAFKA_OPTIONS):
        if each.default is not None:
            assert each.parse(str(each.default)) == each.default, each.name


@pytest.mark.parametrize("name", ["provider", "owner", "path", "transient_lastDdlTime", "location"])
@pytest.mark.parametrize("use", list(Use))
def test_options_added_by_spark_itself_are_ignored(name: str, use: Use) -> None:
    assert parse({name: "x"}, use) == parse({}, use)


def test_a_table_is_read_and_written_with_the_same_options() -> None:
    given = {"subscribe": "t", "startingoffsets": "earliest", "tasks": "4", "owner": "me"}

    read, written = table_options(given, READ), table_options(given, Use.WRITE)

    assert parse(read, READ)["startingOffsets"] == "earliest"
    assert (parse(written, Use.WRITE)["tasks"], parse(written, Use.WRITE)["topic"]) == (4, "t")
    assert "topic" not in table_options({"subscribe": "t,u"}, Use.WRITE)
    with pytest.raises(ConfigError, match="no option 'task'; did you mean tasks"):
        table_options({"task": "4"}, READ)


def test_a_query_of_the_stock_connector_keeps_its_headers_option_when_it_writes() -> None:
    for use in (Use.WRITE, Use.STREAM_WRITE):
        assert parse({"includeHeaders": "true"}, use)["includeHeaders"] is True


def test_every_option_documented_on_the_spark_page_exists() -> None:
    text = PAGE.read_text()
    section = text[text.index("## In place of `format") :].split("\n## ")[0]
    table = section[section.index("|---|") : section.index("Differences:")]
    names = set(re.findall(r"`([a-z]+[A-Z]\w+|assign|columns|delivery|pushdown|topic)[`=]", table))
    kafka = set(re.findall(r"`(?:kafka)?(\.[a-z.]+|kafka\.[a-z]+\.[a-z]+)`", table))

    assert len(names) > 20
    assert len(kafka) > 10
    known = {each.name for each in OPTIONS} | {each.name for each in KAFKA_OPTIONS}
    known |= KAFKA_WITHOUT_EFFECT
    kafka = {each.removeprefix("kafka.").removeprefix(".") for each in kafka}
    assert {each for each in names | kafka if each not in known} == {"groupIdPrefix"}
