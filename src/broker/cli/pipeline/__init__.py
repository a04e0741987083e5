"""`broker pipeline`: jobs on whole topics, each with a report."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("pipeline", ("archive", "replay", "dedupe", "audit", "lag"), __name__)
