"""The thread of logins: what takes milliseconds per login is not computed on the loop."""

from asyncio import get_running_loop
from concurrent.futures import ThreadPoolExecutor

from broker.core.security.sasl.outcome import Outcome, Refused, Step, Work
from broker.model.sasl_limits import LOGIN_WORK_WAITING_MAX


class LoginWork:
    """Derives keys and checks signatures, one after another, outside of the loop."""

    def __init__(self, waiting_max: int = LOGIN_WORK_WAITING_MAX) -> None:
        """Start without work; the thread starts with the first."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="broker-login")
        self._waiting = 0
        self._waiting_max = waiting_max

    async def outcome(self, step: Step) -> Outcome:
        """Return a step's outcome, computed if it is Work; refused if too much work waits."""
        if not isinstance(step, Work):
            return step
        if self._waiting >= self._waiting_max:
            return Refused("too many logins wait")
        self._waiting += 1
        try:
            return await get_running_loop().run_in_executor(self._executor, step.run)
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """Drop the work that has not begun, and end the thread."""
        self._executor.shutdown(cancel_futures=True)
