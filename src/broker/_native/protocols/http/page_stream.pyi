from typing import Self, final

from broker._native.wire.connection import Wait
from broker.model.long_page import LongPage

@final
class PageStream(Wait):
    def __new__(cls, head: bytes, page: LongPage) -> Self: ...
