"""The text that `broker start` prints once the broker is ready; it fits on one screen."""

from collections.abc import Mapping, Sequence

from broker.cli.client_snippets import Access, python_producer
from broker.model.address import Address
from broker.model.config import Config
from broker.model.listener import ListenerConfig, SecurityProtocol

GROUP_COMMIT_TEXT = (
    "group-commit: an acknowledgement follows a shared fdatasync; the record survives a process"
    " kill and power loss"
)
OS_TEXT = (
    "os: an acknowledgement follows the write to the page cache; the record survives a process"
    " kill, but power loss may lose the last seconds"
)
INSECURE_TEXT = (
    "none: every client that can connect may read and write everything (polylog.insecure=true)"
)


def banner(
    listeners: Sequence[ListenerConfig],
    config: Config,
    workers: Mapping[int, Address] | None = None,
    cluster_id: str | None = None,
) -> str:
    """Return the banner: bound addresses, data directory, durability, and a client snippet.

    Args:
        listeners: those of the broker, or those that all workers share, at their bound addresses.
        config: as it is in force.
        workers: the own address of each worker, by its id.
        cluster_id: of a broker that is one of several.
    """
    durability = GROUP_COMMIT_TEXT if config.is_group_commit else OS_TEXT
    who = f"broker {config.integer('node.id')} listens" if workers is None else "workers listen"
    lines = [f"polylog {who} on {', '.join(map(str, listeners))}"]
    if workers:
        own = ", ".join(f"{number} on {address}" for number, address in workers.items())
        lines.append(f"  workers     {own}")
    if cluster_id is not None:
        store = config.text("polylog.metadata.store")
        lines.append(f"  cluster     {cluster_id}, metadata in {store}")
    lines += [
        f"  data        {config.data_dir}",
        f"  durability  {durability}",
    ]
    if config.flag("polylog.insecure"):
        lines.append(f"  security    {INSECURE_TEXT}")
    for_kafka = [each for each in listeners if each.address.protocol in ("", "kafka")]
    if for_kafka:
        first = min(for_kafka, key=lambda each: each.security is not SecurityProtocol.PLAINTEXT)
        lines += ["", python_producer(_access(first, config), "  ")]
    return "\n".join(lines)


def _access(listener: ListenerConfig, config: Config) -> Access:
    """Return how a client on this machine reaches a listener."""
    mechanism = ""
    if listener.security.has_sasl:
        mechanism, *_ = config.of_listener(listener).words("sasl.enabled.mechanisms")
    return Access(str(_reachable(listener.address)), listener.security.name, mechanism)


def _reachable(address: Address) -> Address:
    """Return an address to connect to on this machine: loopback for a wildcard address."""
    if not address.is_wildcard:
        return address._replace(protocol="")
    return Address("::1" if address.host == "::" else "127.0.0.1", address.port)
