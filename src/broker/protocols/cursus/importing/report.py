"""The report of `broker import cursus` for programs."""

from typing import Any, NamedTuple

from broker.protocols.importing.report import Damage, Report


class ImportedCursus(NamedTuple):
    """An import.

    Attributes:
        is_complete: whether everything was imported.
        topics: by name and partition: records, first_offset_there, offsets_are_the_same.
        committed_offsets: by group, topic and partition.
        snapshots: of streams, how many.
        left_out: records of transactions that were aborted, or never ended.
        damaged_records: how many.
        damages: the first of them: file, position in bytes and reason.
        other_problems: how many.
        problems: the first of them.
    """

    is_complete: bool
    topics: dict[str, dict[str, Any]]
    committed_offsets: dict[str, dict[str, dict[int, int]]]
    snapshots: int
    left_out: int
    damaged_records: int
    damages: list[Damage]
    other_problems: int
    problems: list[str]


class Counts:
    """What an import of Cursus counts besides its report."""

    snapshots = 0
    left_out = 0


def row_of(report: Report, counts: Counts) -> ImportedCursus:
    """Return a report for programs."""
    return ImportedCursus(
        is_complete=report.is_complete,
        topics=report.topics(),
        committed_offsets=report.offsets,
        snapshots=counts.snapshots,
        left_out=counts.left_out,
        damaged_records=report.damage_count,
        damages=report.damages,
        other_problems=report.problem_count,
        problems=report.problems,
    )


def text_of(report: Report, counts: Counts) -> tuple[str, ...]:
    """Return the lines of a report for people."""
    more = []
    if counts.snapshots:
        more.append(f"snapshots of streams: {counts.snapshots}")
    if counts.left_out:
        more.append(f"records of transactions without a commit, left out: {counts.left_out}")
    more.append(f"damaged records: {report.damage_count}; problems: {report.problem_count}")
    return tuple(report.as_text(*more))
