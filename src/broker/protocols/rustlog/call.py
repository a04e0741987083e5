"""The arguments that every handler receives in addition to its request."""

from typing import NamedTuple

from broker._native.protocols.rustlog.counters import RustLogCounters
from broker.core.broker import Broker
from broker.protocols.rustlog.form import Form
from broker.protocols.rustlog.lags import Lags


class Call(NamedTuple):
    """The context of one request."""

    broker: Broker
    form: Form
    counters: RustLogCounters
    lags: Lags
