"""Subscriptions by pattern: which topics a regular expression of a client matches, in slices.

The syntax is RE2's (KIP-848), and so is the engine: its time is linear in the name, whatever a
client writes, where Python's own takes for ever on `(a+)+$`. It is imported when the first pattern
comes. A pattern must match a whole name; internal topics are only subscribed to by name.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TypeAlias

from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import REGEX_BYTES_MAX, REGEX_COMPILE_WORK, REGEX_MEMORY_BYTES_MAX

Matches: TypeAlias = Callable[[str], object | None]
Matched: TypeAlias = Mapping[str, tuple[str, ...]]


def compiled(regex: str) -> Matches:
    """What says whether a pattern matches a name.

    Raises:
        RequestError: it is no pattern, or one that needs too much memory.
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


class RegexJob:
    """The search for the topics that some patterns match."""

    def __init__(self, regexes: Iterable[str], topics: SeenTopics) -> None:
        """Begin; nothing has been looked at yet."""
        self.topics_version = topics.version
        self.regexes = frozenset(regexes)
        self.matched: Matched | None = None
        self._work = _matching(sorted(self.regexes), topics)

    def run(self, budget: int) -> bool:
        """Look at about so many names more; whether that was all."""
        while budget > 0 and self.matched is None:
            try:
                budget -= next(self._work)
            except StopIteration as end:
                self.matched = end.value
        return self.matched is not None


def _matching(regexes: list[str], topics: SeenTopics) -> Generator[int, None, Matched]:
    patterns = []
    for regex in regexes:
        patterns.append((regex, compiled(regex)))
        yield REGEX_COMPILE_WORK
    found: dict[str, list[str]] = {regex: [] for regex in regexes}
    for name in sorted(topics.names()):
        topic = topics.get(name)
        if topic is None or topic.is_internal:
            continue
        for regex, matches in patterns:
            if matches(name):
                found[regex].append(name)
            yield 1
    return {regex: tuple(names) for regex, names in found.items()}
