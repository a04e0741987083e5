"""What a handler has beside its request."""

from typing import NamedTuple

from broker._native.wire.rustlog_counters import RustLogCounters
from broker.core.broker import Broker
from broker.protocols.rustlog.dialect import Dialect
from broker.protocols.rustlog.lags import Lags


class Call(NamedTuple):
    """One request's surroundings."""

    broker: Broker
    dialect: Dialect
    counters: RustLogCounters
    lags: Lags
