"""The result of a command: rows with the same fields, and totals, as a table or as JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_GAP = "  "


class Report(NamedTuple):
    """The outcome of a command.

    Attributes:
        columns: the names of the fields, in order.
        rows: a value for each field, for JSON: text, numbers, bool, None.
        totals: values about all rows.
        problems: messages about what is wrong; empty on success.
        unless_zero: columns that a table omits when no row has a value other than zero.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    totals: dict[str, Any]
    problems: Sequence[str] = ()
    unless_zero: frozenset[str] = frozenset()

    @property
    def is_well(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def as_json(self) -> str:
        """Return one JSON object: rows, totals, problems."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return json.dumps(
            {"rows": rows, "totals": self.totals, "problems": list(self.problems)}, indent=1
        )

    def as_table(self) -> Iterator[str]:
        """Yield the lines of a table with numbers aligned right, then the totals and problems."""
        shown = [
            (name, column)
            for name, column in zip(self.columns, zip(*self.rows, strict=True), strict=False)
            if any(column) or name not in self.unless_zero
        ]
        if shown:
            cells = [[name, *map(_text, column)] for name, column in shown]
            widths = [max(map(len, column)) for column in cells]
            is_number = [_is_number(column) for _, column in shown]
            for line in zip(*cells, strict=True):
                padded = [
                    text.rjust(width) if right else text.ljust(width)
                    for text, width, right in zip(line, widths, is_number, strict=True)
                ]
                yield _GAP.join(padded).rstrip()
        for name, value in self.totals.items():
            yield f"{name}: {_text(value)}"
        yield from (f"problem: {each}" for each in self.problems)

    def in_format(self, output: str) -> str:
        """Return it as "table" or "json"."""
        return self.as_json() if output == "json" else "\n".join(self.as_table())


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_number(column: Sequence[object]) -> bool:
    return all(value is None or isinstance(value, (int, float)) for value in column)
