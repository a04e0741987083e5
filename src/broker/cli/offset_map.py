"""Which offset a record has here that had another one there: runs that were moved together."""

from bisect import bisect_right


class OffsetMap:
    """Of one partition; records come in the order in which they are written."""

    def __init__(self) -> None:
        """Begin without records: everything is at 0."""
        self._sources: list[int] = []  # where runs begin there, rising
        self._targets: list[int] = []  # and here
        self._lengths: list[int] = []
        self._next_source = 0
        self.count = 0

    def add(self, source: int) -> bool:
        """Take in the next record; False when its offset is not above those before it."""
        target = self.count
        self.count += 1
        if self._sources and source < self._next_source:
            return False  # It is here, but nobody can mean it by its offset.
        if not self._sources or source != self._next_source or self._run_end() != target:
            self._sources.append(source)
            self._targets.append(target)
            self._lengths.append(0)
        self._lengths[-1] += 1
        self._next_source = source + 1
        return True

    @property
    def is_same(self) -> bool:
        """Whether every record has the offset here that it had there."""
        return not self.count or (self._sources == [0] and self._lengths == [self.count])

    @property
    def first_source(self) -> int | None:
        """The offset of the first record there; None without records."""
        return self._sources[0] if self._sources else None

    def translate(self, offset: int) -> int:
        """The next offset to read here, of one there: the same records are behind it."""
        place = bisect_right(self._sources, offset) - 1
        if place < 0:
            return 0
        return self._targets[place] + min(offset - self._sources[place], self._lengths[place])

    def _run_end(self) -> int:
        return self._targets[-1] + self._lengths[-1]
