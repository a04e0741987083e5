"""Transactions of Java producers, of the newest release (protocol version 2) and an older one.

The older release uses version 1: it adds each partition at the coordinator before it writes, and
its epoch does not change at the end of a transaction (KIP-890).
"""

import pytest

from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import Broker

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

PROGRAM = "Transactions.java"
# The exception with which this release's producer reports that the coordinator aborted.
LATE = {"java": "InvalidTxnStateException", "older_java": "ProducerFencedException"}

# The protocol of the consumer whose offsets are sent to the transaction.
PROTOCOL = {"java": "consumer", "older_java": "classic"}


def numbers(*ranges: range) -> str:
    """Return numbers as the program prints a set of them."""
    return str([number for part in ranges for number in part])


@pytest.fixture(params=list(LATE))
def release(request: pytest.FixtureRequest) -> str:
    """Return the name of the fixture that has the jars."""
    name: str = request.param
    return name


@pytest.fixture
def java_of(release: str, request: pytest.FixtureRequest) -> JavaTools:
    """The jars themselves."""
    java: JavaTools = request.getfixturevalue(release)
    return java


def test_committed_records_are_read_and_aborted_and_open_ones_are_not(
    java_of: JavaTools, broker: Broker, topic: str
) -> None:
    seen = java_of.facts(PROGRAM, broker.address, topic, "ends")

    assert seen == {
        "committed": numbers(range(10), range(20, 30)),
        "everything": numbers(range(40)),
        "in the end": numbers(range(10), range(20, 30)),
        "stable": "true",
    }


def test_offsets_sent_to_a_transaction_are_committed_with_it_and_aborted_with_it(
    java_of: JavaTools, broker: Broker, topic: str, release: str
) -> None:
    protocol = f"group.protocol={PROTOCOL[release]}"

    seen = java_of.facts(PROGRAM, broker.address, topic, "offsets", protocol)

    assert seen == {
        "before": "{}",
        "after": "{0=4, 1=3, 2=3}",
        "aborted": "{0=4, 1=3, 2=3}",
        "copied": numbers(range(10)),
    }


def test_a_second_producer_of_the_same_id_aborts_and_fences_the_first(
    java_of: JavaTools, broker: Broker, topic: str
) -> None:
    seen = java_of.facts(PROGRAM, broker.address, topic, "fences")

    assert seen == {
        "old": "InvalidProducerEpochException",
        "committed": numbers(range(10, 20)),
    }


def test_a_transaction_that_exceeds_its_timeout_is_aborted_and_its_producer_is_notified(
    java_of: JavaTools, broker: Broker, topic: str, release: str
) -> None:
    seen = java_of.facts(PROGRAM, broker.address, topic, "expires")

    assert seen == {
        "readers": "[]",
        "late": LATE[release],
        "committed": numbers(range(10, 20)),
    }
