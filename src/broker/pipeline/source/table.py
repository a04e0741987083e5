"""Tables of Spark's catalog: CREATE TABLE … USING polylog OPTIONS (…).

Spark asks a Python source for the columns of a new table once, and hands over the options among
properties of its own: `provider`, `owner`, what stands in TBLPROPERTIES, and every option a second
time with `option.` before its name. A later SELECT or INSERT gets the columns from the catalog, and
no option but those of its own WITH (…). So the options are kept with the columns, as metadata of
the first.

Source: Spark's TableCatalog, CatalogV2Util.convertTableProperties; PythonDataSourceV2.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_PREFIX: Final = "option."
_PROVIDER: Final = "provider"
_METADATA: Final = "polylog.options"
# What says where rows are: a program that names it means no table.
_PLACES: Final = frozenset({"kafka.bootstrap.servers", "segments"})
# By the names in schema.py: where Spark asks there is no JVM to read them.
_TYPES: Final[dict[str, DataType]] = {
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
    "bigint": LongType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def options_of_new(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is being made; None: what is given is of no table."""
    if _PROVIDER not in {each.lower() for each in given}:
        return None
    return {
        name[len(_PREFIX) :]: value
        for name, value in given.items()
        if name.lower().startswith(_PREFIX)
    }


def with_options(ddl: str, options: Mapping[str, str]) -> StructType:
    """Return the columns of a new table, with the options that it is made with."""
    fields = [each.split(" ", 1) for each in ddl.split(", ")]
    schema = StructType([StructField(name, _TYPES[kind]) for name, kind in fields])
    schema.fields[0].metadata[_METADATA] = json.dumps(dict(options), sort_keys=True)
    return schema


def is_place(given: Mapping[str, str]) -> bool:
    """Whether options say where rows are; those of a table come later, with its columns."""
    return not _PLACES.isdisjoint(each.lower() for each in given)


def options_of(schema: StructType, given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of the table that a reader or writer is for; None: it is for none.

    Args:
        schema: the columns that Spark hands over.
        given: the options besides; they go before the table's.
    """
    if is_place(given):
        return None
    for each in schema.fields:
        kept = each.metadata.get(_METADATA)
        if kept is not None:
            options: dict[str, str] = json.loads(kept)
            return options | {name.lower(): value for name, value in given.items()}
    return None
