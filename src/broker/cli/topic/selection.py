"""Which topics a verb means: names, or a regular expression that matches whole names."""

import re
from collections.abc import Collection, Sequence

from broker.client.metadata import Cluster
from broker.client.topics import TopicState, topic_states
from broker.model.errors import ConfigError, ErrorCode, RequestError

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def selected(
    cluster: Cluster,
    patterns: Sequence[str],
    *,
    with_internal: bool = False,
    is_lenient: bool = False,
) -> dict[str, TopicState]:
    """Return the topics that exist and that names or regular expressions select.

    Args:
        cluster: the cluster.
        patterns: a name, or a regular expression for a whole name; none: all topics.
        with_internal: expressions select internal topics, too; names always do.
        is_lenient: names of topics that do not exist are left out.

    Raises:
        ConfigError: an expression is invalid.
        RequestError: a topic does not exist, or a broker refuses.
    """
    names = {each for each in patterns if _NAME.fullmatch(each)}
    existing = topic_states(cluster, names if names and names == set(patterns) else None)
    chosen = {each: existing[each] for each in sorted(names & existing.keys())}
    missing = [each for each in patterns if each in names and each not in existing]
    expressions = [each for each in patterns if each not in names]
    found = _matching(existing.values(), expressions if patterns else [".*"], with_internal)
    missing += [] if found or not expressions else expressions
    if missing and not is_lenient:
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{cluster}: there is no topic {', '.join(missing)}: `broker topic list` shows those"
            " that exist",
        )
    return dict(sorted({**chosen, **found}.items()))


def one(cluster: Cluster, name: str) -> TopicState:
    """Return the topic of a name; RequestError if it does not exist."""
    return selected(cluster, [re.escape(name) if not _NAME.fullmatch(name) else name])[name]


def _matching(
    topics: Collection[TopicState],
    expressions: Sequence[str],
    with_internal: bool,  # noqa: FBT001
) -> dict[str, TopicState]:
    try:
        compiled = [re.compile(each) for each in expressions]
    except re.error as error:
        raise ConfigError(f"{error.pattern!r}: not a regular expression: {error}") from None
    return {
        each.name: each
        for each in topics
        if any(pattern.fullmatch(each.name) for pattern in compiled)
        and (with_internal or not each.is_internal)
    }
