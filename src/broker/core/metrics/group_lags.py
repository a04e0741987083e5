"""How far groups are behind, in partitions that are here and in those that others lead."""

from typing import TYPE_CHECKING, NamedTuple

from broker.core.metrics.time_lags import Place, TimeLags

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog
    from broker.core.metrics.remote_ends import RemoteEnds
    from broker.core.topics.topic import Topic


class Lag(NamedTuple):
    """The lag of a group in one partition.

    Attributes:
        records: the offsets from the committed one to the end of what may be read.
        kept: all that are kept up to there.
        time_ms: of the first record that is not committed; -1: not known, or there is none.
    """

    records: int
    kept: int
    time_ms: int


class GroupLags:
    """The lags that a page shows."""

    def __init__(self, remote_ends: "RemoteEnds | None") -> None:
        """Know nothing yet; `remote_ends` is None where there are no other brokers."""
        self._remote_ends = remote_ends
        self._time_lags = TimeLags()

    def begin(self) -> None:
        """Begin a page."""
        self._time_lags.begin()
        if self._remote_ends is not None:
            self._remote_ends.begin()

    def end(self) -> None:
        """End a page."""
        if self._remote_ends is not None:
            self._remote_ends.end()

    def of(self, place: Place, topic: "Topic", offset: int) -> Lag | None:
        """Return the lag of a group that has committed an offset, None if it is not known."""
        _, name, partition = place
        log: PartitionLog | None = topic.held_log(partition)  # type: ignore[assignment]
        if log is not None and not (log.is_loading or log.is_offline):
            lag, start = max(log.high_watermark - offset, 0), log.log_start_offset
            time_ms = self._time_lags.time_ms(place, log, offset) if lag else -1
            return Lag(lag, log.high_watermark - start, time_ms)
        known = None if self._remote_ends is None else self._remote_ends.find(name, partition)
        if known is None:
            return None
        lag = max(known.end - offset, 0)
        time_ms = known.times.time_ms(max(offset, known.start)) if lag else -1
        return Lag(lag, known.end - known.start, time_ms)
