"""The result of a job: rows with the same fields, totals, and problems."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Report(NamedTuple):
    """The outcome of a job.

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
