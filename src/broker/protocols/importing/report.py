"""The report of an import: what was imported, and what could not be."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.model import limits

if TYPE_CHECKING:
    from broker.protocols.importing.offset_map import OffsetMap


class Partition(NamedTuple):
    """A partition, as named by its files."""

    topic: str
    number: int


class Damage(NamedTuple):
    """A damaged place of a file and the reason."""

    file: str
    position: int  # a line from 1, or a byte from 0
    reason: str


class Report:
    """The result of an import; `problems` are what could not be imported unchanged."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        """Start an empty report; `progress` prints a line for people."""
        self.progress = progress
        self.maps: dict[Partition, OffsetMap] = {}
        self.offsets: dict[str, dict[str, dict[int, int]]] = {}
        self.damage_count = self.problem_count = 0
        self.damages: list[Damage] = []  # the first IMPORT_DAMAGES_REPORTED
        self.problems: list[str] = []  # likewise

    def add_damage(self, damage: Damage) -> None:
        """Print and count a damaged place; keep it unless the report has enough of them."""
        self.progress(f"{damage.file}:{damage.position}: {damage.reason}")
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

    def topics(self) -> dict[str, dict[str, Any]]:
        """Return what became of the records, by name and partition, for programs."""
        topics: dict[str, dict[str, Any]] = {}
        for partition, offset_map in self.maps.items():
            topics.setdefault(partition.topic, {})[str(partition.number)] = {
                "records": offset_map.count,
                "first_offset_there": offset_map.first_source,
                "offsets_are_the_same": offset_map.is_same,
            }
        return topics

    def as_text(self, *more: str) -> Iterator[str]:
        """Yield the lines of the report for people; `more` of them before the last."""
        for (topic, number), offset_map in self.maps.items():
            note = (
                ""
                if offset_map.is_same
                else f", first original offset {offset_map.first_source}: offsets changed"
            )
            yield f"{topic}-{number}: {offset_map.count} records{note}"
        for group_id, topics in self.offsets.items():
            yield f"group {group_id}: {sum(map(len, topics.values()))} committed offsets"
        yield from more

    def next_steps(self, what: str, *, is_dry_run: bool) -> str:
        """Return what to do about what is not imported; `what` names what can be damaged."""
        if self.is_complete:
            return ""
        found = f"{self.damage_count} damaged {what} and {self.problem_count} other problems, see"
        if is_dry_run:
            return f"{found} above; everything else can be imported"
        return (
            f"{found} above; everything else is imported. Use it as it is, or repair the files,"
            " delete the topics and import again"
        )
