"""`broker config`: settings of topics, brokers, groups and users."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun(
    "config",
    ("get", "set", "unset", "list", "diff", "lint", "explain", "export", "apply"),
    __name__,
)
