"""How many connections there may be, and how fast they may come (KIP-402, KIP-612).

    accept           above the rate of the broker or of the listener: not until that is over
       |
    the address      above its number: closed; above its rate: closed, after a time
       |
    the listener     above its number: closed

Above its rate a client that connects again at once would cost as much as before, so its connection
is kept without an answer for a time before it is closed.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

from broker.core.security.quotas.buckets import Buckets
from broker.core.security.quotas.windows import Windows
from broker.model.config import Config
from broker.model.errors import ConfigError
from broker.model.listener import ListenerConfig
from broker.model.setting import INT_MAX

_BROKER: Final = None  # in place of a listener's name


class Refusal(NamedTuple):
    """Why a connection is not served, and when it is closed."""

    reason: str
    after_ms: int = 0


class _Counts(NamedTuple):
    """The limits of a configuration."""

    per_address: int
    of_addresses: dict[str, int]  # those that have their own
    of_listeners: dict[str, int]
    rates: dict[str | None, int]  # of the broker and of listeners, where they are limited


class ConnectionLimits:
    """The open connections by address and by listener, and the rates at which they come."""

    def __init__(
        self,
        config: Config,
        rate_of_address: Callable[[str], float | None],
        now_ms: Callable[[], int],
    ) -> None:
        """Begin without connections.

        Args:
            config: that of the start.
            rate_of_address: returns how many an address may make per second; None: any number.
            now_ms: the monotonic time.
        """
        self._rate_of_address = rate_of_address
        self._now_ms = now_ms
        windows = Windows.of_rates(config)
        self._rates = Buckets(windows.forgiving_bucket, windows.buckets_max, windows.total_ms)
        self._address_rates = Buckets(
            windows.forgiving_bucket, windows.buckets_max, windows.total_ms
        )
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._limits = _limits_of(config)

    def alter(self, config: Config) -> None:
        """Apply another configuration."""
        self._limits = _limits_of(config)

    def pause_ms(self, listener: ListenerConfig) -> int:
        """Return for how long a listener has to accept nothing."""
        limits, now_ms = self._limits.rates, self._now_ms()
        return max(
            (
                self._rates.of(owner, limits[owner], now_ms).excess_ms(0, now_ms)
                for owner in (_BROKER, listener.name)
                if owner in limits
            ),
            default=0,
        )

    def refusal(self, listener: ListenerConfig, address: str) -> Refusal | None:
        """Count an accepted connection; return why it is not served, None: it is.

        One that is served has to be told of once more, by `closed`.
        """
        limits, now_ms = self._limits, self._now_ms()
        for owner in (_BROKER, listener.name):
            if owner in limits.rates:
                self._rates.of(owner, limits.rates[owner], now_ms).add(1, now_ms)
        refusal = self._over_rate(address, now_ms) or self._over_count(listener, address)
        if refusal is None:
            self._by_address[address] += 1
            self._by_listener[listener.name] += 1
        return refusal

    def closed(self, listener: ListenerConfig, address: str) -> None:
        """Forget a connection that was served."""
        for counts, key in ((self._by_address, address), (self._by_listener, listener.name)):
            counts[key] -= 1
            if counts[key] <= 0:
                del counts[key]

    def _over_rate(self, address: str, now_ms: int) -> Refusal | None:
        rate = self._rate_of_address(address)
        if rate is None:
            return None
        rest_ms = self._address_rates.of(address, rate, now_ms).admit(1, now_ms)
        if rest_ms == 0:
            return None
        return Refusal(f"the quota of {address} is {rate:g} connections per second", rest_ms)

    def _over_count(self, listener: ListenerConfig, address: str) -> Refusal | None:
        limits = self._limits
        count_max = limits.of_addresses.get(address, limits.per_address)
        if self._by_address[address] >= count_max:
            return Refusal(f"max.connections.per.ip allows {count_max} of {address}")
        count_max = limits.of_listeners.get(listener.name, INT_MAX)
        if self._by_listener[listener.name] >= count_max:
            return Refusal(f"{listener.prefix}max.connections allows {count_max}")
        return None


def _limits_of(config: Config) -> _Counts:
    rates: dict[str | None, int] = {_BROKER: config.integer("max.connection.creation.rate")}
    of_listeners = {}
    for each in config.listeners:
        own = config.of_listener(each)
        of_listeners[each.name] = own.integer("max.connections")
        rates[each.name] = own.integer("max.connection.creation.rate")
    return _Counts(
        config.integer("max.connections.per.ip"),
        dict(_overrides(config.words("max.connections.per.ip.overrides"))),
        of_listeners,
        {owner: rate for owner, rate in rates.items() if rate < INT_MAX},
    )


def _overrides(words: Iterable[str]) -> Iterable[tuple[str, int]]:
    for word in words:
        address, _, count = word.rpartition(":")
        try:
            yield str(ip_address(address)), int(count)
        except ValueError:
            text = f"max.connections.per.ip.overrides: {word!r:.100}: expected ADDRESS:COUNT"
            raise ConfigError(text) from None
