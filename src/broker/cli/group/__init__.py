"""`broker group`: the groups of a cluster, their offsets, and why they do not consume."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun(
    "group",
    ("list", "describe", "lag", "members", "explain", "seek", "undo", "delete"),
    __name__,
)
