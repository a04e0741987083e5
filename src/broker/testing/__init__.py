"""A real broker for tests, in a process of its own: fresh for each test, with faults on demand.

    from broker.testing import Broker

    with Broker() as broker:
        broker.create_topic("orders", partitions=3)
        ...  # any Kafka client, with broker.bootstrap_servers
        with broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", count=2):
            ...

    broker.py         Broker: start, stop, kill, pause, reset; topics and records
    faults.py         Faults and BrokerClock: what a test asks of a running broker
    launcher.py       the test process's end of the launcher process
    process.py        the launcher process: imports a broker once, and forks one for each start
    child.py          what runs after the fork: a broker whose clock and requests are steered
    faulty_kafka.py   Kafka's protocol with rules before its handlers
    rules.py          the rules, and which requests they hit
    refusals.py       responses with an error code
    pytest_plugin.py  the fixtures broker, broker_session, topic

docs/testing.md is for users. `broker start` imports none of this. Names are imported when they are
used, so that a test run that does not need a broker pays nothing for the plugin.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.testing.broker import Broker as Broker
    from broker.testing.broker import Record as Record
    from broker.testing.broker import TestingError as TestingError

__all__ = ["Broker", "Record", "TestingError"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from broker.testing import broker  # noqa: PLC0415 - see above

    value: object = getattr(broker, name)
    globals()[name] = value
    return value
