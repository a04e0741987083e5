"""What a broker measures: the counters of Python code, and the pages that show everything."""

from typing import TYPE_CHECKING

from broker.core.metrics.counters import Counters

if TYPE_CHECKING:
    from broker.core.metrics.pages import Pages


class Measured:
    """The metrics of one broker.

    Attributes:
        counters: of what Python code does.
        pages: None until the native side of the connections is made.
    """

    __slots__ = ("counters", "pages")

    def __init__(self) -> None:
        """Begin at 0."""
        self.counters = Counters()
        self.pages: Pages | None = None
