"""A map from offsets in the imported log to offsets here, as runs of consecutive records."""

from bisect import bisect_right


class OffsetMap:
    """The map of one partition; records are added in the order in which they are written."""

    def __init__(self) -> None:
        """Start without records: every offset maps to 0."""
        self._sources: list[int] = []  # first imported offset of each run, ascending
        self._targets: list[int] = []  # its offset here
        self._lengths: list[int] = []
        self._next_source = 0
        self.count = 0

    def add(self, source: int) -> bool:
        """Add the next record; return False if its offset is not above those before it."""
        target = self.count
        self.count += 1
        if self._sources and source < self._next_source:
            return False  # the record is written, but no imported offset maps to it
        if not self._sources or source != self._next_source or self._run_end() != target:
            self._sources.append(source)
            self._targets.append(target)
            self._lengths.append(0)
        self._lengths[-1] += 1
        self._next_source = source + 1
        return True

    @property
    def is_same(self) -> bool:
        """Return whether every record has its imported offset."""
        return not self.count or (self._sources == [0] and self._lengths == [self.count])

    @property
    def first_source(self) -> int | None:
        """Return the imported offset of the first record, None without records."""
        return self._sources[0] if self._sources else None

    def translate(self, offset: int) -> int:
        """Return the next offset to read here for one of the imported log.

        The same records follow it.
        """
        run = bisect_right(self._sources, offset) - 1
        if run < 0:
            return 0
        return self._targets[run] + min(offset - self._sources[run], self._lengths[run])

    def _run_end(self) -> int:
        return self._targets[-1] + self._lengths[-1]
