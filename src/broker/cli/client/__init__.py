"""`broker client`: who is connected."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("client", ("list",), __name__)
