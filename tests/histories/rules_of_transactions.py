"""Rules of transactions: classes 6 to 10.

A transaction is `committed` or `aborted` when its producer got that response, `unknown` from the
moment its commit is requested, `open` before. Only one whose commit was requested may ever be read.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.histories.facts import Facts, Write, spot
from tests.histories.findings import Finding
from tests.histories.history import Operation
from tests.histories.rules_of_records import lost

GRACE_S = 10.0  # within which a broker ends an expired transaction


@dataclass(slots=True)
class Transaction:
    """The requests and responses of its producer."""

    name: str
    transactional_id: str
    epoch: int
    begun_t: float
    timeout_s: float
    state: str = "open"
    commit_line: int = 0  # of the request
    writes: list[Write] = field(default_factory=list)


class Transactions:
    """All transactions of a history, and when epochs were fenced."""

    def __init__(self, facts: Facts) -> None:
        """Follow a history."""
        self.by_name: dict[str, Transaction] = {}
        self.zombies: list[tuple[Transaction, int, int]] = []  # its line, the newer epoch
        self.hanging: list[tuple[int, Operation]] = []
        self.reads: dict[str, set[str]] = defaultdict(set)  # transaction → those it read from
        self._epochs: dict[str, int] = {}
        self._asked: dict[tuple[str, str, str], int] = {}  # the epoch known then
        for line, operation in enumerate(facts.operations, 1):
            if operation.f == "begin":
                self._begin(operation)
            elif operation.f == "end":
                self._end(line, operation)
            elif operation.f == "send" and "transaction" in operation.value:
                self._check_epoch(line, operation)
            elif operation.f == "list_offsets":
                self._check_open(line, operation)
            elif operation.f == "poll" and "transaction" in operation.value:
                self._learn_reads(facts, operation)
        for write in facts.writes.values():
            if write.transaction in self.by_name:
                self.by_name[write.transaction].writes.append(write)

    def _begin(self, operation: Operation) -> None:
        if operation.type != "ok":
            return
        value = operation.value
        transactional_id, epoch = value["transactional_id"], value.get("epoch", 0)
        self._epochs[transactional_id] = max(epoch, self._epochs.get(transactional_id, epoch))
        self.by_name[value["transaction"]] = Transaction(
            value["transaction"],
            transactional_id,
            epoch,
            operation.t,
            value.get("timeout_s", 60.0),
        )

    def _end(self, line: int, operation: Operation) -> None:
        value = operation.value
        known = self.by_name[value["transaction"]]
        if not value["commit"]:
            if known.state == "open":
                known.state = "aborted"
        elif operation.type == "invoke":
            known.state, known.commit_line = "unknown", known.commit_line or line
        elif operation.type == "ok":
            known.state, known.commit_line = "committed", known.commit_line or line
        elif operation.type == "fail":
            known.state = "aborted"
        if value["commit"]:
            self._check_epoch(line, operation)

    def _check_epoch(self, line: int, operation: Operation) -> None:
        known = self.by_name[operation.value["transaction"]]
        key = (operation.process, operation.f, str(operation.value.get("values")))
        newest = self._epochs[known.transactional_id]
        if operation.type == "invoke":
            self._asked[key] = newest
            return
        newest = self._asked.pop(key, newest)
        if operation.type == "ok" and known.epoch < newest:
            self.zombies.append((known, line, newest))

    def _check_open(self, line: int, operation: Operation) -> None:
        value = operation.value
        if operation.type != "ok" or value.get("stable", value["latest"]) >= value["latest"]:
            return
        for each in self.by_name.values():
            is_done = each.state in {"committed", "aborted"}
            if not is_done and operation.t - each.begun_t <= each.timeout_s + GRACE_S:
                return
        self.hanging.append((line, operation))

    def _learn_reads(self, facts: Facts, operation: Operation) -> None:
        reader = operation.value["transaction"]
        for _, each, *_ in operation.value["records"]:
            write = facts.writes.get(each)
            if write is not None and write.transaction not in {None, reader}:
                self.reads[reader].add(write.transaction or "")


def read_line(facts: Facts, write: Write) -> int:
    """Return the line in which a committed reader first got a record, or 0."""
    if write.value not in facts.stood:
        return 0
    place, offset = facts.stood[write.value]
    return facts.partition(place).read_committed.get(offset, 0)


def aborted_reads(facts: Facts, transactions: Transactions) -> Iterator[Finding]:
    """6: committed readers get nothing aborted, refused, or not yet requested to commit."""
    for each in transactions.by_name.values():
        for write in each.writes:
            line = read_line(facts, write)
            if line and each.state in {"aborted", "open"}:
                yield Finding(
                    "aborted read", f"{write.value!r} of {each.name} ({each.state}), line {line}"
                )
            elif line and line < each.commit_line:
                yield Finding(
                    "dirty read",
                    f"{write.value!r} of {each.name} in line {line}; its commit was asked for "
                    f"in line {each.commit_line}",
                )
    for write in facts.writes.values():
        if write.is_refused and write.value in facts.stood and not write.acked_line:
            place, offset = facts.stood[write.value]
            yield Finding(
                "refused write was read", f"{write.value!r}, refused, is at {spot(place, offset)}"
            )


def torn(facts: Facts, transactions: Transactions) -> Iterator[Finding]:
    """7, 1: of a transaction everything or nothing is read; of a committed one, everything."""
    for each in transactions.by_name.values():
        if each.state not in {"committed", "unknown"}:
            continue
        read = [write for write in each.writes if read_line(facts, write)]
        if not read and each.state == "unknown":
            continue
        for write in each.writes:
            if not write.acked_line:
                continue
            for finding in lost(facts, write, committed=True):
                if read:
                    yield Finding(
                        "torn transaction",
                        f"{each.name}: {read[0].value!r} is read, {write.value!r} is not",
                    )
                else:
                    yield finding


def circular(_: Facts, transactions: Transactions) -> Iterator[Finding]:
    """8: no two transactions read each other's records (wr edges; ww cycles are allowed)."""
    waiting = {reader: set(read) for reader, read in transactions.reads.items()}
    readers: dict[str, set[str]] = defaultdict(set)
    for reader, read in waiting.items():
        for each in read:
            readers[each].add(reader)
    free = [each for each in readers if each not in waiting]
    while free:  # A node without dependencies is in no cycle.
        gone = free.pop()
        for reader in readers[gone]:
            waiting[reader].discard(gone)
            if not waiting[reader]:
                del waiting[reader]
                free.append(reader)
    if waiting:
        path = [min(waiting)]
        while path[-1] not in path[:-1]:
            path.append(min(each for each in waiting[path[-1]] if each in waiting))
        circle = path[path.index(path[-1]) :]
        yield Finding("circular information flow", " has read ".join(circle))


def hanging(_: Facts, transactions: Transactions) -> Iterator[Finding]:
    """9: the last stable offset is the log end when no transaction can be open any more."""
    for line, operation in transactions.hanging[:1]:
        value = operation.value
        yield Finding(
            "hanging transaction",
            f"{spot((value['topic'], value['partition']), None)} is stable up to "
            f"{value['stable']} of {value['latest']} in line {line}, and nothing is open",
        )


def zombies(_: Facts, transactions: Transactions) -> Iterator[Finding]:
    """10: nothing of an older epoch is accepted once a newer one was assigned."""
    for each, line, newest in transactions.zombies:
        yield Finding(
            "zombie not fenced",
            f"{each.name} of epoch {each.epoch} was answered in line {line}; "
            f"{each.transactional_id} was at {newest} when it asked",
        )
