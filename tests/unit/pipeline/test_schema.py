"""The columns of Spark's own Kafka source."""

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField

from broker.model.errors import ConfigError
from broker.pipeline.schema import (
    checked_columns,
    columns_of,
    ddl,
    decoded_columns,
    default_columns,
)


def test_the_default_schema_is_that_of_sparks_source() -> None:
    assert ddl(default_columns(has_headers=True)) == (
        "key binary, value binary, topic string, partition int, offset bigint,"
        " timestamp timestamp, timestampType int,"
        " headers array<struct<key:string,value:binary>>"
    )
    assert "headers" not in default_columns(has_headers=False)


def test_a_schema_chooses_columns_and_their_order() -> None:
    fields = [StructField("offset", LongType()), StructField("key", BinaryType())]

    assert columns_of(fields) == ("offset", "key")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (StructField("ofset", LongType()), "no column 'ofset': expected some of key, value"),
        (StructField("offset", IntegerType()), "column offset: expected type bigint, got int"),
        (
            StructField("key", BinaryType(), nullable=False),
            "expected a nullable column, got NOT NULL",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(field: StructField, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        columns_of([field])


@pytest.mark.parametrize("names", [[], ["key", "key"]])
def test_columns_must_be_distinct_and_at_least_one(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="expected different columns"):
        checked_columns(names)


def test_only_the_requested_columns_are_decoded() -> None:
    assert decoded_columns(["timestampType", "topic", "key"]) == ("timestamp_type", "key")
    assert decoded_columns(["topic", "partition"]) == ("offset",)
