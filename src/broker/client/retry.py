"""How long something is tried again, and what a broker's refusal is raised as."""

import time
from collections.abc import Callable
from typing import TypeVar

from broker import codec
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ErrorCode, RequestError, Unreachable
from broker.model.limits import CLIENT_GIVE_UP_SECONDS, CLIENT_RETRY_SECONDS

_AnswerT = TypeVar("_AnswerT")


def check(code: int, what: str) -> None:
    """Raise a RequestError if a code of an answer is an error; `what` names address and object."""
    if code:
        error = codec.error_of(code)
        raise RequestError(ErrorCode[error.name], f"{what}: {error.message} ({error.name})")


def is_worth_another_try(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, RequestError):
        return codec.error_named(error.code.name).is_retriable
    return isinstance(error, Unreachable)


def patiently(
    ask: Callable[[], _AnswerT],
    *,
    give_up_seconds: float = CLIENT_GIVE_UP_SECONDS,
    final: frozenset[ErrorCode] = frozenset(),
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> _AnswerT:
    """Return what `ask` does, asking again until the time is over.

    Args:
        ask: raises Unreachable or RequestError when it fails.
        give_up_seconds: no try begins later than this.
        final: refusals that a wait does not mend, though Kafka calls them retriable.
        clock: tells how long it has taken.
        sleep: waits, for seconds.

    Raises:
        Unreachable, RequestError: the last failure, or the first that no wait mends.
    """
    clock = clock or SystemClock()
    end = clock.monotonic_ms() + give_up_seconds * 1000
    while True:
        try:
            return ask()
        except (RequestError, Unreachable) as error:
            is_final = isinstance(error, RequestError) and error.code in final
            if is_final or not is_worth_another_try(error) or clock.monotonic_ms() >= end:
                raise
        sleep(CLIENT_RETRY_SECONDS)
