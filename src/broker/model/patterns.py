"""Regular expressions from clients, matched in bounded time.

The syntax is RE2's (KIP-848, KIP-1152), and so is the engine: its time is linear in the length of
the name, where Python's own is exponential on `(a+)+$`. It is imported with the first pattern.
"""

from collections.abc import Callable
from typing import TypeAlias

from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import REGEX_BYTES_MAX, REGEX_MEMORY_BYTES_MAX

Matches: TypeAlias = Callable[[str], object | None]


def compiled(regex: str) -> Matches:
    """Return the match function of a pattern: it takes a name, and returns None for no match.

    Raises:
        RequestError: not a valid pattern, or one that needs too much memory.
    """
    import re2  # noqa: PLC0415 (a start does without)

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = REGEX_MEMORY_BYTES_MAX
    try:
        if len(regex.encode()) > REGEX_BYTES_MAX:
            raise ValueError(f"it is longer than {REGEX_BYTES_MAX} bytes")
        matches: Matches = re2.compile(regex, options).fullmatch
    except (re2.error, ValueError) as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise RequestError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"not a pattern of RE2: {text}"
        ) from None
    return matches
