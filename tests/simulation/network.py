"""The network between clients and broker: requests are delayed, lost, repeated, and late."""

from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from tests.simulation.broker import SimulatedBroker
from tests.simulation.virtual_time import Answer, VirtualTime

# What the broker does for a request; its result is the response.
Request = Callable[[SimulatedBroker], Awaitable[Any]]


class Network:
    """Carries requests; the simulation turns faults on and off."""

    def __init__(self, rng: Random, time: VirtualTime, broker: SimulatedBroker) -> None:
        self.loss_rate = 0.0
        self.repeat_rate = 0.0
        self._rng = rng
        self._time = time
        self._broker = broker

    async def ask(
        self,
        request: Request,
        *,
        timeout_ms: int = 4_000,
        may_repeat: bool = True,
        comes_late: bool = True,
    ) -> Any:
        """Return the response; None if none arrived in time, whatever happened to the request.

        `comes_late`: a repeated request may arrive long after the first was answered.
        """
        answer = self._time.answer()
        delay_ms = self._delay_ms()
        self._time.after(delay_ms, lambda: self._deliver(request, answer))
        if may_repeat and self._rng.random() < self.repeat_rate:
            late_ms = self._rng.choice((5, 300, 3_000, 15_000)) if comes_late else delay_ms
            unheard = self._time.answer()
            self._time.after(late_ms, lambda: self._deliver(request, unheard))
        self._time.after(timeout_ms, lambda: answer.give(None))
        return await answer

    def _deliver(self, request: Request, answer: Answer[Any]) -> None:
        if not self._broker.is_up or self._rng.random() < self.loss_rate:
            self._time.after(self._delay_ms(), lambda: answer.give(None))
            return
        work = request(self._broker)
        answered = self._broker.spawn(work) if isinstance(work, Coroutine) else work
        assert isinstance(answered, Answer)
        answered.then(lambda response: self._bring_back(response, answer))

    def _bring_back(self, response: Any, answer: Answer[Any]) -> None:
        if self._rng.random() >= self.loss_rate:
            self._time.after(self._delay_ms(), lambda: answer.give(response))

    def _delay_ms(self) -> int:
        return self._rng.randrange(200) if self._rng.random() < 0.05 else self._rng.randrange(6)
