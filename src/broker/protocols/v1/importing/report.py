"""The report of `broker import v1`: what was imported, and what could not be."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.model import limits
from broker.protocols.v1.importing.directory import Damage, Partition

if TYPE_CHECKING:
    from broker.protocols.v1.importing.offset_map import OffsetMap


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
    damages: list[Damage]
    other_problems: int
    problems: list[str]
    mirror_segments_skipped: int


class Report:
    """The result of an import; `problems` are what could not be imported unchanged."""

    def __init__(self, mirror_count: int, progress: Callable[[str], None]) -> None:
        """Start an empty report; `mirror_count` segments are copies, which are skipped.

        `progress` prints a line for people.
        """
        self.progress = progress
        self.mirror_count = mirror_count
        self.maps: dict[Partition, OffsetMap] = {}
        self.offsets: dict[str, dict[str, dict[int, int]]] = {}
        self.damage_count = self.problem_count = 0
        self.damages: list[Damage] = []  # the first IMPORT_DAMAGES_REPORTED
        self.problems: list[str] = []  # likewise

    def add_damage(self, damage: Damage) -> None:
        """Print and count a damaged line; keep it unless the report has enough of them."""
        self.progress(f"{damage.file}:{damage.line}: {damage.reason}")
        self.damage_count += 1
        if len(self.damages) < limits.IMPORT_DAMAGES_REPORTED:
            self.damages.append(damage)

    def add_problem(self, problem: str) -> None:
        """Print and count a problem; keep it unless the report has enough of them."""
        self.progress(problem)
        self.problem_count += 1
        if len(self.problems) < limits.IMPORT_DAMAGES_REPORTED:
            self.problems.append(problem)

    @property
    def is_complete(self) -> bool:
        """Return whether everything was imported."""
        return not (self.damage_count or self.problem_count)

    def row(self) -> ImportedServer:
        """Return the report for programs."""
        topics: dict[str, dict[str, Any]] = {}
        for partition, offset_map in self.maps.items():
            topics.setdefault(partition.topic, {})[str(partition.number)] = {
                "records": offset_map.count,
                "first_offset_there": offset_map.first_source,
                "offsets_are_the_same": offset_map.is_same,
            }
        return ImportedServer(
            is_complete=self.is_complete,
            topics=topics,
            committed_offsets=self.offsets,
            damaged_lines=self.damage_count,
            damages=self.damages,
            other_problems=self.problem_count,
            problems=self.problems,
            mirror_segments_skipped=self.mirror_count,
        )

    def as_text(self) -> Iterator[str]:
        """Yield the lines of the report for people."""
        for (topic, number), offset_map in self.maps.items():
            note = (
                ""
                if offset_map.is_same
                else f", first original offset {offset_map.first_source}: offsets changed"
            )
            yield f"{topic}-{number}: {offset_map.count} records{note}"
        for group_id, topics in self.offsets.items():
            yield f"group {group_id}: {sum(map(len, topics.values()))} committed offsets"
        if self.mirror_count:
            yield f"skipped {self.mirror_count} segments that are copies (-replica-)"
        yield f"damaged lines: {self.damage_count}; problems: {self.problem_count}"
