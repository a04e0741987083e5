"""The columns that the sink accepts."""

import pytest

from broker.model.errors import SchemaMismatch
from broker.pipeline.sink.columns import check_columns

ALL = {
    "key": "string",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp",
}


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ({"value": "string"}, "t"),
        (ALL, None),
        (ALL | {"offset": "bigint", "timestampType": "int"}, None),  # as the source has them
    ],
)
def test_the_columns_of_a_record_are_accepted(columns: dict[str, str], topic: str | None) -> None:
    check_columns(columns, topic)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"key": "binary"}, "no column 'value'"),
        ({}, "no column 'value'"),
        ({"value": "int"}, "'value' is int, expected binary or string"),
        ({"value": "binary", "partition": "bigint"}, "'partition' is bigint, expected int"),
        ({"value": "binary", "Headers": "binary"}, "did you mean 'headers'"),
        ({"value": "binary", "colour": "string"}, "the columns of a record are key, value"),
        ({"value": "binary", "headers": "map<string,binary>"}, "'headers' is map"),
    ],
)
def test_an_unknown_column_is_refused_by_name(columns: dict[str, str], complaint: str) -> None:
    with pytest.raises(SchemaMismatch, match=complaint):
        check_columns(columns, "t")


def test_rows_need_a_topic() -> None:
    with pytest.raises(SchemaMismatch, match="no option topic"):
        check_columns({"value": "binary"}, None)


def test_unknown_columns_are_dropped_on_request() -> None:
    columns = {"value": "binary", "user": "struct<id:int>"}

    with pytest.raises(SchemaMismatch, match=r"column 'user': .* extraColumns=ignore"):
        check_columns(columns, "t")
    check_columns(columns, "t", ignores_extra=True)
    with pytest.raises(SchemaMismatch, match="column 'key' is int"):
        check_columns(columns | {"key": "int"}, "t", ignores_extra=True)
