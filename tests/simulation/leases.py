"""How long a member may believe to have what it was given, when any answer to it may be lost."""

from tests.simulation.broker import SESSION_MS
from tests.simulation.violation import Violation


class Lease:
    """Until when the group surely thinks that one member lives and gives back in time.

    A group that has told a member to do something gives it one rebalance timeout, however often it
    tells it again (as Kafka does). The answer that told it first may be lost, so the member counts
    from its last request before that: the one whose answer left it nothing to do.
    """

    def __init__(self, rebalance_ms: int) -> None:
        self._rebalance_ms = rebalance_ms
        self._heard_ms = 0  # when the last request was sent that was answered well
        self._done_ms = 0  # likewise, of those before which no time was running

    def heard(self, sent_ms: int, *, is_told: bool) -> None:
        """A request was answered well.

        Args:
            sent_ms: when it was sent.
            is_told: whether the answer tells to do what an answer before it may have told too.
        """
        self._heard_ms = sent_ms
        if not is_told:
            self._done_ms = sent_ms

    def check_over(self, name: str, now_ms: int, loaded_ms: int) -> None:
        """The group has thrown the member out: it was not heard of, or did not give back.

        While a group is loaded nobody knows who is in it: until then answers say nothing.
        """
        if loaded_ms < self._heard_ms and now_ms < self.end_ms:
            raise Violation(f"{name} was thrown out {self.end_ms - now_ms} ms too early")

    @property
    def end_ms(self) -> int:
        """The last moment of it, in the simulation's time."""
        return min(self._heard_ms + SESSION_MS, self._done_ms + self._rebalance_ms)
