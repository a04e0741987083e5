"""The question before something is destroyed: its name must be typed, or --yes be given."""

import sys
from collections.abc import Sequence

from broker.model.errors import ConfigError


def confirm(what: Sequence[str], names: Sequence[str], *, is_confirmed: bool) -> None:
    """Return if a person has typed the name of what will go, or their number if there are several.

    Args:
        what: lines that say what will go.
        names: of what will go.
        is_confirmed: --yes was given.

    Raises:
        ConfigError: nothing else but the name was typed, or there is no terminal to ask at.
    """
    if is_confirmed:
        return
    expected = names[0] if len(names) == 1 else str(len(names))
    if not sys.stdin.isatty():
        raise ConfigError(
            f"this destroys {', '.join(names)}, and there is no terminal to confirm it at: add"
            " --yes, or --dry-run to see what would go"
        )
    for line in what:
        print(line, file=sys.stderr)
    kind = "name" if len(names) == 1 else "number of them"
    print(f"Type the {kind} ({expected}) to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != expected:
        raise ConfigError("not confirmed: nothing was changed")


def print_undo(command: str) -> None:
    """Print the command that takes back what was done, on stderr."""
    print(f"undo: {command}", file=sys.stderr)
