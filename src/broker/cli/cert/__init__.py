"""`broker cert`: an authority and certificates for development and small installations."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("cert", ("ca", "server", "client"), __name__)
