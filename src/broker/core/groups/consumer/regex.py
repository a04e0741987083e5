"""Subscriptions by regular expression: the topics that patterns match, found in slices.

A pattern must match the whole name; internal topics can be subscribed to by name only (KIP-848). An
invalid pattern matches nothing. As in Kafka the member whose heartbeat has begun the search decides
which topics are seen, for all members with the same pattern.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TypeAlias

from broker.core.groups.consumer.subscriptions import TopicsView
from broker.model.errors import RequestError
from broker.model.limits import REGEX_COMPILE_WORK
from broker.model.patterns import compiled

Matched: TypeAlias = Mapping[str, tuple[str, ...]]


class RegexJob:
    """A search for the topics that some patterns match."""

    def __init__(
        self,
        regexes: Iterable[str],
        topics: TopicsView,
        may_describe: Callable[[str], bool] | None = None,
    ) -> None:
        """Begin a search; `run` continues it. Topics that `may_describe` denies do not match."""
        self.topics_version = topics.version
        self.regexes = frozenset(regexes)
        self.matched: Matched | None = None
        self.invalid_patterns: dict[str, str] = {}  # patterns that are not valid, with the reason
        self._work = _matching(sorted(self.regexes), topics, may_describe, self.invalid_patterns)

    def run(self, budget: int) -> bool:
        """Test about so many more names; return whether the search is complete."""
        while budget > 0 and self.matched is None:
            try:
                budget -= next(self._work)
            except StopIteration as end:
                self.matched = end.value
        return self.matched is not None


def _matching(
    regexes: list[str],
    topics: TopicsView,
    may_describe: Callable[[str], bool] | None,
    invalid_patterns: dict[str, str],
) -> Generator[int, None, Matched]:
    patterns = []
    for regex in regexes:
        try:
            patterns.append((regex, compiled(regex)))
        except RequestError as error:  # It is in the log: another engine, or release, accepted it.
            invalid_patterns[regex] = error.message
        yield REGEX_COMPILE_WORK
    found: dict[str, list[str]] = {regex: [] for regex in regexes}
    for name in sorted(topics.names()):
        topic = topics.get(name)
        if topic is None or topic.is_internal:
            continue
        is_seen: bool | None = None  # not asked yet
        for regex, matches in patterns:
            if matches(name):
                if is_seen is None:
                    is_seen = may_describe is None or may_describe(name)
                if is_seen:
                    found[regex].append(name)
            yield 1
    return {regex: tuple(names) for regex, names in found.items()}
