"""`broker profile`: names for the addresses and settings of brokers."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("profile", ("create", "use", "list", "show", "delete"), __name__)
