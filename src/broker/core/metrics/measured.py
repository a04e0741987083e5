"""What a broker measures: the counters of Python code, and the pages that show everything."""

from typing import TYPE_CHECKING

from broker.core.metrics.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.core.metrics.pages import Pages


class Measured:
    """The metrics of one broker.

    Attributes:
        counters: of what Python code does.
        certificates: returns when they expire, as Unix times, by the names of listeners.
        pages: None until the native side of the connections is made.
    """

    __slots__ = ("certificates", "counters", "pages")

    def __init__(self) -> None:
        """Begin at 0."""
        self.certificates: Callable[[], Mapping[str, float]] = dict
        self.counters = Counters()
        self.pages: Pages | None = None
