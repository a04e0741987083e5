"""The report of `broker import v1` for programs."""

from typing import Any, NamedTuple

from broker.protocols.importing.report import Report


class DamagedLine(NamedTuple):
    """A damaged line and the reason."""

    file: str
    line: int
    reason: str


class ImportedServer(NamedTuple):
    """An import.

    Attributes:
        is_complete: whether everything was imported.
        topics: by name and partition: records, first_offset_there, offsets_are_the_same.
        committed_offsets: by group, topic and partition.
        damaged_lines: how many.
        damages: the first of them: file, line and reason.
        other_problems: how many.
        problems: the first of them.
        mirror_segments_skipped: segments that are copies of others.
    """

    is_complete: bool
    topics: dict[str, dict[str, Any]]
    committed_offsets: dict[str, dict[str, dict[int, int]]]
    damaged_lines: int
    damages: list[DamagedLine]
    other_problems: int
    problems: list[str]
    mirror_segments_skipped: int


def row_of(report: Report, mirror_count: int) -> ImportedServer:
    """Return a report for programs; `mirror_count` segments were skipped as copies."""
    return ImportedServer(
        is_complete=report.is_complete,
        topics=report.topics(),
        committed_offsets=report.offsets,
        damaged_lines=report.damage_count,
        damages=[DamagedLine(*each) for each in report.damages],
        other_problems=report.problem_count,
        problems=report.problems,
        mirror_segments_skipped=mirror_count,
    )


def text_of(report: Report, mirror_count: int) -> tuple[str, ...]:
    """Return the lines of a report for people."""
    skipped = f"skipped {mirror_count} segments that are copies (-replica-)"
    counts = f"damaged lines: {report.damage_count}; problems: {report.problem_count}"
    return tuple(report.as_text(*([skipped] if mirror_count else []), counts))
