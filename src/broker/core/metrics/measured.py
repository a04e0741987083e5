"""What a broker measures: the counters of Python code, and the pages that show everything."""

from typing import TYPE_CHECKING, NamedTuple

from broker.core.metrics.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.core.metrics.pages import Pages
    from broker.core.metrics.remote_ends import RemoteEnds


class MeasuredTls(NamedTuple):
    """What is measured of a listener with TLS.

    Attributes:
        expires: when its certificate does, as a Unix time.
        failures: handshakes that have failed.
    """

    expires: float
    failures: int


class Measured:
    """The metrics of one broker.

    Attributes:
        counters: of what Python code does.
        listeners_with_tls: returns what is measured of them, by their names.
        pages: None until the native side of the connections is made.
        remote_ends: of partitions that other brokers have; None where there are no others.
    """

    __slots__ = ("counters", "listeners_with_tls", "pages", "remote_ends")

    def __init__(self, remote_ends: "RemoteEnds | None" = None) -> None:
        """Begin at 0."""
        self.counters = Counters()
        self.listeners_with_tls: Callable[[], Mapping[str, MeasuredTls]] = dict
        self.pages: Pages | None = None
        self.remote_ends = remote_ends
