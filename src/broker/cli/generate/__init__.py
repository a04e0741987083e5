"""`broker generate`: files for other programs."""

from typing import Final

from broker.cli.frame import Noun

NOUN: Final = Noun(
    "generate",
    ("client-snippet", "completion", "compose", "grafana", "prometheus-rules", "systemd"),
    __name__,
)
