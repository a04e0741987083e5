"""Completion: what a shell may offer for a word, and the scripts that make it ask.

The shell runs `broker` with _BROKER_COMPLETE in its environment. Names of topics and groups come
from the broker; if none answers at once, nothing is offered.
"""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from broker.cli.connecting import connection_in
from broker.cli.nouns import COMPLETION
from broker.cli.profiles import read_profiles
from broker.model.errors import PolylogError

SHELLS: Final = ("bash", "zsh", "fish")
_TIMEOUT_SECONDS: Final = 1.0  # a person waits for a key
_OFFERED_MAX: Final = 1000

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def dynamic(names: Callable[[Any], Iterable[str]]) -> Completer:
    """Return a completer with the names that a function finds in a cluster."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            cluster = connection_in(ctx, _TIMEOUT_SECONDS).cluster()
            found = [each for each in names(cluster) if each.startswith(incomplete)]
        except PolylogError:
            return []
        return [CompletionItem(each) for each in sorted(found)[:_OFFERED_MAX]]

    return complete


def _topics(cluster: Any) -> Iterable[str]:  # noqa: ANN401 - a Cluster
    return list(cluster.existing_topics())


def _groups(cluster: Any) -> Iterable[str]:  # noqa: ANN401 - a Cluster
    from broker.client.groups import list_groups  # noqa: PLC0415 - only when it is completed

    return [each.group for each in list_groups(cluster)]


def _topic_settings(cluster: Any) -> Iterable[str]:  # noqa: ANN401 - a Cluster
    # Only when it is completed.
    from broker.client.configs import Kind, Resource, describe_configs  # noqa: PLC0415

    # All topics have the same.
    some = list(cluster.existing_topics())[:1]
    found = [describe_configs(cluster, Resource(Kind.TOPIC, each)) for each in some]
    return [f"{name}=" for names in found for name in names]


def _users(cluster: Any) -> Iterable[str]:  # noqa: ANN401 - a Cluster
    from broker.client.users import credentials  # noqa: PLC0415 - only when it is completed

    return list(credentials(cluster))


topics = dynamic(_topics)
groups = dynamic(_groups)
topic_settings = dynamic(_topic_settings)
user_names = dynamic(_users)


def profile_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a profile."""
    del ctx, param
    try:
        known = read_profiles().profiles
    except PolylogError:
        return []
    return [CompletionItem(each) for each in sorted(known) if each.startswith(incomplete)]


def script(shell: str) -> str:
    """Return the script that a shell reads to complete the commands `broker` and `polylog`."""
    kind = get_completion_class(shell)
    assert kind is not None, "one of SHELLS"
    texts = []
    for name in ("broker", "polylog"):
        source = kind(click.Command(name), {}, name, COMPLETION)
        texts.append(source.source_template % source.source_vars())
    return "\n".join(texts)


def complete(root: click.Group) -> int:
    """Answer a shell that asks what may follow; the variable says which shell."""
    shell, _, instruction = os.environ[COMPLETION].partition("_")
    kind = get_completion_class(shell)
    if kind is None or instruction != "complete":
        return 1
    print(kind(root, {}, "broker", COMPLETION).complete())
    sys.stdout.flush()
    return 0
