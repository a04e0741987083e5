"""Which columns the sink takes: those of Spark's Kafka sink, and the time of the record."""

import difflib
from collections.abc import Mapping
from typing import Final

from broker.model.errors import SchemaMismatch

# What Spark calls the types that a column may have.
_BYTES: Final = ("binary", "string")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
# What the source says of a record besides: rows that came from a topic may go to one as they are.
IGNORED: Final = ("offset", "timestampType")


def check_columns(
    columns: Mapping[str, str], topic: str | None, *, ignores_extra: bool = False
) -> None:
    """Refuse what cannot be written.

    Args:
        columns: Spark's simple names of the types, by column.
        topic: where all rows go; None: where their column says.
        ignores_extra: whether columns that no record has are left out.

    Raises:
        SchemaMismatch: a column is missing, unknown, or of another type; with what was expected.
    """
    for name, kind in columns.items():
        if name in IGNORED:
            continue
        if name not in _TYPES:
            if ignores_extra:
                continue
            raise SchemaMismatch(
                f"column {name!r}: {_hint(name)}the columns of a record are {_ALL}; others are left"
                " out with the option extraColumns=ignore"
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
        raise SchemaMismatch("no column 'topic' and no option topic: where should the rows go?")


_ALL: Final = ", ".join(_TYPES)


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), _TYPES, n=1)
    return f"did you mean {near[0]!r}? " if near else ""
