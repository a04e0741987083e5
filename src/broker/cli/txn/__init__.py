"""`broker txn`: transactions, their producers, and the abortion of those that hang."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun(
    "txn",
    ("list", "describe", "producers", "abort"),
    __name__,
)
