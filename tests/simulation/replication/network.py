"""The network between brokers, and from clients to brokers: one-way links between numbers."""

from collections.abc import Callable
from functools import partial
from random import Random

from tests.simulation.virtual_time import VirtualTime

CLIENTS = 0  # the sender or receiver that stands for all clients
_LATE_MS = (5, 300, 3_000, 9_000)


class Network:
    """Carries messages; the simulation turns faults on and off."""

    def __init__(self, rng: Random, time: VirtualTime) -> None:
        self.loss_rate = 0.0
        self.repeat_rate = 0.0
        self.cuts: set[tuple[int, int]] = set()  # sender, receiver
        self._last: dict[tuple[int, int], Callable[[], None]] = {}  # the last message of a link
        self._rng = rng
        self._time = time

    def send(self, link: tuple[int, int], deliver: Callable[[], None]) -> None:
        """Deliver a message: once, late, never, or again long after."""
        rng = self._rng
        self._last[link] = deliver
        if link in self.cuts or rng.random() < self.loss_rate:
            return
        self._time.after(self._delay_ms(), partial(self._arrive, link, deliver))
        if rng.random() < self.repeat_rate:
            self._time.after(rng.choice(_LATE_MS), partial(self._arrive, link, deliver))

    def repeat_last(self, sender: int) -> None:
        """Deliver the last messages of a sender once more, which were on the way when it ended."""
        for link, deliver in self._last.items():
            if link[0] == sender:
                self._time.after(self._rng.randrange(3_000), partial(self._arrive, link, deliver))

    def _arrive(self, link: tuple[int, int], deliver: Callable[[], None]) -> None:
        if link not in self.cuts:
            deliver()

    def _delay_ms(self) -> int:
        rng = self._rng
        return rng.randrange(250) if rng.random() < 0.03 else rng.randrange(1, 5)
