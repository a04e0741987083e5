"""Transactions after a start whose coordinator has finished: atomic, and as acknowledged."""

from collections.abc import Iterator
from enum import Enum

from broker._native.log.partition_log import PartitionLog
from tests.crash_states.broker_run import BrokerRun, place_of
from tests.crash_states.expected_state import ExpectedState, Place, Transaction
from tests.crash_states.finding import TRANSACTION, Finding


class Fate(Enum):
    """The outcome of a batch."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    MISSING = "missing"


def check_transactions(
    broker: BrokerRun, expected: ExpectedState, ends: dict[Place, int]
) -> Iterator[Finding]:
    """Every transaction is committed everywhere or nowhere; `ends` are the recovered log ends."""
    logs = {place_of(log): (log, ends[place_of(log)]) for _, log in broker.logs()}
    for transactional_id, found in expected.transactions.items():
        for number, each in enumerate(found):
            fates = _fates(logs, each)
            problem = _problem(each, fates)
            if problem is not None:
                names = sorted(fate.value for fate in fates)
                yield Finding(TRANSACTION, f"{transactional_id}, {number}: {problem}: {names}")


def _fates(logs: dict[Place, tuple[PartitionLog, int]], transaction: Transaction) -> set[Fate]:
    """Return the outcomes of its batches, except those deleted."""
    return {
        _fate(*logs[place], transaction.producer_id, base)
        for place, base, _ in transaction.sent
        if place in logs
        and logs[place][0].is_in_service
        and base >= logs[place][0].log_start_offset
    }


def _fate(log: PartitionLog, end: int, producer_id: int, base: int) -> Fate:
    if base >= end:
        return Fate.MISSING
    if log.open_transactions.get(producer_id, log.log_end_offset) <= base:
        return Fate.OPEN
    for aborted_id, first, last in log.aborted_transactions(base, base + 1):
        if aborted_id == producer_id and first <= base <= last:
            return Fate.ABORTED
    return Fate.COMMITTED


def _problem(transaction: Transaction, fates: set[Fate]) -> str | None:
    is_committed = Fate.COMMITTED in fates
    if is_committed and not transaction.asked:
        return "nobody has committed it"
    if is_committed and len(fates) > 1:
        return "a part of it is committed"
    if transaction.is_told and transaction.asked and fates - {Fate.COMMITTED}:
        return "its commit was acknowledged"
    if transaction.is_over and Fate.OPEN in fates:
        return "it has ended, and is open"
    if Fate.OPEN in fates and len(fates - {Fate.MISSING}) > 1:
        return "a part of it has ended"
    return None
