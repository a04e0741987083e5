"""The columns of a record, as in Spark's own Kafka source, and Arrow batches of them.

    key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,
    timestampType int, and optionally headers array<struct<key string, value binary>>

Every column is nullable. The headers of a record without headers are null, and so is the timestamp
of a record without a timestamp (1969-12-31 23:59:59.999 in Spark's own source). A reader may select
some of the columns in any order; other columns are not decoded.

Source: Spark's Structured Streaming + Kafka integration guide; pyspark.sql.pandas.types.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from broker.model.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField

    from broker.codec import Columns

# Name → type as Spark writes it in simpleString.
COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS: Final = {"headers": "array<struct<key:string,value:binary>>"}
ALL_COLUMNS: Final = COLUMNS | HEADERS
# SQL for jobs that copy records: the sink replaces a null timestamp by the time of the write, while
# -1 ms is written as no timestamp.
ORIGINAL_TIMESTAMP: Final = "coalesce(timestamp, timestamp_millis(-1)) AS timestamp"
OF_PARTITION: Final = frozenset({"topic", "partition"})  # columns that are not part of a record


def ddl(names: Iterable[str]) -> str:
    """Return the schema of columns as DDL for Spark.

    >>> ddl(["offset", "key"])
    'offset bigint, key binary'
    """
    return ", ".join(f"{name} {ALL_COLUMNS[name]}" for name in names)


def default_columns(*, has_headers: bool) -> tuple[str, ...]:
    """Return the columns of a read that does not select any."""
    return (*COLUMNS, *(HEADERS if has_headers else ()))


def checked_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; raise ConfigError for unknown or repeated names, or if there is none."""
    for name in names:
        if name not in ALL_COLUMNS:
            raise ConfigError(f"there is no column {name!r}: expected some of {_list(ALL_COLUMNS)}")
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"expected different columns, got {_list(names) or 'none'}")
    return tuple(names)


def columns_of(fields: "Iterable[StructField]") -> tuple[str, ...]:
    """Return the column names of a StructType that a reader has to return.

    Raises:
        ConfigError: an unknown name, a wrong type, or NOT NULL, which Spark's source does not have.
    """
    fields = list(fields)
    names = checked_columns([each.name for each in fields])
    for each in fields:
        expected, found = ALL_COLUMNS[each.name], each.dataType.simpleString()
        if found != expected:
            raise ConfigError(f"column {each.name}: expected type {expected}, got {found}")
        if not each.nullable:
            raise ConfigError(f"column {each.name}: expected a nullable column, got NOT NULL")
    return names


def decoded_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns to be decoded by decode_columns, at least one."""
    decoded = (each for each in names if each not in OF_PARTITION)
    return tuple(each.replace("timestampType", "timestamp_type") for each in decoded) or ("offset",)


def arrow_schema(columns: str) -> "pa.Schema":
    """Return the Arrow schema of columns in DDL; a timestamp is in UTC."""
    import pyarrow as pa  # noqa: PLC0415 - half a second, which other commands do not need

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "array<struct<key:string,value:binary>>": pa.list_(pa.field("element", header)),
        "bigint": pa.int64(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    fields = (each.split(" ", 1) for each in columns.split(", "))
    return pa.schema([(name, types[kind]) for name, kind in fields])


def arrow_batch(
    columns: "Columns", wanted: Sequence[str], topic: str, partition: int
) -> "pa.RecordBatch":
    """Return decoded records as the Arrow batch that Spark expects.

    Args:
        columns: the result of decode_columns for `decoded_columns(wanted)`.
        wanted: the names of the columns, in order.
        topic: of every record.
        partition: of every record.

    Raises:
        LimitExceeded: the values of a column take 2 GiB or more in total.
        Corrupt: the name of a header is not UTF-8.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415

    batch = columns.to_arrow(
        topic if "topic" in wanted else None, partition if "partition" in wanted else None
    )
    arrays = [batch.column(each) for each in wanted]
    if "headers" in wanted:
        at = wanted.index("headers")
        headers = arrays[at]
        arrays[at] = pa.ListArray.from_arrays(
            headers.offsets,
            headers.values,
            type=headers.type,
            mask=pc.equal(pc.list_value_length(headers), 0),
        )
    return pa.record_batch(arrays, names=list(wanted))


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
