from typing import Self, final

from broker._native.log.segment_file import SegmentFile

@final
class Segment(SegmentFile):
    def __new__(cls, *_: object) -> Self: ...
    @property
    def size(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
