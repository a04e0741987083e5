"""What a start prints once clients are answered; no more than fits on one screen."""

from collections.abc import Sequence

from broker.model.address import Address
from broker.model.config import Config

GROUP_COMMIT_WORDS = (
    "group-commit: an ack comes after a shared fdatasync; it survives a process kill and power loss"
)
OS_WORDS = (
    "os: an ack comes from the page cache; it survives a process kill, power loss takes the last"
    " seconds"
)
INSECURE_WORDS = (
    "none: whoever reaches these addresses reads and writes everything (polylog.insecure=true)"
)

_SNIPPET = """\
  from confluent_kafka import Producer

  producer = Producer({{"bootstrap.servers": "{address}"}})
  producer.produce("greetings", b"hello")
  producer.flush()
"""


def banner(addresses: Sequence[Address], config: Config) -> str:
    """The text for these bound addresses: where, what is kept and how safely, how to connect."""
    durability = GROUP_COMMIT_WORDS if config.is_group_commit else OS_WORDS
    lines = [
        f"polylog broker {config.integer('node.id')} listens on {', '.join(map(str, addresses))}",
        f"  data        {config.data_dir}",
        f"  durability  {durability}",
    ]
    if config.flag("polylog.insecure"):
        lines.append(f"  security    {INSECURE_WORDS}")
    for_kafka = [each for each in addresses if each.protocol in ("", "kafka")]
    if for_kafka:
        lines += ["", _SNIPPET.format(address=_reachable(for_kafka[0]))]
    return "\n".join(lines)


def _reachable(address: Address) -> Address:
    """An address that works on this machine for one that may stand for all."""
    if not address.is_wildcard:
        return address._replace(protocol="")
    return Address("::1" if address.host == "::" else "127.0.0.1", address.port)
