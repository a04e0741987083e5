"""`broker generate completion`."""

from typing import NamedTuple

import click

from broker.cli.completion import SHELLS, script
from broker.cli.frame import Session, verb


class Script(NamedTuple):
    """The script.

    Attributes:
        shell: the shell that reads it.
        script: its text.
    """

    shell: str
    script: str


@verb(
    Script,
    is_single=True,
    is_local=True,
    examples=(
        "broker generate completion bash > ~/.local/share/bash-completion/completions/broker",
        "broker generate completion fish > ~/.config/fish/completions/broker.fish",
        'eval "$(broker generate completion zsh)"',
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(session: Session, shell: str) -> None:
    """Print the script with which a shell completes commands, options, topics and groups."""
    session.print_text(Script(shell, script(shell)), "script")
