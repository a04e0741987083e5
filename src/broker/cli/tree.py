"""The whole tree of commands, for completion, documents and tests."""

from collections.abc import Iterator
from importlib import import_module

import click

from broker.cli.frame import Noun, Verb
from broker.cli.nouns import NOUNS, module_of


class _Root(click.Group):
    """The command `broker`, whose nouns are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted([*NOUNS, "start"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name in NOUNS:
            return noun(cmd_name)
        return click.Command(cmd_name) if cmd_name == "start" else None


def root() -> click.Group:
    """Return the command `broker`."""
    return _Root("broker")


def noun(name: str) -> Noun | Verb:
    """Import a noun, or a command that is one word."""
    found: Noun | Verb = import_module(module_of(name)).NOUN
    return found


def verbs() -> Iterator[tuple[str, Verb]]:
    """Yield all verbs with their names, such as `topic list` and `version`."""
    for name in sorted(NOUNS):
        group = noun(name)
        if isinstance(group, Verb):
            yield name, group
            continue
        context = click.Context(group, info_name=f"broker {name}")
        for each in group.list_commands(context):
            command = group.get_command(context, each)
            assert isinstance(command, Verb), each
            yield f"{name} {each}", command
