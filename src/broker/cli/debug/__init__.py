"""`broker debug`: what helps whoever is asked for help."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("debug", ("bundle",), __name__)
