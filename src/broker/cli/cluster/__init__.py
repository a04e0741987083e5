"""`broker cluster`: the brokers of a cluster, and whether they are well."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun(
    "cluster",
    ("info", "health"),
    __name__,
)
