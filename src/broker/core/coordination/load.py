"""Loading a coordinator partition: its log is read in steps and replayed into its state machine.

A record that cannot be read is skipped and the load continues: one bad record is no reason to
refuse every other group or transactional id of its partition. Each load writes one ERROR line with
the count, the first offsets and the first reason. The bytes stay in the log until compaction
removes them. Clients cannot write such records (polylog.internal.topics.writable); a later version
of the broker can, and so can a disk.

    a key of an unknown type        skipped without a line, as in Kafka: a later version wrote it
    an unreadable or missing key    lost: its content is unknown
    a value in __consumer_offsets   lost: the previous record of the same key counts. A consumer
                                    reads again from its last readable offset; members join or
                                    sync again
    a value in __transaction_state  lost, and the id is forgotten: its next producer gets another
                                    producer id, and earlier ones are refused. With the previous
                                    record, epochs would be given out a second time
    a batch: CRC, compression       each of its offsets is lost
    a marker                        the offsets that it decides are not committed: records are
                                    consumed again
    a damaged range of the log      each of its offsets is lost when a second load meets it: `_read`

Nothing is lost where a later record of the same key can be read: each record is complete. What a
lost record of __transaction_state means for transactions that are still open in other logs is in
transactions/hanging_transactions.py. How Kafka differs, and why, is in
docs/decisions/0011-unreadable-coordinator-records-are-skipped.md.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from broker.codec import BatchHeader, records, scan_headers
from broker.codec.control_records import decode_marker, is_control, is_transactional
from broker.core.coordination.machine import Machine, RecordFormat
from broker.core.logs.log import InternalLog
from broker.model import limits
from broker.model.errors import CodecError, StorageError

RecordT = TypeVar("RecordT")


class LostRecords(NamedTuple):
    """The records that a load could not read.

    Attributes:
        total: how many they are.
        offsets: the first of them; one for each batch that could not be read.
        reason: why the first could not be read.
    """

    total: int = 0
    offsets: tuple[int, ...] = ()
    reason: str = ""

    def and_more(self, count: int, offset: int, reason: str) -> "LostRecords":
        """Return these, and `count` others from an offset on."""
        return LostRecords(
            self.total + count,
            (*self.offsets, offset)[: limits.LOST_OFFSETS_SHOWN],
            self.reason or reason,
        )


class CoordinatorLoad(Generic[RecordT]):
    """One load: a log up to its end offset at the beginning of the load."""

    def __init__(
        self,
        log: InternalLog,
        machine: Machine[RecordT],
        record_format: RecordFormat[RecordT],
        known_damages: set[tuple[int, int]],
    ) -> None:
        """Begin at the start of the log.

        `known_damages`: ranges of offsets that an earlier load of this log found damaged. A load
        skips those, and fails at others, which it adds to the set.
        """
        self._log = log
        self._machine = machine
        self._format = record_format
        self._known_damages = known_damages
        self.next_offset = log.log_start_offset
        # What was appended before a failure may still become durable, and counts then.
        self.end_offset = log.log_end_offset
        self.lost = LostRecords()
        self._replaying: Iterator[None] | None = None  # what was read and is not all replayed yet

    @property
    def is_done(self) -> bool:
        """Whether the end has been reached."""
        return self.next_offset >= self.end_offset

    def step(self) -> bool:
        """Replay the next part of the log; False when the next record is not durable yet.

        Raises:
            StorageError: the log is offline, or new damage was found and is being measured.
            IndexError: the log start offset has moved past the next record.
        """
        if self._replaying is None:
            data = self._read()
            if data is None:
                return True
            if not data:
                if self._log.high_watermark < self.end_offset:
                    return False
                self._lose(self.next_offset, self.end_offset, "a file has lost what was synced")
                return True
            self._replaying = self._replay_all(data)
        for _ in islice(self._replaying, limits.LOAD_RECORDS_PER_STEP):
            pass
        return True

    def _read(self) -> bytes | None:
        """Read the next batches; None when they are damaged and have been skipped.

        A log that meets damage first refuses the rest of the segment, then determines how much of
        it is damaged. So the first load to meet it fails, and the next one, later, continues.
        """
        try:
            return self._log.read(self.next_offset, limits.LOAD_BYTES_PER_STEP)
        except StorageError:
            ranges = self._log.damaged_ranges
            damage = next((each for each in ranges if each[0] <= self.next_offset < each[1]), None)
            if self._log.is_offline or damage is None:
                raise
            if damage not in self._known_damages:
                self._known_damages.add(damage)
                raise
        self._lose(self.next_offset, min(damage[1], self.end_offset), "damaged on the disk")
        return None

    # ---- replay ----------------------------------------------------------------------------------

    def _replay_all(self, data: bytes) -> Iterator[None]:
        """Replay what was read, record by record."""
        headers = scan_headers(data)
        pending = self._machine.pending
        replayed = self.next_offset - 1  # up to this offset
        if pending is None or not any(map(is_transactional, headers)):
            try:
                # Decode many batches in one call: most batches of such a log are small.
                for stored in records(data):
                    self._replay(stored.offset, stored.key, stored.value, self._machine.replay)
                    replayed = stored.offset
                    yield
            except CodecError:
                pass  # batch by batch below: the other batches are readable
            else:
                replayed = headers[-1].last_offset
        for header in headers:
            if header.last_offset > replayed:
                batch = data[header.position : header.position + header.size]
                yield from self._replay_batch(header, batch, replayed)
        # Not the offset after the last record: compaction leaves gaps, and empty batches.
        self.next_offset = headers[-1].last_offset + 1
        self._replaying = None

    def _replay_batch(self, header: BatchHeader, batch: bytes, replayed: int) -> Iterator[None]:
        pending, replay = self._machine.pending, self._machine.replay
        if pending is not None and is_transactional(header):
            if is_control(header):
                self._end_transaction(header, batch)
                return
            replay = partial(pending.replay_pending, header.producer_id)
        try:
            for stored in records(batch):
                if stored.offset > replayed:
                    self._replay(stored.offset, stored.key, stored.value, replay)
                    yield
        except CodecError as error:
            count = header.last_offset + 1 - header.base_offset
            self.lost = self.lost.and_more(count, header.base_offset, str(error))

    def _end_transaction(self, header: BatchHeader, batch: bytes) -> None:
        pending = self._machine.pending
        if pending is None or not header.record_count:
            return
        try:
            marker = decode_marker(batch)
        except CodecError as error:
            self.lost = self.lost.and_more(1, header.base_offset, str(error))
            # Its transaction counts as ended. What it may have committed is consumed again.
            pending.end_transaction(header.producer_id, is_committed=False)
            return
        if marker is not None:
            pending.end_transaction(marker.producer_id, is_committed=marker.is_committed)

    def _replay(
        self,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        replay: Callable[[RecordT], None],
    ) -> None:
        try:
            if key is None:
                raise CodecError("a record without a key")
            record = self._format.decode(key, value)
            if record is not None:
                replay(record)
        except CodecError as error:  # also from inside a record, which the machine decodes
            self.lost = self.lost.and_more(1, offset, str(error))
            instead = None if key is None else self._format.without_value(key)
            if instead is not None:
                replay(instead)

    def _lose(self, offset: int, end_offset: int, reason: str) -> None:
        """Continue after a range of offsets."""
        self.lost = self.lost.and_more(end_offset - offset, offset, reason)
        self.next_offset = end_offset
