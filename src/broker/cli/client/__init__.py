"""`broker client`: who is connected to a broker."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun(
    "client",
    ("list",),
    __name__,
)
