"""Open transactions in logs that no coordinator knows: aborted, lest readers wait for ever.

A partition's addition is durable before its first append, so there are none, unless somebody took
`__transaction_state` away or an older broker left them. They can be told once every transactional
id is known, and a log's own state is recovered (kafka.md 2.9: the last stable offset is never stuck
after a crash).
"""

import logging
from collections.abc import Callable

from broker.codec.control_records import Marker
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import Place
from broker.model import limits
from broker.model.errors import ErrorCode

logger = logging.getLogger(__name__)


class Orphans:
    """What recovered logs have open, until it is known whose it is."""

    def __init__(self, markers: Markers) -> None:
        """Suspect nothing."""
        self._markers = markers
        self._suspects: list[Place] = []
        self._failed: list[Place] = []

    def suspect(self, place: Place) -> None:
        """A recovered log has open transactions."""
        self._suspects.append(place)

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
        self._suspects, self._failed = self._suspects + self._failed, []

    def abort_some(self, is_known: Callable[[int, Place], bool], epoch: int) -> None:
        """Look at the next logs, and abort in them what nobody knows."""
        taken = self._suspects[: limits.MARKERS_PER_TURN]
        del self._suspects[: limits.MARKERS_PER_TURN]
        for place in taken:
            log = self._markers.find_log(place)
            if log is None or log.is_loading:
                continue
            for producer_id, producer_epoch, _, _, _, first_offset in log.active_producers:
                if first_offset >= 0 and not is_known(producer_id, place):
                    self._abort(place, Marker(producer_id, producer_epoch, False, epoch))

    def _abort(self, place: Place, marker: Marker) -> None:
        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._failed.append(place)
            logger.info(
                "transaction abort topic=%s partition=%d producer_id=%d epoch=%d outcome=%s"
                " reason=no coordinator knows of it",
                *place,
                marker.producer_id,
                marker.producer_epoch,
                error.value,
            )

        self._markers.write(place, marker, self._markers.batch(marker), written)
