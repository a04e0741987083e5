"""Checks the columns of the sink: those of Spark's Kafka sink, and the timestamp."""

import difflib
from collections.abc import Mapping
from typing import Final

from broker.model.errors import SchemaMismatch
from broker.pipeline.schema import ALL_COLUMNS

# Other columns of the source: rows read from a topic may be written to one unchanged.
IGNORED: Final = ("offset", "timestampType")
# The types of a column, as Spark names them.
_TYPES: Final = {
    name: ("binary", "string") if kind == "binary" else (kind,)
    for name, kind in ALL_COLUMNS.items()
    if name not in IGNORED
}
_ALL: Final = ", ".join(_TYPES)


def check_columns(
    columns: Mapping[str, str], topic: str | None, *, ignores_extra: bool = False
) -> None:
    """Raise an error for columns that cannot be written.

    Args:
        columns: Spark's simple type names, by column.
        topic: the topic of all rows; None: that of their column.
        ignores_extra: whether columns that a record does not have are ignored.

    Raises:
        SchemaMismatch: a column is missing, unknown, or has another type; the message has the
            expected ones.
    """
    for name, kind in columns.items():
        if name in IGNORED:
            continue
        if name not in _TYPES:
            if ignores_extra:
                continue
            raise SchemaMismatch(
                f"column {name!r}: {_hint(name)}the columns of a record are {_ALL}; others are"
                " ignored with the option extraColumns=ignore"
            )
        if kind not in _TYPES[name]:
            raise SchemaMismatch(
                f"column {name!r} is {kind}, expected {' or '.join(_TYPES[name])}: cast it"
            )
    if "value" not in columns:
        raise SchemaMismatch(
            f"no column 'value' among {', '.join(columns) or 'none at all'}: a record needs one"
        )
    if topic is None and "topic" not in columns:
        raise SchemaMismatch("no column 'topic' and no option topic: no topic for the rows")


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), _TYPES, n=1)
    return f"did you mean {near[0]!r}? " if near else ""
