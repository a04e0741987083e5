"""Rules of groups and their offsets: classes 11, 13 and 28."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tests.histories.facts import Facts, Place, spot
from tests.histories.findings import Finding
from tests.histories.history import Operation

Key = tuple[str, Place]


def key_of(operation: Operation) -> Key:
    """Return the group and partition that an operation is about."""
    value = operation.value
    return value["group"], (value["topic"], value["partition"])


@dataclass(slots=True)
class Offset:
    """The possible committed offsets of a group in a partition."""

    floor: int = -1  # acknowledged
    floor_line: int = 0
    highest: int = -1  # ever requested


def committed_offsets(facts: Facts) -> Iterator[Finding]:
    """11: a committed offset stays until a higher one is committed, unless it is reset."""
    offsets: dict[Key, Offset] = {}
    asked: dict[tuple[str, Key], Offset] = {}
    for line, operation in enumerate(facts.operations, 1):
        if operation.f == "commit":
            known = offsets.setdefault(key_of(operation), Offset())
            offset = operation.value["offset"]
            if operation.value.get("reset"):
                known.floor = min(known.floor, offset)
            known.highest = max(known.highest, offset)
            if operation.type == "ok" and offset > known.floor:
                known.floor, known.floor_line = offset, line
        elif operation.f == "fetch_committed":
            key = key_of(operation)
            known = offsets.setdefault(key, Offset())
            if operation.type == "invoke":
                asked[operation.process, key] = Offset(known.floor, known.floor_line)
            elif operation.type == "ok":
                least = asked.pop((operation.process, key), known)
                yield from fetched(key, line, operation.value["offset"], least, known)


def fetched(key: Key, line: int, offset: int, least: Offset, known: Offset) -> Iterator[Finding]:
    """Yield a finding when a fetched offset is not a possible one."""
    whose = f"{key[0]} in {spot(key[1], None)}: line {line} says {offset}"
    floor = min(least.floor, known.floor)  # It may have been reset meanwhile.
    if offset < 0 <= floor:
        yield Finding("committed offset forgotten", f"{whose}, line {least.floor_line} {floor}")
    elif 0 <= offset < floor:
        yield Finding("committed offset went back", f"{whose}, line {least.floor_line} {floor}")
    elif offset > known.highest:
        yield Finding("committed offset out of nowhere", f"{whose}, the most was {known.highest}")


def commits_ahead(facts: Facts) -> Iterator[Finding]:
    """13: a member commits only what its group has read."""
    groups: dict[tuple[str, Place], str] = {}  # process and partition → group
    read: dict[Key, int] = {}
    for line, operation in enumerate(facts.operations, 1):
        value = operation.value
        if (
            operation.f == "assign"
            and operation.type == "ok"
            and {"group", "position"} <= value.keys()
        ):
            key = key_of(operation)
            groups[operation.process, key[1]] = key[0]
            read[key] = max(read.get(key, 0), value["position"])
        elif operation.f == "poll" and operation.type == "ok":
            place = (value["topic"], value["partition"])
            group = groups.get((operation.process, place))
            if group is not None and value["records"]:
                key = (group, place)
                read[key] = max(read.get(key, 0), value["records"][-1][0] + 1)
        elif operation.f == "commit" and operation.type in {"invoke", "ok"}:
            key = key_of(operation)
            if key in read and value["offset"] > read[key]:
                yield Finding(
                    "commit ahead of reading",
                    f"{operation.process} commits {value['offset']} in {spot(key[1], None)} in "
                    f"line {line}; {key[0]} has read up to {read[key]}",
                )
                read[key] = value["offset"]


@dataclass(slots=True)
class Ownership:
    """A member owns a partition until it revokes it or gets another assignment."""

    process: str
    generation: int
    since_t: float
    line: int
    until_t: float = math.inf


def owners(facts: Facts) -> Iterator[Finding]:
    """28: one member owns a partition at a time, and an older generation commits nothing."""
    history: dict[Key, Owners] = {}
    for line, operation in enumerate(facts.operations, 1):
        if operation.f in {"assign", "revoke", "heartbeat", "commit"} and (
            "group" in operation.value
        ):
            known = history.setdefault(key_of(operation), Owners())
            finding = known.learn(line, operation)
            if finding is not None:
                yield finding
    for key, known in history.items():
        yield from overlaps(key, known.intervals)


class Owners:
    """The owners of the partitions of a group."""

    def __init__(self) -> None:
        """Begin without owners."""
        self.intervals: list[Ownership] = []
        self._newest: Ownership | None = None
        self._current: dict[str, Ownership] = {}
        self._asked: dict[tuple[str, str], float] = {}

    def learn(self, line: int, operation: Operation) -> Finding | None:
        """Follow an operation; return a finding if an old generation was accepted."""
        process, generation = operation.process, operation.value.get("generation")
        if operation.type == "invoke":
            self._asked[process, operation.f] = operation.t
        if operation.f == "revoke":
            self._give_back(process, operation.t)
        elif operation.type == "ok" and generation is not None:
            if operation.f == "assign":
                self._take(Ownership(process, generation, operation.t, line))
            else:
                return self._speak(line, operation, generation)
        return None

    def _give_back(self, process: str, t: float) -> None:
        if process in self._current:
            self._current.pop(process).until_t = t

    def _take(self, own: Ownership) -> None:
        self._give_back(own.process, own.since_t)
        self._current[own.process] = own
        self.intervals.append(own)
        if self._newest is None or own.generation > self._newest.generation:
            self._newest = own

    def _speak(self, line: int, operation: Operation, generation: int) -> Finding | None:
        newest = self._newest
        if newest is None:
            return None
        asked_t = self._asked.get((operation.process, operation.f), operation.t)
        if generation < newest.generation and newest.since_t < asked_t:
            group, place = key_of(operation)
            return Finding(
                "stale commit accepted",
                f"{operation.process} of generation {generation} was heard in line {line}; "
                f"{newest.process} has {spot(place, None)} of {group} in {newest.generation} "
                f"since line {newest.line}",
            )
        return None


def overlaps(key: Key, intervals: list[Ownership]) -> Iterator[Finding]:
    """Yield a finding for two members that own a partition at one moment in one generation.

    An expired member may still believe to own what a newer generation has assigned to another one;
    its requests must be refused.
    """
    last_of: dict[int, Ownership] = {}
    for each in intervals:
        last = last_of.setdefault(each.generation, each)
        if each.process != last.process and each.since_t < last.until_t:
            yield Finding(
                "two owners",
                f"{key[0]} in {spot(key[1], None)}: {each.process} has it since line {each.line} "
                f"and {last.process} since line {last.line}, both in generation {each.generation}",
            )
        if each.until_t >= last.until_t:
            last_of[each.generation] = each
