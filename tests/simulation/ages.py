"""What may be done because time has passed, by the true clocks and not by the shown time.

Every batch is stamped as it is appended; after a crash its stamp is found again by its position.
"""

from typing import NamedTuple

from broker.core.groups.settings import GroupSettings
from broker.core.transactions.commands import TransactionSettings
from broker.core.transactions.records import TopicPartition, TransactionImage, TransactionState
from tests.simulation.clock import MachineClock
from tests.simulation.logs import Disk
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import VirtualTime

OFFSETS_RETENTION_MS = GroupSettings().offsets_retention_ms
IDS_RETENTION_MS = TransactionSettings().expiration_ms


class Stamp(NamedTuple):
    """The time of a write."""

    now_ms: int  # by the clock that never steps
    true_ms: int


class Ages:
    """The rules of time."""

    def __init__(self, time: VirtualTime, machine: MachineClock, disk: Disk) -> None:
        self.started_ms = 0  # the last start of the broker
        self._time = time
        self._machine = machine
        self._disk = disk
        self._stamps: dict[tuple[TopicPartition, int], Stamp] = {}  # by the base offset of a batch
        self._written: dict[object, Stamp] = {}  # what is known of something, by its key
        self._began: dict[str, Stamp] = {}  # the transaction that a transactional id is in
        self._asked_ms: dict[str, int] = {}  # when the end of an id's transaction was asked for

    def stamp(self, place: TopicPartition, base_offset: int) -> Stamp:
        """Of a batch that was just appended."""
        stamp = Stamp(self._time.now_ms, self._machine.true_ms())
        self._stamps[place, base_offset] = stamp
        return stamp

    def stamp_of(self, place: TopicPartition, base_offset: int) -> Stamp:
        """Of a batch that was there before a crash."""
        return self._stamps[place, base_offset]

    # ---- expiry ----------------------------------------------------------------------------------

    def wrote(self, key: object, stamp: Stamp) -> None:
        """Note a record about a committed offset, a group or a transactional id."""
        self._written[key] = stamp

    def check_forgotten(self, key: object, retention_ms: int) -> None:
        """Check that what expired without a request is old enough.

        Half of its retention is tolerated for what no broker can know: a step is followed up to
        some minutes, and after a boot up to some hours count as time that the machine was off.
        """
        age_ms = self._machine.true_ms() - self._written[key].true_ms
        if age_ms < retention_ms // 2:
            raise Violation(f"{key} was forgotten when it was {age_ms} ms old")

    # ---- transactions ----------------------------------------------------------------------------

    def began(self, transactional_id: str, stamp: Stamp) -> None:
        """Note that a transaction is open from now on."""
        self._began[transactional_id] = stamp

    def asks_to_end(self, transactional_id: str) -> None:
        """Note that the end of an id's transaction was requested, or its id taken over."""
        self._asked_ms[transactional_id] = self._time.now_ms

    def check_timed_out(self, transactional_id: str, image: TransactionImage) -> None:
        """Check that an abort was requested or the timeout is over.

        A transaction that was loaded since it began continues by the wall clock, as far as that can
        be known.
        """
        began = self._began[transactional_id]
        if self._asked_ms.get(transactional_id, -1) >= began.now_ms:
            return
        is_loaded = began.now_ms <= max(self.started_ms, self._disk.last_fault_ms)
        age_ms = self._time.now_ms - began.now_ms
        if is_loaded:
            age_ms = self._machine.true_ms() - began.true_ms
        if age_ms < image.timeout_ms and not (is_loaded and self._machine.has_misled):
            raise Violation(f"{transactional_id} has timed out after {age_ms} ms: {image}")

    def undecided_ms(self, transactional_id: str, image: TransactionImage) -> int:
        """Return how long a transaction has been in a state that it has to leave."""
        is_open = image.state is TransactionState.ONGOING
        since = self._began[transactional_id] if is_open else self._written[transactional_id]
        return self._time.now_ms - since.now_ms
