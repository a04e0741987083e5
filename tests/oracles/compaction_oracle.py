"""The contents of a compacted log, in plain Python, by Kafka's documentation, KIP-98 and KIP-534.

A log is a list of batches: the header, and its records. Neither bytes nor a map of limited memory.
"""

from dataclasses import dataclass, replace

from tests.oracles.record_batch_oracle import CONTROL, Header, Record
from tests.oracles.records_oracle import LOG_APPEND_TIME

TRANSACTIONAL = 0x10
DELETE_HORIZON = 0x40
ABORT = b"\0\0\0\0"

Batch = tuple[Header, list[Record]]


@dataclass
class Pass:
    """One pass over a log: what is dirty, and the other parameters."""

    first_dirty: int
    end: int
    now_ms: int
    delete_retention_ms: int
    producer_ends: dict[int, tuple[int, int]]  # id → epoch, last offset
    aborted: list[tuple[int, int, int]]  # id, first offset, last offset

    def clean(self, log: list[Batch]) -> list[Batch]:
        """Return what remains of the log."""
        newest: dict[bytes, int] = {}
        for header, records in log:
            if header.attributes & CONTROL or self.is_aborted(header):
                continue
            for record in records:
                offset = header.base_offset + record.offset_delta
                if record.key is not None and self.first_dirty <= offset < self.end:
                    newest[record.key] = offset
        cleaned = (self.clean_batch(log, i, newest) for i in range(len(log)))
        return [batch for batch in cleaned if batch is not None]

    def is_aborted(self, header: Header) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
        last = header.base_offset + header.last_offset_delta
        return bool(header.attributes & TRANSACTIONAL) and any(
            producer == header.producer_id and first <= last <= end
            for producer, first, end in self.aborted
        )

    def clean_batch(self, log: list[Batch], place: int, newest: dict[bytes, int]) -> Batch | None:
        """Return what remains of a batch."""
        header, records = log[place]
        is_ended = header.attributes & DELETE_HORIZON and header.base_timestamp <= self.now_ms
        marks_nothing = False
        kept = records
        if header.attributes & CONTROL:
            marks_nothing = not self.has_records(log, place)
            kept = [] if marks_nothing and is_ended else records
        elif self.is_aborted(header):
            kept = []
        else:
            kept = [each for each in records if self.stays(header, each, newest, bool(is_ended))]
        has_tombstone = not header.attributes & CONTROL and any(
            each.value is None and header.base_offset + each.offset_delta < self.end
            for each in kept
        )
        if not kept:
            return self.emptied(header, records)
        needs_horizon = has_tombstone or marks_nothing
        if needs_horizon and not header.attributes & DELETE_HORIZON:
            return self.rewritten(header, kept, self.now_ms + self.delete_retention_ms)
        return (header, kept) if kept == records else self.rewritten(header, kept, None)

    def stays(
        self, header: Header, record: Record, newest: dict[bytes, int], is_ended: bool
    ) -> bool:
        """Return whether a data record is kept."""
        offset = header.base_offset + record.offset_delta
        if offset >= self.end:
            return True
        if record.key is None or (record.value is None and is_ended):
            return False
        return offset >= newest.get(record.key, -1)

    def has_records(self, log: list[Batch], place: int) -> bool:
        """Return whether the transaction that a marker ends has batches before it."""
        header = log[place][0]
        for other, _ in reversed(log[:place]):
            if other.producer_id == header.producer_id and other.attributes & TRANSACTIONAL:
                return not other.attributes & CONTROL
        return False

    def emptied(self, header: Header, records: list[Record]) -> Batch | None:
        """Return the header of an active producer's last batch, or nothing."""
        epoch, last = self.producer_ends.get(header.producer_id, (-1, -2))
        if header.attributes & CONTROL and last == -1:
            is_last = epoch == header.producer_epoch
        else:
            is_last = last == header.base_offset + header.last_offset_delta
        if header.producer_id < 0 or not is_last:
            return None
        if not records:
            return header, []
        attributes = header.attributes & ~(DELETE_HORIZON | 7)
        return replace(header, attributes=attributes, base_timestamp=-1, record_count=0), []

    def rewritten(self, header: Header, kept: list[Record], horizon: int | None) -> Batch:
        """Return a batch of fewer records, or of another base timestamp."""
        stamps = [header.base_timestamp + each.timestamp_delta for each in kept]
        base = header.base_timestamp if horizon is None else horizon
        is_append_time = header.attributes & LOG_APPEND_TIME
        is_data = not header.attributes & CONTROL
        return (
            replace(
                header,
                attributes=header.attributes | (0 if horizon is None else DELETE_HORIZON),
                base_timestamp=base,
                max_timestamp=(
                    max(stamps) if is_data and not is_append_time else header.max_timestamp
                ),
                record_count=len(kept),
            ),
            [
                each._replace(timestamp_delta=stamp - base)
                for each, stamp in zip(kept, stamps, strict=True)
            ],
        )
