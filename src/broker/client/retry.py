"""Retries of requests, and the mapping of error codes to exceptions."""

import time
from collections.abc import Callable
from typing import TypeVar

from broker import codec
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ErrorCode, RequestError, Unreachable
from broker.model.limits import CLIENT_GIVE_UP_SECONDS, CLIENT_RETRY_SECONDS

_AnswerT = TypeVar("_AnswerT")


def check(code: int, what: str) -> None:
    """Raise RequestError if a response's error code is not 0; `what` names address and object."""
    if code:
        error = codec.error_of(code)
        raise RequestError(ErrorCode[error.name], f"{what}: {error.message} ({error.name})")


def is_retriable(error: Exception) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, RequestError):
        return codec.error_named(error.code.name).is_retriable
    return isinstance(error, Unreachable)


def with_retries(
    ask: Callable[[], _AnswerT],
    *,
    give_up_seconds: float = CLIENT_GIVE_UP_SECONDS,
    final: frozenset[ErrorCode] = frozenset(),
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> _AnswerT:
    """Return the result of `ask`, which is called again after retriable errors.

    Args:
        ask: raises Unreachable or RequestError when it fails.
        give_up_seconds: after this time no retry is started.
        final: error codes that are not retried, although Kafka calls them retriable.
        clock: measures the time.
        sleep: waits for seconds.

    Raises:
        Unreachable, RequestError: the last error, or the first that is not retriable.
    """
    clock = clock or SystemClock()
    end = clock.monotonic_ms() + give_up_seconds * 1000
    while True:
        try:
            return ask()
        except (RequestError, Unreachable) as error:
            is_final = isinstance(error, RequestError) and error.code in final
            if is_final or not is_retriable(error) or clock.monotonic_ms() >= end:
                raise
        sleep(CLIENT_RETRY_SECONDS)
