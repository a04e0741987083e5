"""`broker generate prometheus-rules`."""

from typing import NamedTuple

from broker.cli.frame import Session, verb
from broker.cli.monitoring.alerts import rules


class Generated(NamedTuple):
    """The file.

    Attributes:
        file: a name for it.
        text: its text.
    """

    file: str
    text: str


@verb(
    Generated,
    is_single=True,
    is_local=True,
    examples=("broker generate prometheus-rules > polylog.rules.yaml",),
)
def command(session: Session) -> None:
    """Print the alert rules of Prometheus; docs/metrics.md says what to do about each."""
    session.print_text(Generated("polylog.rules.yaml", rules()), "text")
