"""Records given as columns of spans over one buffer, read in place."""

from typing import TYPE_CHECKING, Protocol

from broker._native.records.column_source import ColumnSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


class SpanColumns(Protocol):
    """Columns over one buffer, as `decode_columns` returns them."""

    @property
    def data(self) -> "Buffer":
        """The buffer that the spans point into."""

    def column(self, name: str) -> "Buffer":
        """Return one column; raise KeyError if it does not exist."""


def span_source(data: "Buffer", column: "Callable[[str], Buffer]") -> ColumnSource:
    """Return a source over columns with the names of `Columns.names`.

    Raises:
        TypeError: a column does not have the type of its name.
        ValueError: there is no column of values, or columns have different lengths.
    """

    def find(name: str) -> "Buffer | None":
        try:
            return column(name)
        except KeyError:
            return None

    lengths = find("value_length")
    if lengths is None:
        raise ValueError("no column named value_length")
    source = ColumnSource(len(memoryview(lengths)))
    for name in ("key", "value", "header_key", "header_value"):
        starts, lengths = find(f"{name}_start"), find(f"{name}_length")
        if starts is not None and lengths is not None:
            source.spans(name, data, starts, lengths)
        elif starts is not None or lengths is not None:
            raise ValueError(f"{name}_start and {name}_length must be given together")
    for name, put in (
        ("timestamp", source.timestamps),
        ("offset", source.offsets),
        ("header_end", source.header_ends),
    ):
        numbers = find(name)
        if numbers is not None:
            put(numbers)
    return source
