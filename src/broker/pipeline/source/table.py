"""Tables of Spark's catalog: CREATE TABLE … USING polylog OPTIONS (…).

Spark asks a Python source for the columns of a new table once. It passes the options among
properties of its own: `provider`, `owner`, TBLPROPERTIES, and every option a second time with the
prefix `option.`. A later SELECT or INSERT gets the columns from the catalog, and only the options
of its own WITH (…). Therefore the options are stored with the columns, as metadata of the first
one.

Source: Spark's TableCatalog, CatalogV2Util.convertTableProperties; PythonDataSourceV2.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from broker.pipeline.schema import arrow_schema

_PREFIX: Final = "option."
_PROVIDER: Final = "provider"
_METADATA: Final = "polylog.options"
# Options with the location of rows: a program that gives one does not refer to a table.
_LOCATION_OPTIONS: Final = frozenset({"kafka.bootstrap.servers", "segments"})


def options_of_new(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is being created; None: they belong to no table."""
    if _PROVIDER not in {each.lower() for each in given}:
        return None
    return {
        name[len(_PREFIX) :]: value
        for name, value in given.items()
        if name.lower().startswith(_PREFIX)
    }


def with_options(ddl: str, options: Mapping[str, str]) -> StructType:
    """Return the columns of a new table with its options as metadata."""
    schema = from_arrow_schema(arrow_schema(ddl))  # this process has no JVM to parse the DDL
    schema.fields[0].metadata[_METADATA] = json.dumps(dict(options), sort_keys=True)
    return schema


def has_location(given: Mapping[str, str]) -> bool:
    """Return whether options have the location of rows; those of a table come with its columns."""
    return not _LOCATION_OPTIONS.isdisjoint(each.lower() for each in given)


def options_of(schema: StructType, given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of the table of a reader or writer; None: it has no table.

    Args:
        schema: the columns passed by Spark.
        given: other options; they take precedence over the table's.
    """
    if has_location(given):
        return None
    for each in schema.fields:
        kept = each.metadata.get(_METADATA)
        if kept is not None:
            options: dict[str, str] = json.loads(kept)
            return options | {name.lower(): value for name, value in given.items()}
    return None
