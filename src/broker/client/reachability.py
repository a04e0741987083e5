"""The check before a command begins that a broker responds at the addresses of `--broker`."""

from queue import Empty, SimpleQueue
from threading import Thread

from broker.client.connection import Client
from broker.model.address import Address, parse_addresses
from broker.model.clock import SystemClock
from broker.model.errors import PeerError, Unreachable
from broker.model.limits import CLIENT_REACH_SECONDS

_PROBE_TIMEOUT_SECONDS = 2 * CLIENT_REACH_SECONDS  # longer than `check_reachable` waits for it
_VERSIONS = range(1)  # of ApiVersions: every broker supports version 0


def check_reachable(bootstrap: str) -> None:
    """Return once a broker has responded at one of the addresses.

    Args:
        bootstrap: HOST:PORT, or several separated by commas.

    Raises:
        ConfigError: an address is invalid.
        Unreachable: none responds within CLIENT_REACH_SECONDS.
    """
    addresses = parse_addresses(bootstrap)
    outcomes: SimpleQueue[Unreachable | None] = SimpleQueue()
    for address in addresses:
        # A name lookup has no timeout: its daemon thread may run until the process ends.
        Thread(target=_probe, args=(address, outcomes), daemon=True).start()
    clock = SystemClock()
    end_ms = clock.monotonic_ms() + int(CLIENT_REACH_SECONDS * 1000)
    failures: list[Unreachable] = []
    while len(failures) < len(addresses):
        try:
            failure = outcomes.get(timeout=max(end_ms - clock.monotonic_ms(), 0) / 1000)
        except Empty:
            raise _unreachable(bootstrap, f"no answer within {CLIENT_REACH_SECONDS} s") from None
        if failure is None:
            return
        failures.append(failure)
    raise Unreachable("; ".join(map(str, failures)))


def _probe(address: Address, outcomes: "SimpleQueue[Unreachable | None]") -> None:
    try:
        with Client(address, timeout_seconds=_PROBE_TIMEOUT_SECONDS) as client:
            client.version("ApiVersions", _VERSIONS)
    except Unreachable as error:
        outcomes.put(error)
    except PeerError as error:
        outcomes.put(_unreachable(str(address), str(error)))
    else:
        outcomes.put(None)


def _unreachable(address: str, reason: str) -> Unreachable:
    return Unreachable(
        f"no broker at {address} ({reason}): start one with `broker start`, or name another"
    )
