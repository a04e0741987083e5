"""How old the first record is that a group has not committed."""

from typing import TYPE_CHECKING, TypeAlias

from broker.core.metrics.limits import TIME_LOOKUPS_MAX

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog

Place: TypeAlias = tuple[str, str, int]  # group, topic, partition


class TimeLags:
    """The times of these records.

    A time is looked up in the headers of a log's batches, of which at most TIME_LOOKUPS_MAX times
    are for one page. It is kept until the group commits another offset. What was not looked up for
    that limit has the time of the page before: the lag is then at most what is shown. A time that
    was looked up is not looked up again before all others have had their turn.
    """

    __slots__ = ("_before", "_known", "_lookups", "_round", "_waits")

    def __init__(self) -> None:
        """Begin without times."""
        # The offset, its time and the round of its lookup; of the last page, and of this one.
        self._before: dict[Place, tuple[int, int, int]] = {}
        self._known: dict[Place, tuple[int, int, int]] = {}
        self._lookups = 0
        self._round = 0
        self._waits = False  # some time was not looked up for the limit

    def begin(self) -> None:
        """Begin a page; what the page before did not have is forgotten."""
        self._before, self._known, self._lookups = self._known, {}, 0
        if not self._waits:
            self._round += 1
        self._waits = False

    def time_ms(self, place: Place, log: "PartitionLog", offset: int) -> int:
        """Return the time of the record at an offset below the high watermark; -1: unknown."""
        offset = max(offset, log.log_start_offset)
        known = self._before.get(place)
        if known is None or (known[0] != offset and known[2] != self._round):
            if self._lookups < TIME_LOOKUPS_MAX:
                self._lookups += 1
                known = offset, log.time_at(offset), self._round
            else:
                self._waits = True
                if known is None:
                    return -1
        self._known[place] = known
        return known[1]
