"""`broker topic`: topics of any broker that speaks Kafka's protocol."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun("topic", ("list",), __name__)
