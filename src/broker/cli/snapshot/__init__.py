"""`broker snapshot`: hard links of a running broker's files, to be read without it."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("snapshot", ("create",), __name__)
