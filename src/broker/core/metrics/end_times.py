"""When the records of a partition were made, as far as the ends it had at some times tell."""

from array import array
from bisect import bisect_right
from typing import Final

from broker.core.metrics.limits import END_TIMES_MAX

UNKNOWN: Final = -1
_FAR: Final = 2.5  # as long ago as that, times what is compared with
_LAST: Final = 2  # they are kept: an end that stays the same has a first and a last time


class EndTimes:
    """Offsets of one partition and their times, of which both grow; between them it is estimated.

    There are at most END_TIMES_MAX. When there are more, those go without which no two neighbours
    are far from each other, measured by how long ago they are: the past is known less exactly the
    older it is. Of three neighbours the outer two are far from each other: a month has about 30.
    """

    __slots__ = ("_offsets", "_times")

    def __init__(self) -> None:
        """Begin without any."""
        self._offsets = array("q")
        self._times = array("q")

    def add(self, offset: int, time_ms: int) -> None:
        """Note that an offset is of this time; what contradicts the others is left out."""
        offsets, times = self._offsets, self._times
        place = bisect_right(times, time_ms)
        if place and offsets[place - 1] > offset:
            return
        if place < len(offsets) and offsets[place] < offset:
            return
        if 1 < place == len(offsets) and offsets[place - 2] == offset:
            times[place - 1] = time_ms  # the end is still the same: its first and last time count
            return
        offsets.insert(place, offset)
        times.insert(place, time_ms)
        if len(offsets) > END_TIMES_MAX:
            self._thin_out()

    def _thin_out(self) -> None:
        """Keep the last ones, and from each that is kept on the oldest that is not far from it."""
        offsets, times = self._offsets, self._times
        last = times[-1]
        kept: list[int] = []
        for place in reversed(range(len(times))):
            if len(kept) > _LAST and last - times[place] <= _FAR * (last - times[kept[-2]]):
                kept[-1] = place
            else:
                kept.append(place)
        kept.reverse()
        self._offsets = array("q", [offsets[each] for each in kept])
        self._times = array("q", [times[each] for each in kept])

    def time_ms(self, offset: int) -> int:
        """Return about when the record at an offset was made; UNKNOWN before the first time."""
        offsets, times = self._offsets, self._times
        after = bisect_right(offsets, offset)
        if after == 0:
            return UNKNOWN
        before = after - 1
        if after == len(offsets):
            return times[before]
        share = (offset - offsets[before]) / (offsets[after] - offsets[before])
        return times[before] + int(share * (times[after] - times[before]))

    def __len__(self) -> int:
        """Return how many are known."""
        return len(self._offsets)
