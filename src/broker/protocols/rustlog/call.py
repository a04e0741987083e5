"""The arguments that every handler receives in addition to its request."""

from typing import NamedTuple

from broker._native.protocols.rustlog.counters import RustLogCounters
from broker.core.broker import Broker
from broker.core.session import Session
from broker.protocols.rustlog.form import Form
from broker.protocols.rustlog.lags import Lags


class Call(NamedTuple):
    """The context of one request."""

    session: Session
    form: Form
    counters: RustLogCounters
    lags: Lags

    @property
    def broker(self) -> Broker:
        """The broker's parts."""
        return self.session.broker
