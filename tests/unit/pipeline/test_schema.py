"""The columns of Spark's own Kafka source."""

from typing import NamedTuple

import pytest

from broker.model.errors import ConfigError
from broker.pipeline.schema import (
    checked_columns,
    columns_of,
    ddl,
    decoded_columns,
    default_columns,
)


class Kind(NamedTuple):
    text: str

    def simpleString(self) -> str:  # noqa: N802 - pyspark's name
        return self.text


class Field(NamedTuple):
    name: str
    dataType: Kind  # noqa: N815 - pyspark's name
    nullable: bool = True


def test_the_default_schema_is_that_of_sparks_source() -> None:
    assert ddl(default_columns(has_headers=True)) == (
        "key binary, value binary, topic string, partition int, offset bigint,"
        " timestamp timestamp, timestampType int,"
        " headers array<struct<key:string,value:binary>>"
    )
    assert "headers" not in default_columns(has_headers=False)


def test_a_schema_chooses_columns_and_their_order() -> None:
    fields = [Field("offset", Kind("bigint")), Field("key", Kind("binary"))]

    assert columns_of(fields) == ("offset", "key")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (Field("ofset", Kind("bigint")), "no column 'ofset': expected some of key, value"),
        (Field("offset", Kind("int")), "column offset: expected type bigint, got int"),
        (Field("key", Kind("binary"), False), "expected a nullable column, got NOT NULL"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(field: Field, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        columns_of([field])


@pytest.mark.parametrize("names", [[], ["key", "key"]])
def test_columns_must_be_distinct_and_at_least_one(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="expected different columns"):
        checked_columns(names)


def test_only_the_requested_columns_are_decoded() -> None:
    assert decoded_columns(["timestampType", "topic", "key"]) == ("timestamp_type", "key")
    assert decoded_columns(["topic", "partition"]) == ("offset",)
