"""The report of `broker import rustlog` for programs."""

from typing import Any, NamedTuple

from broker.protocols.importing.report import Damage, Report


class ImportedRustLog(NamedTuple):
    """An import.

    Attributes:
        is_complete: whether everything was imported.
        topics: by name and partition: records, first_offset_there, offsets_are_the_same.
        damaged_records: how many.
        damages: the first of them: file, position in bytes and reason.
        other_problems: how many.
        problems: the first of them.
    """

    is_complete: bool
    topics: dict[str, dict[str, Any]]
    damaged_records: int
    damages: list[Damage]
    other_problems: int
    problems: list[str]


def row_of(report: Report) -> ImportedRustLog:
    """Return a report for programs."""
    return ImportedRustLog(
        is_complete=report.is_complete,
        topics=report.topics(),
        damaged_records=report.damage_count,
        damages=report.damages,
        other_problems=report.problem_count,
        problems=report.problems,
    )


def text_of(report: Report) -> tuple[str, ...]:
    """Return the lines of a report for people."""
    counts = f"damaged records: {report.damage_count}; problems: {report.problem_count}"
    return tuple(report.as_text(counts))
