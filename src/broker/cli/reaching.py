"""Whether a broker answers where `--broker` says: asked before a command begins."""

from queue import Empty, SimpleQueue
from threading import Thread

from broker.client.connection import Client
from broker.model.address import Address, parse_addresses
from broker.model.clock import SystemClock
from broker.model.errors import PeerError, Unreachable
from broker.model.limits import CLIENT_REACH_SECONDS

_LEFT_BEHIND_SECONDS = 2 * CLIENT_REACH_SECONDS  # of a probe: who waits for it gives up before
_VERSIONS = range(1)  # of ApiVersions: every broker has the first


def check_reachable(bootstrap: str) -> None:
    """Return once a broker has answered at one of the addresses.

    Args:
        bootstrap: HOST:PORT, or several with commas between them.

    Raises:
        ConfigError: that is no address.
        Unreachable: none answers within CLIENT_REACH_SECONDS.
    """
    addresses = parse_addresses(bootstrap)
    outcomes: SimpleQueue[Unreachable | None] = SimpleQueue()
    for address in addresses:
        # No timeout ends a name lookup: its thread is left behind, and ends with the process.
        Thread(target=_probe, args=(address, outcomes), daemon=True).start()
    clock = SystemClock()
    end_ms = clock.monotonic_ms() + int(CLIENT_REACH_SECONDS * 1000)
    failures: list[Unreachable] = []
    while len(failures) < len(addresses):
        try:
            failure = outcomes.get(timeout=max(end_ms - clock.monotonic_ms(), 0) / 1000)
        except Empty:
            raise _nobody(bootstrap, f"no answer within {CLIENT_REACH_SECONDS} s") from None
        if failure is None:
            return
        failures.append(failure)
    raise Unreachable("; ".join(map(str, failures)))


def _probe(address: Address, outcomes: "SimpleQueue[Unreachable | None]") -> None:
    try:
        with Client(address, timeout_seconds=_LEFT_BEHIND_SECONDS) as client:
            client.version("ApiVersions", _VERSIONS)
    except Unreachable as error:
        outcomes.put(error)
    except PeerError as error:
        outcomes.put(_nobody(str(address), str(error)))
    else:
        outcomes.put(None)


def _nobody(address: str, reason: str) -> Unreachable:
    return Unreachable(
        f"no broker at {address} ({reason}): start one with `broker start`, or name another"
    )
