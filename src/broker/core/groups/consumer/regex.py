"""Subscriptions by pattern: which topics a regular expression of a client matches, in slices.

A pattern must match a whole name; internal topics are only subscribed to by name (KIP-848). What is
no pattern matches nothing.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import TypeAlias

from broker.core.groups.consumer.subscriptions import SeenTopics
from broker.core.patterns import compiled
from broker.model.errors import RequestError
from broker.model.limits import REGEX_COMPILE_WORK

Matched: TypeAlias = Mapping[str, tuple[str, ...]]


class RegexJob:
    """The search for the topics that some patterns match."""

    def __init__(self, regexes: Iterable[str], topics: SeenTopics) -> None:
        """Begin; nothing has been looked at yet."""
        self.topics_version = topics.version
        self.regexes = frozenset(regexes)
        self.matched: Matched | None = None
        self.unreadable: dict[str, str] = {}  # what is no pattern here, and why
        self._work = _matching(sorted(self.regexes), topics, self.unreadable)

    def run(self, budget: int) -> bool:
        """Look at about so many names more; whether that was all."""
        while budget > 0 and self.matched is None:
            try:
                budget -= next(self._work)
            except StopIteration as end:
                self.matched = end.value
        return self.matched is not None


def _matching(
    regexes: list[str], topics: SeenTopics, unreadable: dict[str, str]
) -> Generator[int, None, Matched]:
    patterns = []
    for regex in regexes:
        try:
            patterns.append((regex, compiled(regex)))
        except RequestError as error:  # The log knows it: another engine, or release, let it in.
            unreadable[regex] = error.message
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
