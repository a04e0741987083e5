"""`broker topic`: topics of any broker that speaks Kafka's protocol."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun(
    "topic",
    (
        "create",
        "list",
        "describe",
        "alter",
        "delete",
        "rename",
        "clone",
        "trim",
        "produce",
        "consume",
        "tail",
        "search",
        "export",
        "import",
        "offsets",
    ),
    __name__,
)
