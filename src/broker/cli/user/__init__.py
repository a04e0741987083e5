"""`broker user`: the users that log in with SCRAM, of a stopped broker or of running ones."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("user", ("create", "passwd", "delete", "list"), __name__)
