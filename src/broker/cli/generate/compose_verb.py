"""`broker generate compose`: the composition of one broker in a container."""

from typing import Final, NamedTuple

from broker.cli.frame import Session, verb

# compose.yaml in the repository is this text; a test compares them.
COMPOSE: Final = """\
# One broker whose records stay in the volume `data`. First: docker build -t polylog .
# Clients of this host connect to localhost:9092. For other machines, publish the port to them and
# name this host in ADVERTISED.
services:
  broker:
    image: polylog
    ports:
      - "127.0.0.1:9092:9092"
    environment:
      BROKER_ADVERTISED_LISTENERS: ${ADVERTISED:-localhost:9092}
      # Everybody who reaches the port may read and write: it is published on loopback only.
      # docs/security/tls.md describes listeners with TLS and logins.
      BROKER_POLYLOG_INSECURE: "true"
    volumes:
      - data:/data
    read_only: true
    tmpfs:
      - /tmp
    cap_drop:
      - ALL
    security_opt:
      - no-new-privileges:true
    restart: unless-stopped
    stop_grace_period: 60s
    ulimits:
      nofile: 65536
volumes:
  data:
"""


class Composition(NamedTuple):
    """The file.

    Attributes:
        file: the name that `docker compose` looks for.
        text: its text.
    """

    file: str
    text: str


@verb(
    Composition,
    is_single=True,
    is_local=True,
    examples=("broker generate compose > compose.yaml",),
)
def command(session: Session) -> None:
    """Print a compose.yaml that runs a broker in a container without a writable root."""
    session.print_text(Composition("compose.yaml", COMPOSE), "text")
