"""What a history says about records, gathered in one pass; the rules look it up here.

Lines count from 1. A value stands for one record, however often it is sent; `None` is a tombstone.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tests.histories.history import Operation

Place = tuple[str, int]


@dataclass(slots=True)
class Write:
    """A record that somebody sent."""

    value: str
    process: str
    target: Place  # its destination; partition -1: the broker chooses
    place: Place  # its offset, if known
    delivery: str
    key: str | None
    transaction: str | None
    line: int
    acked_line: int = 0
    acked_t: float = 0.0
    offset: int | None = None
    is_refused: bool = False


class Sighting(NamedTuple):
    """A value at an offset, as a client was told."""

    value: str | None
    line: int
    t: float


@dataclass(slots=True)
class Pass:
    """What a reader read of a partition without a seek."""

    process: str
    is_committed: bool
    start: int
    line: int
    reached: int
    offsets: list[int] = field(default_factory=list)
    ended_line: int = 0


@dataclass(slots=True)
class Crash:
    """The broker ended; after a power cut, `os` may have lost the last `window_s`."""

    line: int
    t: float
    kind: str
    window_s: float


class Topic(NamedTuple):
    """How a topic keeps its records."""

    cleanup: str = "none"
    durability: str = "group-commit"


class Disorder(NamedTuple):
    """A reader was given an offset that is not above the previous one."""

    process: str
    place: Place
    line: int
    before: int
    after: int


class Partition:
    """What is known of one log."""

    def __init__(self, place: Place) -> None:
        """Begin without knowledge."""
        self.place = place
        self.at: dict[int, Sighting] = {}
        # Another value at an offset that has one, and when it was first reported.
        self.again: dict[tuple[int, str | None], Sighting] = {}
        self.read: dict[int, int] = {}  # offset → first line, of any reader
        self.read_committed: dict[int, int] = {}
        self.keys: dict[int, str] = {}
        self.passes: list[Pass] = []
        self.is_transactional = False

    def see(self, offset: int, sighting: Sighting) -> None:
        """Record the value that a client was told for an offset."""
        known = self.at.setdefault(offset, sighting)
        if known.value != sighting.value:
            self.again.setdefault((offset, sighting.value), sighting)

    def passed(self, offset: int, *, committed: bool) -> bool:
        """Return whether a reader that started before an offset has continued past it."""
        starts, ends = self._reach[committed]
        place = bisect_right(starts, offset)
        return place > 0 and ends[place - 1] > offset

    def ended(self, offset: int | None, line: int, *, committed: bool) -> bool:
        """Return whether a reader found the end at or before an offset, after a line.

        Without an offset: whether a reader from the beginning found the end after that line.
        """
        reached, lines, whole = self._ends[committed]
        if offset is None:
            return whole > line
        place = bisect_right(reached, offset)
        return place > 0 and lines[place - 1] > line

    @cached_property
    def offsets_of_key(self) -> dict[str, list[int]]:
        """Return the offsets of each key, which increase."""
        found: dict[str, list[int]] = defaultdict(list)
        for offset in sorted(self.keys):
            found[self.keys[offset]].append(offset)
        return found

    @cached_property
    def last_of_key(self) -> dict[str, int]:
        """Return the last offset of each key."""
        return {key: offsets[-1] for key, offsets in self.offsets_of_key.items()}

    @cached_property
    def _reach(self) -> dict[bool, tuple[list[int], list[int]]]:
        found = {}
        for committed in (False, True):
            passes = [each for each in self.passes if each.is_committed or not committed]
            passes.sort(key=lambda each: each.start)
            ends: list[int] = []
            for each in passes:
                ends.append(max(ends[-1] if ends else 0, each.reached))
            found[committed] = ([each.start for each in passes], ends)
        return found

    @cached_property
    def _ends(self) -> dict[bool, tuple[list[int], list[int], int]]:
        found = {}
        for committed in (False, True):
            passes = [each for each in self.passes if each.ended_line]
            if committed:
                passes = [each for each in passes if each.is_committed]
            passes.sort(key=lambda each: each.reached)
            lines: list[int] = []
            for each in passes:
                lines.append(max(lines[-1] if lines else 0, each.ended_line))
            whole = max((each.ended_line for each in passes if each.start == 0), default=0)
            found[committed] = ([each.reached for each in passes], lines, whole)
        return found


class Facts:
    """Everything that the rules need."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        """Read a history once."""
        self.operations = list(operations)
        self.writes: dict[str, Write] = {}
        self.moved: dict[tuple[str, Place, int], Write] = {}  # seen at a second offset
        self.stood: dict[str, tuple[Place, int]] = {}  # where a value was first seen
        self.strangers: dict[str, tuple[Place, int]] = {}  # values that were never sent
        self.partitions: dict[Place, Partition] = {}
        self.topics: dict[str, Topic] = defaultdict(Topic)
        self.disorders: list[Disorder] = []
        self.crashes: list[Crash] = []
        self._current: dict[tuple[str, Place], Pass] = {}
        learners: dict[str, Callable[[int, Operation], None]] = {
            "create": self._create,
            "crash": self._crash,
            "send": self._send,
            "assign": self._assign,
            "poll": self._poll,
        }
        for line, operation in enumerate(self.operations, 1):
            learn = learners.get(operation.f)
            if learn is not None:
                learn(line, operation)

    def partition(self, place: Place) -> Partition:
        """Return what is known of a partition."""
        if place not in self.partitions:
            self.partitions[place] = Partition(place)
        return self.partitions[place]

    def may_be_gone(self, place: Place, line: int, t: float) -> bool:
        """Return whether a power cut after a line may have lost what was acknowledged then."""
        return self.topics[place[0]].durability == "os" and any(
            crash.kind == "power" and crash.line > line and crash.t - t <= crash.window_s
            for crash in self.crashes
        )

    def was_cut(self, line: int) -> bool:
        """Return whether there was a power cut after a line."""
        return any(crash.kind == "power" and crash.line > line for crash in self.crashes)

    # ---- one method for each f -------------------------------------------------------------------

    def _create(self, _: int, operation: Operation) -> None:
        value = operation.value
        self.topics[value["topic"]] = Topic(
            value.get("cleanup", "none"), value.get("durability", "group-commit")
        )

    def _crash(self, line: int, operation: Operation) -> None:
        value = operation.value
        self.crashes.append(Crash(line, operation.t, value["kind"], value.get("window_s", 0.0)))

    def _send(self, line: int, operation: Operation) -> None:
        value = operation.value
        place = (value["topic"], value["partition"])
        keys = value.get("keys") or [None] * len(value["values"])
        partition = self.partition(place)
        partition.is_transactional |= "transaction" in value
        first = value.get("offset")
        for index, (each, key) in enumerate(zip(value["values"], keys, strict=True)):
            offset = None if first is None else first + index
            if offset is not None:
                partition.see(offset, Sighting(each, line, operation.t))
                if key is not None:
                    partition.keys[offset] = key
            if each is None:
                continue
            write = self.writes.get(each)
            if write is None:
                write = self.writes[each] = Write(
                    each,
                    operation.process,
                    place,
                    place,
                    value["delivery"],
                    key,
                    value.get("transaction"),
                    line,
                )
            self._learn_outcome(write, line, operation, offset)

    def _learn_outcome(
        self, write: Write, line: int, operation: Operation, offset: int | None
    ) -> None:
        if operation.type == "fail":
            write.is_refused = True
        elif operation.type == "invoke":
            write.is_refused = False  # it is retried
        elif operation.type == "ok":
            write.acked_line, write.acked_t = line, operation.t
            if offset is not None:
                write.place = (operation.value["topic"], operation.value["partition"])
                self._stand(write.value, write.place, offset)
                write.offset = offset

    def _stand(self, value: str, place: Place, offset: int) -> None:
        known = self.stood.setdefault(value, (place, offset))
        if known != (place, offset) and value in self.writes:
            self.moved[value, place, offset] = self.writes[value]

    def _assign(self, line: int, operation: Operation) -> None:
        value = operation.value
        place = (value["topic"], value["partition"])
        self._current.pop((operation.process, place), None)
        if operation.type == "ok" and "position" in value:
            self._begin(line, operation.process, place, value["position"], value)

    def _begin(
        self, line: int, process: str, place: Place, start: int, value: dict[str, Any]
    ) -> Pass:
        begun = Pass(process, value.get("isolation") != "uncommitted", start, line, start)
        self._current[process, place] = begun
        self.partition(place).passes.append(begun)
        return begun

    def _poll(self, line: int, operation: Operation) -> None:
        if operation.type != "ok":
            return
        value, process = operation.value, operation.process
        place = (value["topic"], value["partition"])
        records = value["records"]
        current = self._current.get((process, place))
        if current is None:
            start = records[0][0] if records else value.get("next", 0)
            current = self._begin(line, process, place, start, value)
        current.is_committed = value.get("isolation") != "uncommitted"
        for offset, each, *key in records:
            if offset < current.reached:
                self.disorders.append(Disorder(process, place, line, current.reached, offset))
                if offset not in current.offsets:
                    insort(current.offsets, offset)
            else:
                current.offsets.append(offset)
                current.reached = offset + 1
            sighting = Sighting(each, line, operation.t)
            self._learn_record(self.partition(place), offset, sighting, *key)
            if current.is_committed:
                self.partition(place).read_committed.setdefault(offset, line)
        current.reached = max(current.reached, value.get("next", 0))
        if value.get("end"):
            current.ended_line = line

    def _learn_record(
        self, partition: Partition, offset: int, sighting: Sighting, key: str | None = None
    ) -> None:
        partition.see(offset, sighting)
        partition.read.setdefault(offset, sighting.line)
        if key is not None:
            partition.keys[offset] = key
        if sighting.value is not None:
            self._stand(sighting.value, partition.place, offset)
            if sighting.value not in self.writes:
                self.strangers.setdefault(sighting.value, (partition.place, offset))


def spot(place: Place, offset: int | None) -> str:
    """Return a partition and an offset as evidence shows them."""
    return f"{place[0]}-{place[1]}" + ("" if offset is None else f"@{offset}")
