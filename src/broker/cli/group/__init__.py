"""`broker group`: the groups of a cluster, their offsets, and why they do not consume."""

from broker.cli.frame import Noun

NOUN = Noun(
    "group",
    "See and steer consumer groups.",
    ("list", "describe", "lag", "members", "explain", "seek", "undo", "delete"),
    __name__,
)
