"""Which records of a partition a reader of the original Cursus sees with read_committed.

Records of a transaction are stored when it is committed, and a marker ends it in each partition.
Markers take offsets and are no records of a client. A record without a marker behind it is decided
by the journal; one that nothing decides belongs to an open transaction, which ends with the server.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from broker.protocols.cursus.importing.directory import TimedRecord
from broker.protocols.cursus.importing.journal import COMMITTED, COMMITTING, Outcome
from broker.protocols.cursus.importing.stored import StoredRecord
from broker.protocols.importing.report import Damage

_COMMIT: Final = b"commit"
_ABORTED: Final = b"aborted"
_Key: TypeAlias = tuple[bytes, int]  # transactional id, epoch


class _Marker(NamedTuple):
    offset: int
    is_commit: bool


class Visibility:
    """The transactions of one partition."""

    def __init__(self, outcomes: Mapping[str, Outcome]) -> None:
        """Begin without markers."""
        self._outcomes = outcomes
        self._markers: dict[_Key, _Marker] = {}
        self.left_out = 0  # records of transactions that were aborted, or never ended

    def learn(self, records: Iterable[TimedRecord | Damage]) -> None:
        """Note the markers of the partition; the last one of a transaction counts."""
        for each in records:
            if isinstance(each, TimedRecord) and each.record.marker:
                record = each.record
                key = record.transactional_id, record.epoch
                self._markers[key] = _Marker(record.offset, record.marker == _COMMIT)

    def only(self, records: Iterable[TimedRecord | Damage]) -> Iterator[TimedRecord | Damage]:
        """Yield what is visible, and what is damaged."""
        for each in records:
            if isinstance(each, Damage):
                yield each
            elif not each.record.marker:
                if self._is_visible(each.record):
                    yield each
                else:
                    self.left_out += 1

    def _is_visible(self, record: StoredRecord) -> bool:
        if not record.transactional_id:
            return True
        if record.state == _ABORTED:
            return False
        marker = self._markers.get((record.transactional_id, record.epoch))
        if marker is not None and marker.offset > record.offset:
            return marker.is_commit
        if record.state == COMMITTED.encode():
            return True  # versions without markers say so in the record
        outcome = self._outcomes.get(record.transactional_id.decode("utf-8", "replace"))
        if outcome is None or outcome.epoch != record.epoch:
            return False
        return outcome.state in (COMMITTED, COMMITTING)
