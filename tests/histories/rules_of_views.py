"""Rules of the state of topics and logs that clients see, and of liveness.

Classes 3, 12, 18, 20, 26 and 29.
"""

from collections.abc import Iterator

from tests.histories.facts import Facts, Place, spot
from tests.histories.findings import Finding
from tests.histories.history import Operation

PROGRESS_S = 30.0  # within which a client makes progress once the broker is up


def log_ends(facts: Facts) -> Iterator[Finding]:
    """20, 29: the log end seen by a client never decreases below its acknowledged records."""
    shown: dict[tuple[str, Place], tuple[int, int]] = {}
    acknowledged: dict[tuple[str, Place], int] = {}
    asked: dict[tuple[str, Place], int] = {}
    for line, operation in enumerate(facts.operations, 1):
        if operation.f not in {"send", "list_offsets"}:
            continue
        value = operation.value
        place = (value["topic"], value["partition"])
        key = (operation.process, place)
        if operation.f == "send":
            if operation.type == "ok" and "offset" in value:
                acknowledged[key] = max(
                    acknowledged.get(key, 0), value["offset"] + len(value["values"])
                )
        elif operation.type == "invoke":
            asked[key] = acknowledged.get(key, 0)
        elif operation.type == "ok":
            least = asked.pop(key, acknowledged.get(key, 0))
            before, before_line = shown.get(key, (0, 0))
            where = f"{operation.process} sees {spot(place, value['latest'])} in line {line}"
            if facts.may_be_gone(place, before_line, operation.t):
                continue
            if value["latest"] < before:
                yield Finding(
                    "high watermark went back", f"{where}, {before} in line {before_line}"
                )
            elif value["latest"] < least and not facts.was_cut(0):
                yield Finding("end before an acknowledged write", f"{where}, and wrote to {least}")
            shown[key] = (max(before, value["latest"]), line)


def log_starts(facts: Facts) -> Iterator[Finding]:
    """26: nothing is deleted where deletion is not allowed, and deleted records stay deleted."""
    starts: dict[Place, tuple[int, int]] = {}
    for line, operation in enumerate(facts.operations, 1):
        if operation.type != "ok" or operation.f not in {"list_offsets", "poll"}:
            continue
        value = operation.value
        place = (value["topic"], value["partition"])
        start, start_line = starts.get(place, (0, 0))
        if operation.f == "poll":
            first = value["records"][0][0] if value["records"] else start
            if first < start:
                yield Finding(
                    "log start went back",
                    f"{operation.process} reads {spot(place, first)} in line {line}; line "
                    f"{start_line} says that it begins at {start}",
                )
        elif "earliest" in value:
            where = f"{spot(place, value['earliest'])} is the first in line {line}"
            if value["earliest"] and facts.topics[place[0]].cleanup == "none":
                yield Finding("live data removed", f"{where}, and nothing may be removed")
            elif value["earliest"] < start:
                yield Finding("log start went back", f"{where}, {start} in line {start_line}")
            starts[place] = (max(start, value["earliest"]), line)


def topics(facts: Facts) -> Iterator[Finding]:
    """18: a topic is listed from its creation to its deletion."""
    created: dict[str, int] = {}
    deleting: set[str] = set()
    deleted: dict[str, int] = {}
    asked: dict[str, tuple[set[str], set[str]]] = {}
    for line, operation in enumerate(facts.operations, 1):
        value = operation.value
        if operation.f == "create" and operation.type == "ok":
            created[value["topic"]] = line
        elif operation.f == "delete":
            deleting.add(value["topic"])
            if operation.type == "ok":
                deleted[value["topic"]] = line
        elif operation.f == "list_topics" and operation.type == "invoke":
            asked[operation.process] = (set(created), set(deleted))
        elif operation.f == "list_topics" and operation.type == "ok":
            there, gone = asked.pop(operation.process, (set(created), set(deleted)))
            listed = set(value["topics"])
            for topic in sorted(there - deleting - listed):
                yield Finding("topic vanished", f"{topic} (line {created[topic]}) in line {line}")
            for topic in sorted(gone & listed):
                yield Finding(
                    "deleted topic is back", f"{topic} (line {deleted[topic]}) in line {line}"
                )


def producer_ids(facts: Facts) -> Iterator[Finding]:
    """3: a producer id is assigned to one producer."""
    owners: dict[int, int] = {}
    for line, operation in enumerate(facts.operations, 1):
        if operation.f == "init_producer" and operation.type == "ok":
            number = operation.value["producer_id"]
            if number in owners:
                yield Finding(
                    "producer id issued twice", f"{number} in lines {owners[number]} and {line}"
                )
            owners[number] = line


def stuck(facts: Facts) -> Iterator[Finding]:
    """12: a request is answered within 30 s after the broker is up."""
    waiting: dict[tuple[str, str, str], tuple[int, Operation]] = {}
    alive_t: float | None = 0.0
    for line, operation in enumerate(facts.operations, 1):
        if operation.f == "crash":
            alive_t = None
        elif operation.f == "heal":
            alive_t = operation.t
            waiting.clear()  # Earlier requests must be sent again.
        elif operation.type == "invoke":
            waiting[asking(operation)] = (line, operation)
        else:
            waiting.pop(asking(operation), None)
    if alive_t is None or not facts.operations:
        return
    end_t = facts.operations[-1].t
    for line, operation in waiting.values():
        if end_t - max(operation.t, alive_t) > PROGRESS_S:
            yield Finding(
                "stuck client",
                f"{operation.process} asks for {operation.f} in line {line} and is never answered",
            )


def asking(operation: Operation) -> tuple[str, str, str]:
    """Return what a response has in common with its request."""
    values = operation.value.get("values")
    return operation.process, operation.f, "" if values is None else str(values[:1])
