"""Which topics a verb means: names, or a regular expression that matches whole names."""

import re
from collections.abc import Sequence

from broker.cli.patterns import is_name, matcher
from broker.client.metadata import Cluster
from broker.client.topics import TopicState, topic_states
from broker.model.errors import ErrorCode, RequestError


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
    names = {each for each in patterns if is_name(each)}
    existing = topic_states(cluster, names if names and names == set(patterns) else None)
    chosen = {each: existing[each] for each in sorted(names & existing.keys())}
    missing = [each for each in patterns if each in names and each not in existing]
    expressions = [each for each in patterns if each not in names]
    matches = matcher(expressions)
    found = {
        name: each
        for name, each in existing.items()
        if (expressions or not patterns)
        and matches(name)
        and (with_internal or not each.is_internal)
    }
    missing += [] if found or not expressions else expressions
    if missing and not is_lenient:
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{cluster}: there is no topic {', '.join(missing)}",
        )
    return dict(sorted({**chosen, **found}.items()))


def one(cluster: Cluster, name: str) -> TopicState:
    """Return the topic of a name; RequestError if it does not exist."""
    return selected(cluster, [name if is_name(name) else re.escape(name)])[name]
