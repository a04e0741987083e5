"""The invariants, checked on the logs as they grow and on the responses to clients.

Nothing here asks the state machines. A record is judged when it is appended, by the records before
it; a response by what is still in the logs after a crash.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from broker.codec import records
from broker.core.groups.coordinator import RECORD_FORMAT as GROUPS
from broker.core.groups.records.classic import GroupImage, GroupRecord
from broker.core.groups.records.consumer import CurrentRecord
from broker.core.groups.records.offsets import CommittedOffset, OffsetRecord
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.core.transactions.coordinator import RECORD_FORMAT as TRANSACTIONS
from broker.core.transactions.records import (
    TopicPartition,
    TransactionImage,
    TransactionRecord,
    TransactionState,
)
from tests.simulation.ages import IDS_RETENTION_MS, OFFSETS_RETENTION_MS, Ages, Stamp
from tests.simulation.logs import Entry, SimulatedLog
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import VirtualTime

_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMPLETED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
# Within this time an undisturbed end completes: late syncs, retries, loads.
PATIENCE_MS = 10_000
CommitKey = tuple[str, str, int]


class Intent(NamedTuple):
    """The sender of a commit, by the id that it has as metadata."""

    group_id: str
    member_id: str
    generation: int | None  # None: it names no member


class Audit:
    """The rules of groups, offsets and transactions, over all logs."""

    def __init__(
        self, time: VirtualTime, logs: dict[TopicPartition, SimulatedLog], ages: Ages
    ) -> None:
        self.last_disturbance_ms = 0
        self.intents: dict[str, Intent] = {}
        self.groups: dict[str, GroupImage] = {}
        self.epochs: dict[tuple[str, str], int] = {}  # group and member of the consumer protocol
        self.committed: dict[CommitKey, CommittedOffset] = {}
        self.transactions: dict[str, TransactionImage] = {}
        self.dropped: set[str] = set()  # values lost in a power cut
        self.ages = ages
        self._time = time
        self._logs = logs
        self._batches: dict[tuple[TopicPartition, int], tuple[bytes, list[Any]]] = {}
        self._added: dict[
            tuple[int, TopicPartition], int
        ] = {}  # to whose open transaction, by which offset
        self._owners: dict[tuple[str, int, int], str] = {}  # group, generation, partition
        self._acked_commits: set[str] = set()
        self._acked_values: set[str] = set()
        self._acked_generations: dict[str, int] = {}
        self._acked_holders: dict[str, tuple[int, int]] = {}
        self._fenced: dict[int, int] = {}  # producer id → the lowest epoch that may write
        for log in logs.values():
            log.on_append = self.appended

    # ---- responses to clients -------------------------------------------------------------------

    def is_assigned(
        self, group_id: str, generation: int, owner: str, partitions: set[int], made_for: int
    ) -> None:
        """Note that a classic member has its assignment, made by its leader for a generation."""
        self._acked_generations[group_id] = max(
            generation, self._acked_generations.get(group_id, 0)
        )
        if partitions and made_for != generation:
            raise Violation(f"{owner} got in generation {generation} what was for {made_for}")
        for each in partitions:
            other = self._owners.setdefault((group_id, generation, each), owner)
            if other != owner:
                raise Violation(
                    f"{group_id}-{each} belongs to {other} and {owner} in generation {generation}"
                )

    def is_committed(self, commit_id: str) -> None:
        """Note that a commit was acknowledged."""
        self._acked_commits.add(commit_id)

    def is_produced(self, value: str) -> None:
        """Note that a record was acknowledged."""
        self._acked_values.add(value)

    def holds(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Note the id and epoch of a producer's next transaction: older ones are fenced."""
        self._acked_holders[transactional_id] = (producer_id, epoch)
        self._fenced[producer_id] = max(epoch, self._fenced.get(producer_id, 0))

    # ---- the logs --------------------------------------------------------------------------------

    def appended(self, log: SimulatedLog, entry: Entry) -> None:
        """Judge what was just appended, then add it to the expected state."""
        topic, _ = log.place
        stamp = self.ages.stamp(log.place, entry.base_offset)
        if topic == TRANSACTIONS_TOPIC:
            for record in self._decoded(log.place, entry):
                self._check_transaction(record)
                self._learn_transaction(record, entry.end_offset, stamp)
            return
        if entry.is_transactional and entry.commits is None:
            self._check_admitted(log, entry)
            if topic == OFFSETS_TOPIC:  # It ages from now on, if it is committed.
                for record in self._decoded(log.place, entry):
                    self.ages.wrote(record[:3], stamp)
        elif topic == OFFSETS_TOPIC and entry.commits is None:
            batch = self._decoded(log.place, entry)
            for record in batch:
                self._check_group(record, batch)
                self._learn_group(record, stamp)

    def _check_group(self, record: Any, batch: list[Any]) -> None:
        if isinstance(record, OffsetRecord):
            if record.committed is None:
                self.ages.check_forgotten(record[:3], OFFSETS_RETENTION_MS)
            else:
                self._check_commit(record, record.committed)
        elif isinstance(record, GroupRecord) and record.image is None:
            self._check_forgotten_group(record.group_id, batch)

    def _check_forgotten_group(self, group_id: str, batch: list[Any]) -> None:
        """Check a deleted group, unless it continues as one of the other protocol."""
        if sum(each.group_id == group_id for each in batch) == 1:
            self.ages.check_forgotten(group_id, OFFSETS_RETENTION_MS)
            self._acked_generations.pop(group_id, None)

    def _check_commit(self, record: OffsetRecord, committed: CommittedOffset) -> None:
        intent = self.intents[committed.metadata]
        group_id = record.group_id
        image = self.groups.get(group_id)
        current = self.epochs.get((group_id, intent.member_id))
        if current is None and image is not None and intent.member_id in image.members:
            current = image.generation
        if current != intent.generation:
            raise Violation(f"commit of {intent} was taken at {current}")
        key = (group_id, record.topic, record.partition)
        before = self.committed.get(key)
        if (
            before is not None
            and self.intents[before.metadata] != intent
            and committed.offset < before.offset
        ):
            raise Violation(f"committed offset of {key} went back from {before} to {committed}")

    def _check_admitted(self, log: SimulatedLog, entry: Entry) -> None:
        if entry.epoch < self._fenced.get(entry.producer_id, 0):
            raise Violation(f"{entry} of a fenced producer was appended to {log.place}")
        added = self._added.get((entry.producer_id, log.place))
        if added is None:
            raise Violation(f"{entry} in {log.place} belongs to no open transaction")

    def _check_transaction(self, record: TransactionRecord) -> None:
        transactional_id, image = record
        before = self.transactions.get(transactional_id)
        if image is None:
            self.ages.check_forgotten(transactional_id, IDS_RETENTION_MS)
            self._acked_holders.pop(transactional_id, None)
            return
        if before is None:
            return
        if image.state is TransactionState.PREPARE_ABORT:
            self.ages.check_timed_out(transactional_id, before)
        elif image.state is TransactionState.PREPARE_COMMIT:
            self._check_synced(transactional_id, before)
        elif image.state in _COMPLETED and before.state in _PREPARED:
            self._check_marked(transactional_id, before)

    def _check_synced(self, transactional_id: str, before: TransactionImage) -> None:
        for place in before.partitions:
            log = self._logs[place]
            open_since = log.open_transactions.get(before.producer_id, log.synced_end)
            for entry in log.entries:
                if entry.producer_id == before.producer_id and entry.end_offset > max(
                    open_since, log.synced_end
                ):
                    raise Violation(f"{transactional_id} was decided before {place} was synced")

    def _check_marked(self, transactional_id: str, before: TransactionImage) -> None:
        is_commit = before.state is TransactionState.PREPARE_COMMIT
        for place in before.partitions:
            log = self._logs[place]
            if not any(
                entry.commits is is_commit
                and (entry.producer_id, entry.epoch) == before[:2]
                and entry.end_offset <= log.synced_end
                for entry in log.entries
            ):
                raise Violation(f"{transactional_id} is complete without a marker in {place}")

    def _learn_transaction(self, record: TransactionRecord, end_offset: int, stamp: Stamp) -> None:
        transactional_id, image = record
        before = self.transactions.get(transactional_id)
        if image is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = image
        self.ages.wrote(transactional_id, stamp)
        if image.state is TransactionState.ONGOING:
            if before is None or before.state is not TransactionState.ONGOING:
                self.ages.began(transactional_id, stamp)
            for place in image.partitions:
                self._added.setdefault((image.producer_id, place), end_offset)
        else:
            for key in [each for each in self._added if each[0] == image.producer_id]:
                del self._added[key]

    def _learn_group(self, record: Any, stamp: Stamp) -> None:
        if isinstance(record, GroupRecord):
            if record.image is None:
                self.groups.pop(record.group_id, None)
            else:
                self.groups[record.group_id] = record.image
                self.ages.wrote(record.group_id, stamp)
        elif isinstance(record, CurrentRecord):
            key = (record.group_id, record.member_id)
            if record.current is None:
                self.epochs.pop(key, None)
            else:
                self.epochs[key] = record.current.epoch
        elif isinstance(record, OffsetRecord):
            place = (record.group_id, record.topic, record.partition)
            if record.committed is None:
                self.committed.pop(place, None)
            else:
                self.committed[place] = record.committed
                self.ages.wrote(place, stamp)

    # ---- crashes ---------------------------------------------------------------------------------

    def crashed(self, lost: dict[TopicPartition, list[Entry]]) -> None:
        """What is gone was promised to nobody."""
        for place, entries in lost.items():
            for entry in entries:
                self._check_lost(self._logs[place], entry)
        self.groups, self.epochs, self.committed = {}, {}, {}
        self.transactions, self._added = {}, {}
        kept: set[str] = set()  # the ids of commits
        for (topic, _), log in self._logs.items():
            for entry in log.entries:
                stamp = self.ages.stamp_of(log.place, entry.base_offset)
                if topic == TRANSACTIONS_TOPIC:
                    for record in self._decoded(log.place, entry):
                        self._learn_transaction(record, entry.end_offset, stamp)
                elif topic == OFFSETS_TOPIC and entry.commits is None:
                    kept.update(self._learn_again(log, entry, stamp))
        if not self._acked_commits <= kept:
            raise Violation(f"commits {self._acked_commits - kept} were acknowledged and are lost")
        self._check_promises()

    def _learn_again(self, log: SimulatedLog, entry: Entry, stamp: Stamp) -> Iterator[str]:
        """Return the content of a batch of groups, and the ids of the commits in it."""
        for record in self._decoded(log.place, entry):
            if isinstance(record, OffsetRecord) and record.committed is not None:
                yield record.committed.metadata
            if not entry.is_transactional:
                self._learn_group(record, stamp)

    def _decoded(self, place: TopicPartition, entry: Entry) -> list[Any]:
        """What a coordinator's batch says; after a crash it is not decoded again."""
        known, found = self._batches.get((place, entry.base_offset), (b"", []))
        if known is not entry.data:
            decode = TRANSACTIONS.decode if place[0] == TRANSACTIONS_TOPIC else GROUPS.decode
            stored = [each for each in records(entry.data) if each.key is not None]
            decoded = [decode(each.key, each.value) for each in stored]  # type: ignore[arg-type]
            found = [each for each in decoded if each is not None]
            self._batches[place, entry.base_offset] = (entry.data, found)
        return found

    def _check_lost(self, log: SimulatedLog, entry: Entry) -> None:
        if entry.value:
            self.dropped.add(entry.value)
            if entry.value in self._acked_values and not log.is_os:
                raise Violation(f"{entry} was acknowledged and is lost")

    def _check_promises(self) -> None:
        for group_id, generation in self._acked_generations.items():
            image = self.groups.get(group_id)
            if image is None or image.generation < generation:
                raise Violation(f"generation {generation} of {group_id} was told, and is {image}")
        for transactional_id, holder in self._acked_holders.items():
            known = self.transactions.get(transactional_id)
            if known is None or max(known[:2], (known.next_producer_id, 0)) < holder:
                raise Violation(f"{transactional_id} was told {holder}, and is {known}")

    # ---- time ------------------------------------------------------------------------------------

    def check_time(self) -> None:
        """Check that no transaction is open or unfinished for longer than allowed."""
        calm_ms = self._time.now_ms - self.last_disturbance_ms
        if calm_ms < PATIENCE_MS:
            return
        for transactional_id, image in self.transactions.items():
            may_take_ms = PATIENCE_MS
            if image.state is TransactionState.ONGOING:
                may_take_ms += image.timeout_ms
            elif image.state not in _PREPARED:
                continue
            if self.ages.undecided_ms(transactional_id, image) > may_take_ms:
                raise Violation(f"{transactional_id} is {image.state.value} for too long: {image}")

    def check_idle(self) -> None:
        """Check that nothing is open: readers of committed records read to the end."""
        for log in self._logs.values():
            if log.last_stable_offset != log.high_watermark:
                raise Violation(f"{log.place} has open transactions {log.open_transactions}")


def visible_values(log: SimulatedLog) -> list[str]:
    """Return the records that a committed reader gets, in log order."""
    pending: dict[int, list[Entry]] = {}
    found: list[Entry] = []
    for entry in log.entries:
        if entry.commits is not None:
            ended = pending.pop(entry.producer_id, [])
            found += ended if entry.commits else []
        elif entry.is_transactional:
            pending.setdefault(entry.producer_id, []).append(entry)
    return [each.value for each in sorted(found) if each.value]
