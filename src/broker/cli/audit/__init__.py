"""`broker audit`: the audit's events."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("audit", ("verify",), __name__)
