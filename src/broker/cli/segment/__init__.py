"""`broker segment`: the contents and the integrity of segment files."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("segment", ("verify", "dump"), __name__)
