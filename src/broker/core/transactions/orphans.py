"""Open transactions in logs that no coordinator knows: aborted, lest readers wait for ever.

A partition's addition is durable before its first append, so there are none, unless somebody took
`__transaction_state` away or an older broker left them. They can be told once every transactional
id is known, and a log's own state is recovered (kafka.md 2.9: the last stable offset is never stuck
after a crash).
"""

from collections.abc import Callable

from broker.codec.control_records import Marker
from broker.core.notes import Notes
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import Place
from broker.model import limits
from broker.model.errors import ErrorCode

_EPOCH_MIN = 0


class Orphans:
    """What recovered logs have open, until it is known whose it is."""

    def __init__(self, markers: Markers, notes: Notes) -> None:
        """Suspect nothing."""
        self._markers = markers
        self._notes = notes
        # Each place once, in the order in which they came, with the producers that are still to be
        # looked at; None: all.
        self._suspects: dict[Place, tuple[int, ...] | None] = {}
        self._failed: dict[Place, None] = {}

    def suspect(self, place: Place) -> None:
        """A recovered log has open transactions."""
        self._suspects[place] = None

    @property
    def has_suspects(self) -> bool:
        """Whether there are logs to look at."""
        return bool(self._suspects)

    @property
    def wants_retry(self) -> bool:
        """Whether there are logs in which an abort could not be written."""
        return bool(self._failed)

    def retry(self) -> None:
        """Look at those again."""
        self._suspects |= self._failed
        self._failed = {}

    def abort_some(self, is_known: Callable[[int, Place], bool], epoch: int) -> None:
        """Look at the next open transactions, and abort those that nobody knows."""
        room = limits.MARKERS_PER_TURN
        while self._suspects and room > 0:
            place = next(iter(self._suspects))
            left = self._suspects.pop(place)
            log = self._markers.find_log(place)
            if log is None or log.is_loading:
                room -= 1
                continue
            still_open = log.open_transactions
            producers = tuple(still_open) if left is None else left
            for producer_id in producers[:room]:
                if producer_id in still_open and not is_known(producer_id, place):
                    known = log.active_producer(producer_id)
                    # Of one that a full log could not remember, an epoch that fences no other.
                    producer_epoch = _EPOCH_MIN if known is None else known[1]
                    self._abort(place, Marker(producer_id, producer_epoch, False, epoch))
            if len(producers) > room:
                self._suspects[place] = producers[room:]
            room -= max(1, len(producers))

    def _abort(self, place: Place, marker: Marker) -> None:
        topic, partition = place

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._failed[place] = None
            line = (
                f"transaction abort topic={topic} partition={partition}"
                f" producer_id={marker.producer_id} epoch={marker.producer_epoch}"
                f" outcome={error.value} reason=no coordinator knows of it"
            )
            self._notes.log([line])

        self._markers.write(place, marker, self._markers.batch(marker), written)
