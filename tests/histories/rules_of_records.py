"""Rules of single records: classes 1 to 5, 14, 15, 25, 26 and 27."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tests.histories.facts import Facts, Partition, Pass, Place, Write, spot
from tests.histories.findings import Finding

AT_MOST_ONCE = {
    "idempotent": "duplicate in idempotent session",
    "unordered": "duplicate in idempotent session",
    "once": "duplicate of a single send",
}
IN_ORDER = frozenset({"idempotent", "once"})


def lost_writes(facts: Facts) -> Iterator[Finding]:
    """1, 4, 14: an acknowledged record is read by every reader that passes its offset."""
    for write in facts.writes.values():
        if write.acked_line and not write.transaction:
            yield from lost(facts, write, committed=False)


def lost(facts: Facts, write: Write, *, committed: bool) -> Iterator[Finding]:
    """Yield a finding when no reader gets an acknowledged record that one should have got."""
    partition, offset = facts.partition(write.place), write.offset
    stood = facts.stood.get(write.value) if offset is None else (write.place, offset)
    if stood is not None:
        seen_in = facts.partition(stood[0])
        if stood[1] in (seen_in.read_committed if committed else seen_in.read):
            return
    if offset is not None and is_superseded(facts, partition, offset):
        return
    if facts.may_be_gone(write.place, write.acked_line, write.acked_t):
        return
    said = f"{write.value!r} of {write.process} was acknowledged in line {write.acked_line}"
    where = f"at {spot(write.place, offset)}"
    is_passed = offset is not None and partition.passed(offset, committed=committed)
    if not is_passed and not partition.ended(offset, write.acked_line, committed=committed):
        return
    if facts.was_cut(write.acked_line):
        yield Finding("acknowledged before it was durable", f"{said} {where}, and a cut took it")
    elif is_passed and facts.topics[write.place[0]].cleanup == "compact":
        yield Finding("last value of a key removed", f"{said} {where}, the last of {write.key!r}")
    elif is_passed:
        yield Finding("lost acknowledged write", f"{said} {where}; readers have passed it")
    else:
        yield Finding("unseen tail", f"{said} {where}; a reader found the end before it")


def inconsistent_offsets(facts: Facts) -> Iterator[Finding]:
    """2, 14, 15: an offset has one value, for its writer and for all readers."""
    for place, partition in facts.partitions.items():
        for (offset, _), other in partition.again.items():
            first = partition.at[offset]
            if facts.may_be_gone(place, first.line, first.t):
                continue
            said = (
                f"{spot(place, offset)} is {first.value!r} in line {first.line} "
                f"and {other.value!r} in line {other.line}"
            )
            if not all(each is None or each in facts.writes for each in (first.value, other.value)):
                yield Finding("corrupt record", said)
            elif any(
                first.line < crash.line < other.line and crash.kind == "power"
                for crash in facts.crashes
            ):
                yield Finding("acknowledged before it was durable", said)
            else:
                yield Finding("inconsistent offset", said)


def duplicates(facts: Facts) -> Iterator[Finding]:
    """3: what an idempotent session sends, or what is sent only once, has one offset."""
    for (_, place, offset), write in facts.moved.items():
        first_place, first = facts.stood[write.value]
        if write.delivery not in AT_MOST_ONCE or first_place[0] != place[0]:
            continue
        stored = facts.partition(first_place).at[first]
        if facts.may_be_gone(place, stored.line, stored.t):
            continue
        yield Finding(
            AT_MOST_ONCE[write.delivery],
            f"{write.value!r} of {write.process} is at {spot(first_place, first)} "
            f"and at {spot(place, offset)}",
        )


def reordered(facts: Facts) -> Iterator[Finding]:
    """3: the records of a session are in the order in which they were first sent."""
    sent: dict[tuple[str, Place], list[Write]] = defaultdict(list)
    for write in facts.writes.values():
        if write.delivery in IN_ORDER and write.value in facts.stood:
            sent[write.process, facts.stood[write.value][0]].append(write)
    moved = {value for value, _, _ in facts.moved}
    for (process, place), writes in sent.items():
        highest: Write | None = None
        for write in writes:
            if write.value in moved:
                continue  # A duplicate, which has its own finding.
            if highest and offset_of(facts, write) < offset_of(facts, highest):
                yield Finding(
                    "reordered in one session",
                    f"{process} sent {write.value!r} behind {highest.value!r}; in {place} it "
                    f"stands at {offset_of(facts, write)}, before {offset_of(facts, highest)}",
                )
            else:
                highest = write


def offset_of(facts: Facts, write: Write) -> int:
    """Return the offset of a record that was seen."""
    return facts.stood[write.value][1]


def disorders(facts: Facts) -> Iterator[Finding]:
    """5: offsets increase within a poll and from poll to poll."""
    for each in facts.disorders:
        yield Finding(
            "non-monotonic poll",
            f"{each.process} was at {spot(each.place, each.before)} and got {each.after} "
            f"in line {each.line}",
        )


def skips(facts: Facts) -> Iterator[Finding]:
    """5, 26: a reader gets every record between its first and last that other readers get."""
    for place, partition in facts.partitions.items():
        committed = sorted(set(partition.read_committed) | plain_reads(facts, partition))
        everything = sorted(partition.read)
        for each in partition.passes:
            if each.offsets:
                known = committed if each.is_committed else everything
                yield from skipped(facts, place, each, known)


def plain_reads(facts: Facts, partition: Partition) -> set[int]:
    """Return the offsets at which records outside transactions were read."""
    found = set()
    for offset in partition.read:
        write = facts.writes.get(partition.at[offset].value or "")
        if write is not None and write.transaction is None:
            found.add(offset)
    return found


def skipped(facts: Facts, place: Place, reader: Pass, known: list[int]) -> Iterator[Finding]:
    """Yield a finding for each known record that a reader has passed without getting it."""
    low = bisect_left(known, reader.start)
    high = bisect_right(known, reader.offsets[-1])
    if high - low == len(reader.offsets):
        return
    partition, got = facts.partition(place), set(reader.offsets)
    for offset in known[low:high]:
        if offset in got or is_superseded(facts, partition, offset):
            continue
        stored = partition.at[offset]
        if facts.may_be_gone(place, stored.line, stored.t):
            continue
        said = f"{reader.process} went past {spot(place, offset)}, which is {stored.value!r}"
        if facts.topics[place[0]].cleanup != "compact":
            yield Finding("skipped record", f"{said} to others")
        elif stored.value is not None:
            yield Finding("last value of a key removed", said)


def is_superseded(facts: Facts, partition: Partition, offset: int) -> bool:
    """Return whether compaction may have removed a record: its key has a later one."""
    if facts.topics[partition.place[0]].cleanup != "compact":
        return False
    key = partition.keys.get(offset)
    return key is not None and partition.last_of_key[key] > offset


def removed_keys(facts: Facts) -> Iterator[Finding]:
    """26: a reader that no longer gets a tombstone gets no record that it deleted."""
    for place, partition in facts.partitions.items():
        if facts.topics[place[0]].cleanup != "compact":
            continue
        for reader in partition.passes:
            got = set(reader.offsets)
            for key, offset in partition.last_of_key.items():
                is_behind = reader.offsets and reader.offsets[-1] > offset >= reader.start
                if partition.at[offset].value is not None or offset in got or not is_behind:
                    continue
                for old in partition.offsets_of_key[key]:
                    if old in got:
                        yield Finding(
                            "removed key is back",
                            f"{reader.process} read {key!r} at {spot(place, old)}, not its "
                            f"tombstone at {offset}",
                        )
                        break


def strangers(facts: Facts) -> Iterator[Finding]:
    """25: every record read was sent."""
    for value, (place, offset) in facts.strangers.items():
        partition = facts.partition(place)
        disputed = {each for each, _ in partition.again}
        if offset not in disputed:
            yield Finding("record out of nowhere", f"{value!r} at {spot(place, offset)}")


def holes(facts: Facts) -> Iterator[Finding]:
    """25: an offset without a record is a transaction marker or was compacted."""
    for place, partition in facts.partitions.items():
        if partition.is_transactional or facts.topics[place[0]].cleanup == "compact":
            continue
        for reader in partition.passes:
            before = reader.start - 1
            for offset in reader.offsets:
                missing = next(
                    (o for o in range(before + 1, offset) if o not in partition.at), None
                )
                if missing is not None:
                    yield Finding(
                        "hole in the log",
                        f"{reader.process} found nothing at {spot(place, missing)}, nor did others",
                    )
                before = offset


def wrong_places(facts: Facts) -> Iterator[Finding]:
    """27: a record is in the topic and partition that it was sent to."""
    for write in facts.writes.values():
        stood = facts.stood.get(write.value)
        if stood is None:
            continue
        (topic, partition), offset = stood
        if topic != write.target[0] or write.target[1] not in (partition, -1):
            yield Finding(
                "wrong place",
                f"{write.value!r} was sent to {write.target} and is at {spot(stood[0], offset)}",
            )
