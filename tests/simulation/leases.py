"""How long a member may believe to own its assignment, if any response may be lost."""

from tests.simulation.broker import SESSION_MS
from tests.simulation.violation import Violation


class Lease:
    """Until when the group certainly considers a member live and revoking in time.

    A group that has told a member to do something gives it one rebalance timeout, however often it
    repeats it (as Kafka does). The response that said so first may be lost, so the member counts
    from its last earlier request: the one whose response requested nothing.
    """

    def __init__(self, rebalance_ms: int) -> None:
        self._rebalance_ms = rebalance_ms
        self._heard_ms = 0  # the time of the last successful request
        self._done_ms = 0  # likewise, of those with no timeout running

    def heard(self, sent_ms: int, *, is_told: bool) -> None:
        """Note a successful request.

        Args:
            sent_ms: when it was sent.
            is_told: whether the response asks for what an earlier, lost one may have asked for.
        """
        self._heard_ms = sent_ms
        if not is_told:
            self._done_ms = sent_ms

    def check_over(self, name: str, now_ms: int, loaded_ms: int) -> None:
        """End the lease: the member was fenced for silence or for not revoking.

        While a group is loaded nobody knows its members: until then responses mean nothing.
        """
        if loaded_ms < self._heard_ms and now_ms < self.end_ms:
            raise Violation(f"{name} was thrown out {self.end_ms - now_ms} ms too early")

    @property
    def end_ms(self) -> int:
        """Return its end in simulated time."""
        return min(self._heard_ms + SESSION_MS, self._done_ms + self._rebalance_ms)
